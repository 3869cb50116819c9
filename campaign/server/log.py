"""A server's log, followed while it is written: load phase, how far, times, and the root cause of a death."""

from __future__ import annotations

import calendar
import itertools
import re
import time
from collections import deque
from pathlib import Path

import msgspec

from campaign.server import phrases

#: So many lines of an exception's message are kept.
_MESSAGE_LINES = 4
_STAMP = "%m-%d %H:%M:%S"


class LoadProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a load is."""

    load_phase: str = "starting"
    """The load phase, one of `phrases.LOAD_PHASES`."""
    progress: float | None = None
    """Fraction of that load phase, where the log tells."""
    detail: str = ""
    """The count behind the fraction, e.g. `12/35`."""
    elapsed_s: float = 0.0
    """Seconds since the server's start."""
    eta_s: float | None = None
    """Seconds to go, learnt from earlier loads of the same spec."""
    last_line: str = ""
    """The newest line with text."""


class RootCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a server died, as far as its log tells."""

    text: str
    """The first exception's message, or the fatal line."""
    advice: str = ""
    """What to try."""
    is_transient: bool = False
    """Whether a later attempt can go well without a change."""
    is_known: bool = False
    """Whether it is one of the known ways to die."""


class LogReader:
    """Reads what is new in a log each time it is asked; keeps what matters of what it has read."""

    def __init__(self, path: Path, offset: int = 0, started_at: float | None = None) -> None:
        self._path = path
        self._offset = offset
        self._pending = b""
        self.load_phase = "starting"
        self.progress: float | None = None
        self.detail = ""
        self.last_line = ""
        self.fatal_line = ""
        self.size_bytes = 0
        """Bytes of the log read so far."""
        self.phases: list[str] = ["starting"]
        """Load phases seen, in order."""
        self.times: dict[str, float] = {}
        """When each was first seen by the log's own clock, seconds since a year's beginning."""
        self.tail: deque[str] = deque(maxlen=40)
        """The newest lines."""
        self._first_time = None if started_at is None else _seconds(time.strftime(_STAMP, time.localtime(started_at)))
        self._newest_time: float | None = None
        self._exceptions: list[str] = []
        self._open_message: list[str] | None = None
        self._causes: dict[int, str] = {}

    def poll(self) -> bool:
        """Read what is new; returns whether anything was."""
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                data = log.read()
        except FileNotFoundError:
            return False
        if not data:
            return False
        self._offset += len(data)
        self.size_bytes += len(data)
        pieces = re.split(rb"[\r\n]", self._pending + data)
        self._pending = pieces.pop()
        for piece in pieces:
            self._take(piece.decode("utf-8", "replace"))
        return True

    def finish(self) -> None:
        """Read to the end, with the last line even if it has no newline (its writer is dead)."""
        self.poll()
        self._take(self._pending.decode("utf-8", "replace"))
        self._pending = b""
        self._close_message()

    def phase_seconds(self) -> dict[str, float]:
        """Seconds between each load phase's first line and the next one's, by the log's own clock (1 s steps)."""
        begins = [("starting", self._first_time), *((phase, self.times.get(phase)) for phase in self.phases[1:])]
        known = [(phase, at) for phase, at in begins if at is not None]
        return {phase: max(0.0, after[1] - at) for (phase, at), after in itertools.pairwise(known)}

    def root_cause(self) -> RootCause | None:
        """The cause of a death; None where the log shows none."""
        self._close_message()
        own = [text for text in self._exceptions if not any(phrase in text for phrase in phrases.REPORTS_ANOTHER)]
        texts = [*own[:1], *(self._causes[index] for index in sorted(self._causes)), *own[1:]]
        if not texts:
            return self._killed_from_outside()
        for text in texts:
            for cause in phrases.CAUSES:
                if re.search(cause.pattern, text):
                    shown = own[0] if own and text not in own else text
                    return RootCause(text=shown, advice=cause.advice, is_transient=cause.is_transient, is_known=True)
        return RootCause(text=texts[0])

    def _killed_from_outside(self) -> RootCause | None:
        """Processes that report each other's end, and none with an error of its own: one of them was killed."""
        reports = [self.fatal_line] if self.fatal_line else self._exceptions[:1]
        if not reports:
            return None
        return RootCause(
            text=reports[0],
            advice="No error stands before it: one of its processes was killed from outside. Run again.",
            is_transient=True,
        )

    def _take(self, raw: str) -> None:
        line = raw.rstrip()
        if not line.strip():
            return
        self.tail.append(line)
        self.last_line = line.strip()
        if self._take_bar(line):
            return
        match = phrases.LINE.match(line)
        assert match is not None  # every part of the pattern may be missing
        text, level = match["text"], match["level"]
        if match["time"]:
            self._newest_time = _seconds(match["time"])
            self._first_time = self._newest_time if self._first_time is None else self._first_time
        self._take_phase(text)
        if level not in ("DEBUG", "INFO", "WARNING"):
            self._take_trouble(text)
        else:
            self._close_message()

    def _take_bar(self, line: str) -> bool:
        bar = phrases.BAR.match(line)
        if bar is None:
            return False
        self._take_phase(bar["what"])
        if any(start in bar["what"] and phase == self.load_phase for start, phase in phrases.PHASE_LINES):
            total = int(bar["total"])
            self.progress = int(bar["done"]) / total if total else None
            self.detail = f"{bar['done']}/{bar['total']}"
        return True

    def _take_phase(self, text: str) -> None:
        order = phrases.LOAD_PHASES
        for start, phase in phrases.PHASE_LINES:
            if start in text and order.index(phase) > order.index(self.load_phase):
                self.load_phase, self.progress, self.detail = phase, None, ""
                self.phases.append(phase)
                if self._newest_time is not None:
                    self.times[phase] = self._newest_time
                return

    def _take_trouble(self, text: str) -> None:
        if not self.fatal_line and any(phrase in text for phrase in phrases.FATAL_LINES):
            self.fatal_line = text.strip()
        for index, cause in enumerate(phrases.CAUSES):
            if index not in self._causes and re.search(cause.pattern, text):
                self._causes[index] = text.strip()
        if phrases.EXCEPTION.match(text):
            self._close_message()
            self._open_message = [text.strip()]
        elif self._open_message is not None:
            is_continued = text.startswith((" ", "\t")) and len(self._open_message) < _MESSAGE_LINES
            if is_continued:
                self._open_message.append(text.strip())
            else:
                self._close_message()

    def _close_message(self) -> None:
        if self._open_message is not None:
            self._exceptions.append(" ".join(self._open_message))
            self._open_message = None


def _seconds(stamp: str) -> float:
    """Seconds since the year's beginning of `MM-DD HH:MM:SS` (a log does not name its year)."""
    month, day, hour, minute, second = (int(part) for part in re.split(r"[- :]", stamp))
    return float(calendar.timegm((1972, month, day, hour, minute, second)) - calendar.timegm((1972, 1, 1, 0, 0, 0)))


def tail_text(path: Path, lines: int = 40, offset: int = 0) -> str:
    """The last lines of a log, with bars resolved to their newest state."""
    try:
        data = path.read_bytes()[offset:]
    except FileNotFoundError:
        return ""
    rows = [row.split("\r")[-1] for row in data.decode("utf-8", "replace").split("\n")]
    return "\n".join(rows[-lines - 1 :]).strip("\n")
