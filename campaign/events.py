"""The event log of a campaign: what happened when, and each state, so that a spoiled campaign.json can be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from campaign import files, schema
from campaign.measurement import now_utc

#: Stands for an event that changed no state.
NO_STATE = msgspec.Raw(b"")


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of state/events.jsonl."""

    at: str
    what: str
    """What happened, a few words."""
    phase: str = ""
    detail: str = ""
    state: msgspec.Raw = NO_STATE
    """The whole (small) state after it, so that a spoiled campaign.json can be rebuilt."""
    state_hash: str = ""
    """Hash of campaign.json as it was saved with this event."""

    @property
    def is_sound(self) -> bool:
        """Whether the state in it is the one that was saved."""
        data = bytes(self.state)
        if not data:
            return False
        return not self.state_hash or schema.content_hash(schema.pretty(data)) == self.state_hash


#: A longer event log is shortened when a runner opens the folder.
EVENTS_LIMIT_BYTES = 4 << 20
#: So many events stay in a shortened log, and of these the newest keep their states.
KEPT_EVENTS, KEPT_STATES = 5000, 20


class EventLog:
    """The file state/events.jsonl: append-only, a torn last line is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, event: Event) -> None:
        """Append an event and see it on disk. Raises `StorageError` naming the disk."""
        files.append_line(self.path, schema.encode(event))

    def note(self, what: str, *, phase: str = "", detail: str = "") -> None:
        """An event that changes no state."""
        self.append(Event(at=now_utc(), what=what, phase=phase, detail=detail))

    def is_begun(self) -> bool:
        """Whether it holds any event; a log whose first line was torn does not."""
        return any(_event(line) is not None for line in files.read_whole_lines(self.path))

    def states(self) -> Iterator[Event]:
        """Events whose states are sound, the newest first."""
        for line in reversed(files.read_whole_lines(self.path)):
            event = _event(line)
            if event is not None and event.is_sound:
                yield event

    def shorten(self, limit_bytes: int = EVENTS_LIMIT_BYTES) -> bool:
        """Drop old events, and the states of all but the newest, from a log above the limit; says whether it did."""
        try:
            if self.path.stat().st_size <= limit_bytes:
                return False
        except OSError:
            return False
        kept: list[bytes] = []
        states = 0
        for line in reversed(files.read_whole_lines(self.path)):
            event = _event(line)
            if event is None:
                continue
            states += event.is_sound
            if states > KEPT_STATES:
                event = msgspec.structs.replace(event, state=NO_STATE, state_hash="")
            kept.append(schema.encode(event))
            if len(kept) == KEPT_EVENTS:
                break
        files.write_atomic(self.path, b"".join(line + b"\n" for line in reversed(kept)))
        return True


def _event(line: bytes) -> Event | None:
    try:
        return schema.decode(line, Event)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
