"""Every request's raw times in one compact file: a line a cell, times as differences in microseconds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from campaign import files, schema
from campaign.load.record import Record


class RawRequest(msgspec.Struct, frozen=True, array_like=True):
    """One request; times in µs."""

    index: int
    due_us: int | None
    """Intended send from the start of the cell; null in a closed loop."""
    sent_us: int | None
    """Actual send from the start of the cell."""
    first_us: int | None
    """First content event, from the send."""
    gaps_us: tuple[int, ...]
    """Gaps between content events; their sum is exact to 1 µs, not each of them."""
    tokens: int | tuple[int, ...] | None
    """Tokens of each event: one number where all are alike; null = unknown."""
    input_tokens: int | None
    output_tokens: int | None
    end_us: int | None
    """End of the exchange, from the start of the cell."""
    error: str


class RawCell(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the file."""

    cell: str
    """Key of the point."""
    seed: int
    """Its seed."""
    requests: tuple[RawRequest, ...]


def path_beside(out: Path) -> Path:
    """The raw times' file of the result file `out`."""
    return out.with_name(out.stem + ".requests.jsonl")


def append(path: Path, key: str, seed: int, records: Sequence[Record]) -> None:
    """Add one cell and see it on disk."""
    files.append_line(path, schema.encode(RawCell(cell=key, seed=seed, requests=tuple(map(_raw, records)))))


def read(path: Path) -> Iterator[RawCell]:
    """Every whole cell of a file."""
    for line in files.read_whole_lines(path):
        yield msgspec.json.decode(line, type=RawCell)


def _us(time_ns: int | None) -> int | None:
    return None if time_ns is None else round(time_ns / 1000)


def _raw(record: Record) -> RawRequest:
    sent = _us(record.sent_ns) or 0
    times = [round(time / 1000) for time in record.chunk_ns]
    counts = record.chunk_tokens
    return RawRequest(
        index=record.index,
        due_us=_us(record.due_ns),
        sent_us=_us(record.sent_ns),
        first_us=times[0] - sent if times else None,
        gaps_us=tuple(later - earlier for earlier, later in itertools.pairwise(times)),
        tokens=counts[0] if counts and len(set(counts)) == 1 else counts,
        input_tokens=record.input_tokens,
        output_tokens=record.output_tokens,
        end_us=_us(record.end_ns),
        error=record.error or ("cancelled" if record.is_cancelled else ""),
    )
