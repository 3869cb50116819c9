"""The slow path: one event at a time, as JSON where it is JSON, by its fields where it is not."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final, NamedTuple

from campaign.trace.events import NO_ID

_LONGEST_EVENT: Final = 1 << 16
_FIELD: Final = r'"{}"\s*:\s*"?(-?\d[\d.]*(?:[eE][-+]?\d+)?)"?\s*[,}}\s]'
_NAME: Final = re.compile(r'"name"\s*:\s*"(.*?)"\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s)"\s*:|\})', re.DOTALL)
_NUMBERS: Final = {key: re.compile(_FIELD.format(key)) for key in ("ts", "dur", "pid", "tid", "correlation")}
_DTYPE_BYTES: Final = {
    "bfloat16": 2, "half": 2, "float16": 2, "float": 4, "float32": 4, "double": 8, "int": 4, "long": 8,
    "byte": 1, "uint8": 1, "int8": 1, "bool": 1,
}  # fmt: skip
#: What 64 bits hold: 292 years.
_LARGEST_NS: Final = (1 << 63) - 1
_LARGEST_EXPONENT: Final = 20


class Event(NamedTuple):
    """The fields of one event that the analysis needs."""

    name: bytes
    start_ns: int
    duration_ns: int
    lane: int
    correlation: int
    group: bytes
    """Label before the device or process id, where a tool that merges files wrote one."""
    place: int
    """Device or process id."""


class Collective(NamedTuple):
    """The arguments of one collective's kernel."""

    kernel: bytes
    message_bytes: int | None
    group_size: int | None
    dtype: str


def read_event(buffer: bytes, anchor: int, limit: int) -> Event | None:
    """The event whose category stands at `anchor` and that ends before `limit`; None where it cannot be read."""
    fields = _object_at(buffer, anchor, limit)
    if fields is not None:
        return _from_fields(fields)
    start = buffer.rfind(b"{", 0, anchor)
    stop = _next_event(buffer, anchor, limit)
    return _from_text(buffer[max(start, 0) : stop].decode("utf-8", "replace"))


def read_collective(buffer: bytes, anchor: int, limit: int) -> Collective | None:
    """The collective's arguments of the kernel at `anchor`; None where they cannot be read."""
    fields = _object_at(buffer, anchor, limit)
    arguments = fields.get("args") if fields is not None else None
    if fields is None or not isinstance(arguments, dict):
        return None
    dtype = str(arguments.get("dtype", ""))
    elements = _integer(arguments.get("In msg nelems"))
    width = _DTYPE_BYTES.get(dtype.lower())
    size = elements * width if elements is not None and width is not None else None
    name = str(fields.get("name", "")).encode("utf-8", "replace")
    return Collective(name, size, _integer(arguments.get("Group size")), dtype)


def nanoseconds(value: object) -> int | None:
    """Microseconds as text or number → whole nanoseconds; None for what is no finite number."""
    try:
        exact = Decimal(str(value)) * 1000
        if exact.adjusted() > _LARGEST_EXPONENT:  # 1e999998 would become an integer of a million digits
            return None
        count = int(exact.to_integral_value())
    except (ArithmeticError, ValueError):  # what decimal signals, Overflow among them, is an ArithmeticError
        return None
    return count if -_LARGEST_NS < count < _LARGEST_NS else None


def _integer(value: object) -> int | None:
    digits = re.search(r"-?\d+", str(value)) if value is not None else None
    return int(digits.group()) if digits is not None and len(digits.group()) < 19 else None


def _object_at(buffer: bytes, anchor: int, limit: int) -> dict[str, Any] | None:
    """The JSON object around `anchor`: walk back over objects that close before it (arguments written first)."""
    start, floor = anchor, max(0, anchor - _LONGEST_EVENT)
    for _ in range(16):
        start = buffer.rfind(b"{", floor, start)
        if start < 0:
            return None
        stop = _object_end(buffer, start, min(len(buffer), max(limit, anchor) + _LONGEST_EVENT))
        if stop <= anchor:
            continue
        try:
            text = buffer[start:stop].decode("utf-8", "replace")
            fields = json.loads(text, strict=False, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            return None
        return fields if isinstance(fields, dict) and "cat" in fields else None
    return None


def _object_end(buffer: bytes, start: int, limit: int) -> int:
    """Just past the brace that closes the one at `start`, strings respected; `limit` where none does."""
    depth = 0
    for match in re.finditer(rb'"(?:[^"\\]|\\.)*"|[{}]', buffer[start:limit], re.DOTALL):
        token = match.group()
        if token == b"{":
            depth += 1
        elif token == b"}":
            depth -= 1
            if depth == 0:
                return start + match.end()
    return limit


def _next_event(buffer: bytes, anchor: int, limit: int) -> int:
    """Where the next event begins: the brace before its category."""
    if limit >= len(buffer):
        return min(limit, anchor + _LONGEST_EVENT)
    brace = buffer.rfind(b"{", anchor, limit)
    return brace if brace > anchor else limit


def _from_fields(fields: dict[str, Any]) -> Event | None:
    start, duration = nanoseconds(fields.get("ts")), nanoseconds(fields.get("dur"))
    if start is None or duration is None:
        return None
    arguments = fields.get("args")
    correlation = _integer(arguments.get("correlation")) if isinstance(arguments, dict) else None
    name = str(fields.get("name", "")).encode("utf-8", "replace")
    lane = _integer(fields.get("tid"))
    group, place = _place(fields.get("pid"))
    return Event(name, start, duration, lane or 0, NO_ID if correlation is None else correlation, group, place)


def _place(value: object) -> tuple[bytes, int]:
    """`0` → (no label, 0), `"[TP01] 0"` → ("[TP01]", 0)."""
    match = re.search(r"(\d{1,9})\s*$", str(value))
    if match is None:
        return b"", 0
    label = str(value)[: match.start()].strip() if isinstance(value, str) else ""
    return label.encode("utf-8", "replace"), int(match.group(1))


def _from_text(text: str) -> Event | None:
    name = _NAME.search(text)
    found = {key: pattern.search(text) for key, pattern in _NUMBERS.items()}
    start = nanoseconds(found["ts"].group(1)) if found["ts"] else None
    duration = nanoseconds(found["dur"].group(1)) if found["dur"] else None
    if name is None or start is None or duration is None:
        return None
    lane = _integer(found["tid"].group(1)) if found["tid"] else None
    correlation = _integer(found["correlation"].group(1)) if found["correlation"] else None
    raw = name.group(1).encode("utf-8", "replace")
    _, place = _place(found["pid"].group(1) if found["pid"] else None)
    return Event(raw, start, duration, lane or 0, NO_ID if correlation is None else correlation, b"", place)
