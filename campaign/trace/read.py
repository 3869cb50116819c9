"""One trace file → `Trace`: pieces cut between events, scanned, filtered; every problem is listed."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from campaign.trace import events
from campaign.trace.events import CollectiveArguments, Columns, Flags, Spans, Trace
from campaign.trace.scan import PAD_BYTES, scan_piece
from campaign.trace.source import PIECE_BYTES, pieces

_BETWEEN: Final = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:ph|name|cat|pid|tid|ts|args|dur|id|s|bp)\")")
#: The end of the last event and of the list of events.
_LIST_END: Final = re.compile(rb"\}\s*\]")
_LONGEST_CARRY: Final = 16 * PIECE_BYTES
_TAIL_BYTES: Final = 1 << 16
_HEAD_BYTES: Final = 1 << 18
#: No event of a profile lasts an hour; CUPTI has been seen to write 236 years.
_LONGEST_NS: Final = 3600 * 10**9
_DAY_NS: Final = 86_400 * 10**9
_RANK_IN_NAME: Final = re.compile(r"(?:rank|TP-|tp)[_-]?(\d+)", re.IGNORECASE)
_DEVICE_CODES: Final = (events.KERNEL, events.MEMCPY, events.MEMSET)


def read_json(path: Path, progress: Callable[[float], None] | None = None) -> Trace:
    """Read a Chrome trace, .json or .json.gz, whole or damaged; raises `TraceError` where it cannot be opened."""
    problems: list[str] = []
    columns, edges = Columns(), _Edges()
    carry, total, done = b"", max(1, path.stat().st_size), 0
    for block in pieces(path, problems):
        done += len(block)
        size = len(carry) + len(block)
        buffer = b"".join((carry, block, bytes(PAD_BYTES)))
        edges.see(buffer, size)
        cut = _last_boundary(buffer)
        if cut == 0 and size > _LONGEST_CARRY:
            cut = size
        scan_piece(buffer, cut, columns)
        carry = buffer[cut:size]
        if progress is not None:
            progress(min(0.99, done / total))
    if columns.events and not _LIST_END.search(carry):
        problems.append("the file ends in the middle: it is cut; the whole events before the cut are used")
        carry = carry if carry.rstrip().endswith(b"}") else b""
    if carry:
        scan_piece(carry + bytes(PAD_BYTES), len(carry), columns)
    return _trace(path, columns, edges, problems)


def _last_boundary(buffer: bytes) -> int:
    """Where the last event of the piece begins; 0 = nowhere to cut."""
    cut = buffer.rfind(b"\n  },\n  {\n")
    if cut >= 0:
        return cut + 6
    for window in (_TAIL_BYTES, len(buffer)):
        base = max(0, len(buffer) - window)
        found = deque(_BETWEEN.finditer(buffer, base), maxlen=1)
        if found:
            return found[0].end()
    return 0


class _Edges:
    """The metadata before and after the events."""

    def __init__(self) -> None:
        self.head = b""
        self.tail = b""

    def see(self, buffer: bytes, size: int) -> None:
        """Keep the first and the last bytes of the file."""
        if not self.head:
            self.head = buffer[: min(size, _HEAD_BYTES)]
        self.tail = buffer[max(0, size - _TAIL_BYTES) : size]

    def value(self, key: str) -> Any:
        """The JSON value of a top-level key, from before or after the events; None where it is not there."""
        for text in (self.head, self.tail):
            match = re.search(rb'"' + key.encode() + rb'"\s*:\s*', text)
            if match is not None:
                try:
                    return json.JSONDecoder().raw_decode(text[match.end() :].decode("utf-8", "replace"))[0]
                except ValueError:
                    continue
        return None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None


def _trace(path: Path, columns: Columns, edges: _Edges, problems: list[str]) -> Trace:
    if columns.lost:
        problems.append(f"{columns.lost} of {columns.wanted} events could not be read and are left out")
    if columns.kept + columns.lost != columns.wanted:
        problems.append(f"{columns.wanted} events announced, {columns.kept + columns.lost} accounted for")
    spans = plausible(columns.spans(), problems)
    distributed = edges.value("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    devices = edges.value("deviceProperties")
    device = (
        devices[0].get("name", "") if isinstance(devices, list) and devices and isinstance(devices[0], dict) else ""
    )
    device_spans = spans.take(np.isin(spans.code, _DEVICE_CODES)).sorted()
    if not columns.events and not len(spans):
        problems.append("holds no trace events")
    notes = [f"{columns.careful} events were read one by one"] if columns.careful else []
    return Trace(
        path=str(path),
        rank=_rank(path, distributed),
        world_size=_integer(distributed.get("world_size")),
        base_ns=_integer(edges.value("baseTimeNanoseconds")) or 0,
        device_name=str(device),
        events=columns.events,
        names=tuple(_decoded(raw) for raw in columns.names),
        device=device_spans,
        launches=spans.take(spans.code == events.LAUNCH).sorted(),
        ops=spans.take(spans.code == events.OP).sorted(),
        annotations=spans.take(spans.code == events.ANNOTATION).sorted(),
        device_annotations=spans.take(spans.code == events.DEVICE_ANNOTATION).sorted(),
        collectives=tuple(CollectiveArguments(*key) for key in columns.collectives),
        problems=tuple(problems),
        notes=tuple(notes),
        groups=tuple(raw.decode("utf-8", "replace") for raw in columns.groups),
        is_frontend=".async_llm." in path.name,
    )


def _rank(path: Path, distributed: dict[str, Any]) -> int | None:
    rank = _integer(distributed.get("rank"))
    if rank is not None:
        return rank
    return rank_in(path.name)


def rank_in(label: str) -> int | None:
    """The rank that a file's name or a process label tells; None where none."""
    found = _RANK_IN_NAME.findall(label)
    return int(found[-1]) if found else None


def _decoded(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if "\\" in text:
        try:
            return str(json.loads(f'"{text}"', strict=False))
        except ValueError:
            return text
    return text


def plausible(spans: Spans, problems: list[str]) -> Spans:
    """Without impossible times and exact duplicates; what is dropped is counted."""
    if not len(spans):
        return spans
    is_negative = spans.duration_ns < 0
    is_endless = spans.duration_ns > _longest_possible(spans)
    is_far = np.abs(spans.start_ns - int(np.median(spans.start_ns))) > _DAY_NS
    for flags, what in (
        (is_negative, "negative durations"),
        (is_endless & ~is_negative, "durations beyond the trace's span"),
        (is_far & ~is_endless & ~is_negative, "starts more than a day from the others"),
    ):
        if flags.any():
            problems.append(f"{int(flags.sum())} events with {what} are left out")
    spans = spans.take(~(is_negative | is_endless | is_far))
    is_again = _repeats(spans)
    if is_again.any():
        problems.append(f"{int(is_again.sum())} exact duplicates of events are left out")
        spans = spans.take(~is_again)
    return spans


def _longest_possible(spans: Spans) -> int:
    """The span of the starts of annotations and device events, doubled (the last one may run on), an hour at most."""
    start = spans.start_ns[np.abs(spans.start_ns - int(np.median(spans.start_ns))) <= _DAY_NS]
    span = int(start.max() - start.min()) if len(start) > 1 else _LONGEST_NS
    return min(_LONGEST_NS, 2 * span + 10**9)


def _repeats(spans: Spans) -> Flags:
    """Which events have an equal before them: same time, name, lane and correlation. Host ops are left alone."""
    columns = (
        spans.place, spans.correlation, spans.lane, spans.name, spans.code, spans.duration_ns, spans.start_ns,
    )  # fmt: skip
    order = np.lexsort(columns)
    is_same = np.ones(len(order) - 1, bool) if len(order) else np.zeros(0, bool)
    for column in columns:
        values = column[order]
        is_same &= values[1:] == values[:-1]
    again = np.zeros(len(order), bool)
    again[order[1:]] = is_same
    unwanted: Flags = again & ((spans.duration_ns > 0) | (spans.code != events.OP))
    return unwanted
