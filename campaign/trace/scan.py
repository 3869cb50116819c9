"""The fast path: every event of a piece of a Chrome trace at once, by the positions of its quotation marks.

The writers that exist (torch's three layouts, json.dump with any spacing) put `cat, name, pid, tid, ts, dur` in this
order and differ in white space alone. An event that does not have exactly this shape goes event by event through
`careful`; kept + lost is compared with the number of categories in the bytes, so nothing is lost in silence.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from campaign.trace import careful, events
from campaign.trace.events import Columns, Flags, Ints

Bytes = npt.NDArray[np.uint8]

#: Bytes that must follow a piece.
PAD_BYTES: Final = 64
_QUOTES_A_HEAD: Final = 16
_TIME_WIDTH: Final = 24
_ID_WIDTH: Final = 12
#: Before the point: microseconds since 1970, as older profilers write them. With three more behind the point such a
#: number fits into 64 bits where its first digit is below 9.
_MOST_DIGITS: Final = 16
_POWERS: Final = np.array([10**i for i in range(19)] + [0] * 40, np.int64)
_NO_POWER: Final = 30

#: (first letter, length) of a category → code. Other categories are counted as events and passed over.
_CATEGORIES: Final = {
    (b"k"[0], 6): events.KERNEL,
    (b"g"[0], 10): events.MEMCPY,
    (b"c"[0], 12): events.LAUNCH,
    (b"c"[0], 11): events.LAUNCH,
    (b"h"[0], 11): events.LAUNCH,
    (b"u"[0], 15): events.ANNOTATION,
    (b"g"[0], 19): events.DEVICE_ANNOTATION,
    (b"c"[0], 6): events.OP,
}


def scan_piece(buffer: bytes, size: int, columns: Columns) -> None:
    """Add every event in the first `size` bytes (whole events, but for a cut end of the file) to `columns`.

    At least `PAD_BYTES` follow them in `buffer`, so that every look ahead stays inside.
    """
    data = np.frombuffer(buffer, np.uint8)
    quotes = np.flatnonzero(data[:size] == 34)
    letters = data[1:][quotes]
    columns.events += _count_keys(data, quotes, letters, b"ph")
    quotes = np.concatenate([quotes, np.full(_QUOTES_A_HEAD + 2, size)])
    c_index = np.flatnonzero(letters == 99)
    anchors = _keys(data, quotes, c_index, b"cat")
    if not len(anchors):
        return
    code = _codes(data, quotes, anchors)
    wanted = np.flatnonzero(code)
    columns.wanted += len(wanted)
    head = anchors[wanted]
    is_whole = _has_shape(data, quotes, head)
    start, start_ok = _thousandths(data, _value_at(data, quotes[head + 13]), _TIME_WIDTH, is_whole)
    duration, duration_ok = _thousandths(data, _value_at(data, quotes[head + 15]), _TIME_WIDTH, is_whole)
    lane, lane_ok = _thousandths(data, _value_at(data, quotes[head + 11]), _ID_WIDTH, is_whole)
    place, place_ok = _thousandths(data, _value_at(data, quotes[head + 9]), _ID_WIDTH, is_whole)
    is_good = is_whole & start_ok & duration_ok & lane_ok & place_ok
    good = np.flatnonzero(is_good)
    correlation = _correlations(data, quotes, c_index, anchors)
    name = _names(buffer, columns, quotes[head[good] + 6] + 1, quotes[head[good] + 7])
    kinds = code[wanted[good]].astype(np.int64)
    lane, place = lane[good] // 1000, place[good] // 1000
    columns.add((kinds, start[good], duration[good], name, lane, correlation[wanted[good]], place))
    left = wanted[~is_good]
    if len(left):
        _scan_carefully(buffer[:size], columns, quotes[anchors], code=code, left=left)
    named = _keys(data, quotes, np.flatnonzero(letters == 67), b"Collective name")
    owners = np.searchsorted(anchors, named) - 1
    owners = owners[(owners >= 0) & (code[np.maximum(owners, 0)] == events.KERNEL)]
    if len(owners):
        _owned_collectives(buffer[:size], columns, quotes[anchors], owners)


def _count_keys(data: Bytes, quotes: Ints, letters: Bytes, key: bytes) -> int:
    at = quotes[letters == key[0]]
    return int(np.count_nonzero((data[at + 2] == key[1]) & (data[at + 3] == 34)))


def _keys(data: Bytes, quotes: Ints, index: Ints, key: bytes) -> Ints:
    """Of the quotation marks at `index`, those that open `"key":`."""
    at = quotes[index]
    is_key = quotes[index + 1] - at == len(key) + 1
    index, at = index[is_key], at[is_key]
    is_key = data[at + len(key) + 2] == 58
    for offset, letter in enumerate(key[1:], start=2):
        is_key &= data[at + offset] == letter
    kept: Ints = index[is_key]
    return kept


def _codes(data: Bytes, quotes: Ints, anchors: Ints) -> npt.NDArray[np.int8]:
    at = quotes[anchors + 2]
    length = quotes[anchors + 3] - at - 1
    letter = data[at + 1]
    code = np.zeros(len(anchors), np.int8)
    for (first, letters), value in _CATEGORIES.items():
        code[(letter == first) & (length == letters)] = value
    code[(code == events.OP) & (data[at + 2] != b"p"[0])] = 0
    code[(code == events.LAUNCH) & (letter == b"c"[0]) & (data[at + 2] != b"u"[0])] = 0
    code[(code == events.MEMCPY) & (data[at + 8] == b"s"[0])] = events.MEMSET
    return code


def _has_shape(data: Bytes, quotes: Ints, head: Ints) -> Flags:
    """Whether `name, pid, tid, ts, dur` follow the category, each where it belongs."""
    name, opened = quotes[head + 5], quotes[head + 6]
    is_whole: Flags = (data[name + 1] == 58) & (opened - name <= 3) & (quotes[head + 4] - quotes[head + 3] <= 24)
    for offset, key in ((4, b"name"), (8, b"pid"), (10, b"tid"), (12, b"ts"), (14, b"dur")):
        at = quotes[head + offset]
        is_whole &= (quotes[head + offset + 1] - at == len(key) + 1) & (data[at + len(key) + 2] == 58)
        is_whole &= (data[at + 1] == key[0]) & (data[at + 2] == key[1])
    is_whole &= data[quotes[head + 7] - 1] != 92
    return is_whole


def _value_at(data: Bytes, closing: Ints) -> Ints:
    """Where the value begins after a key's closing quotation mark."""
    at = np.minimum(closing + 2, len(data) - PAD_BYTES)
    begin: Ints = at + (data[at] == 32)
    return begin


def _thousandths(data: Bytes, at: Ints, width: int, is_asked: Flags) -> tuple[Ints, Flags]:
    """Decimal numbers times 1000 as exact integers; False where the text is no plain number of ≤ 3 decimals."""
    value, is_good = np.zeros(len(at), np.int64), np.zeros(len(at), bool)
    asked = np.flatnonzero(is_asked)
    if not len(asked):
        return value, is_good
    at = at[asked]
    is_negative = data[at] == 45
    columns = np.arange(width)
    text = data[(at + is_negative)[:, None] + columns] if len(at) else np.zeros((0, width), np.uint8)
    digit = text - np.uint8(48)
    is_digit, is_dot = digit < 10, text == 46
    stop = np.argmin(is_digit | is_dot, axis=1)
    dot = np.argmax(is_dot, axis=1)
    dot = np.where(is_dot.any(axis=1) & (dot < stop), dot, stop)
    last = text[np.arange(len(at)), stop]
    fine = (dot > 0) & (dot <= _MOST_DIGITS) & (stop - dot <= 4) & np.isin(last, (44, 10, 32, 125, 13, 9))
    fine &= (dot < _MOST_DIGITS) | (digit[:, 0] < 9)
    fine &= np.count_nonzero(is_dot & (columns < stop[:, None]), axis=1) <= 1
    value[asked] = _weigh(digit, dot, stop) * np.where(is_negative, -1, 1)
    is_good[asked] = fine
    return value, is_good


def _weigh(digit: Bytes, dot: Ints, stop: Ints) -> Ints:
    """Sum of the digits times their power of ten, in thousandths; anything where it has more than `_MOST_DIGITS`."""
    first_dot, first_stop = int(dot[0]), int(stop[0])
    is_plain = first_dot <= _MOST_DIGITS and first_stop - first_dot in (0, 4)
    if is_plain and (dot == first_dot).all() and (stop == first_stop).all():
        places = [j for j in range(first_stop) if j != first_dot]
        weights = np.array([10 ** (first_dot + (2 if j < first_dot else 3) - j) for j in places], np.int64)
        return digit[:, places].astype(np.int64) @ weights
    columns = np.arange(digit.shape[1])
    exponent = dot[:, None] + 2 - columns + (columns > dot[:, None])
    exponent[(columns == dot[:, None]) | (columns >= stop[:, None])] = _NO_POWER
    exponent[exponent < 0] = _NO_POWER
    weighed: Ints = (digit.astype(np.int64) * _POWERS[exponent]).sum(axis=1)
    return weighed


def _correlations(data: Bytes, quotes: Ints, c_index: Ints, anchors: Ints) -> Ints:
    """The correlation id of each event: the first such key between its category and the next event's."""
    correlation = np.full(len(anchors), events.NO_ID, np.int64)
    keys = _keys(data, quotes, c_index, b"correlation")
    if len(keys):
        at = _value_at(data, quotes[keys + 1])
        value, is_good = _thousandths(data, at, _ID_WIDTH, np.ones(len(keys), bool))
        owner = np.searchsorted(anchors, keys) - 1
        fine = np.flatnonzero(is_good & (owner >= 0))[::-1]
        correlation[owner[fine]] = value[fine] // 1000
    return correlation


def _names(buffer: bytes, columns: Columns, start: Ints, stop: Ints) -> Ints:
    number = columns.names.setdefault
    names = columns.names
    pairs = zip(start.tolist(), stop.tolist(), strict=True)
    return np.fromiter((number(buffer[a:b], len(names)) for a, b in pairs), np.int64, len(start))


def _scan_carefully(piece: bytes, columns: Columns, positions: Ints, *, code: npt.NDArray[np.int8], left: Ints) -> None:
    """Event by event what the fast path could not take; what cannot be read at all is counted as lost."""
    rows: list[tuple[int, ...]] = []
    for index in left.tolist():
        limit = int(positions[index + 1]) if index + 1 < len(positions) else len(piece)
        event = careful.read_event(piece, int(positions[index]), limit)
        columns.careful += 1
        if event is None:
            columns.lost += 1
            continue
        name = columns.name_id(event.name)
        place = columns.place_id(event.group, event.place)
        rows.append((int(code[index]), event.start_ns, event.duration_ns, name, event.lane, event.correlation, place))
    if rows:
        table = np.array(rows, np.int64)
        code_, start, duration, name_, lane, correlation, place_ = table.T
        columns.add((code_, start, duration, name_, lane, correlation, place_))


def _owned_collectives(piece: bytes, columns: Columns, positions: Ints, owners: Ints) -> None:
    """Message sizes of the collectives whose kernels carry them (calls through c10d, not replayed)."""
    for owner in owners.tolist():
        limit = int(positions[owner + 1]) if owner + 1 < len(positions) else len(piece)
        found = careful.read_collective(piece, int(positions[owner]), limit)
        if found is not None:
            key = (columns.name_id(found.kernel), found.message_bytes, found.group_size, found.dtype)
            columns.collectives[key] = columns.collectives.get(key, 0) + 1
