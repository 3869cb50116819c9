"""The profiler's text tables (`profiler_out_0.txt`, `*.profiler_out.txt`): a fallback, and a second total to check by.

They are torch's `key_averages().table()`: at most 100 rows, names cut at 52 letters, and on a GPU the step annotations
stand among the kernels with the time of everything inside them, and host ops with that of the kernels they launched, so
that a sum over rows counts it twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from campaign.errors import TraceError
from campaign.trace.annotations import announced

PATTERNS: Final = ("profiler_out_*.txt", "*profiler_out.txt")
_UNITS_NS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIME: Final = re.compile(r"^(-?[\d.]+)(ns|us|ms|s)$")
_TOTAL: Final = re.compile(r"^Self (CPU|\w+) time total: (\S+)$")
_RANK: Final = re.compile(r"rank(\d+)\.|profiler_out_(\d+)\.")
_MOST_ROWS: Final = 100


@dataclass(frozen=True)
class TableRow:
    """One name of the table."""

    name: str
    """Cut at 52 letters and "..." where it was longer."""
    self_ns: float
    """Self time on the device measured."""
    host_ns: float
    """CPU total: above zero for a host op."""
    calls: int


@dataclass(frozen=True)
class TextTable:
    """One rank's table."""

    path: str
    rank: int | None
    device: str
    """gpu or cpu."""
    rows: tuple[TableRow, ...]
    """Without annotations."""
    total_ns: float | None
    """The total that the table states (annotations not counted)."""
    step_calls: dict[str, int]
    """Annotation → how often (on a GPU once a stream, so more often than there were steps)."""
    faults: tuple[str, ...]


def rank_of(path: Path) -> int | None:
    """The rank in a table's file name."""
    found = _RANK.search(path.name)
    return int(found.group(1) or found.group(2)) if found is not None else None


def read_table(path: Path) -> TextTable:
    """Read one table; raises `TraceError` where the file holds none."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}. Check the path and its permissions.") from error
    header = next((line for line in lines if "# of Calls" in line and "Name" in line), None)
    if header is None:
        raise TraceError(f"{path}: holds no profiler table (no line with `Name` and `# of Calls`).")
    columns = re.split(r"\s{2,}", header.strip())
    device_column = next((c for c in columns if re.fullmatch(r"Self (?!CPU)\w+", c)), None)
    column = columns.index(device_column or "Self CPU")
    totals = {m.group(1): _nanoseconds(m.group(2)) for m in map(_TOTAL.match, (line.strip() for line in lines)) if m}
    name = device_column.removeprefix("Self ") if device_column else "CPU"
    cells = [_cells(line, len(columns)) for line in lines[lines.index(header) + 1 :]]
    rows = [
        TableRow(
            name=cell[0],
            self_ns=self_ns,
            host_ns=_nanoseconds(cell[columns.index("CPU total")]) or 0.0,
            calls=int(cell[columns.index("# of Calls")]),
        )
        for cell in cells
        if cell is not None and (self_ns := _nanoseconds(cell[column])) is not None
    ]
    kept = [row for row in rows if announced(row.name) is None and not (device_column and row.host_ns)]
    repeats = [row for row in rows if announced(row.name) is None and device_column and row.host_ns and row.self_ns]
    steps = [row for row in rows if announced(row.name) is not None]
    return TextTable(
        path=str(path),
        rank=rank_of(path),
        device="gpu" if device_column else "cpu",
        rows=tuple(row for row in kept if row.self_ns > 0),
        total_ns=totals.get(name),
        step_calls={row.name: row.calls for row in steps},
        faults=tuple(_faults(kept, steps, repeats, total_ns=totals.get(name), rows=len(rows))),
    )


def _cells(line: str, columns: int) -> list[str] | None:
    cells = line.strip().rsplit(None, columns - 1)
    return cells if len(cells) == columns and cells[-1].isdigit() else None


def _nanoseconds(text: str) -> float | None:
    match = _TIME.match(text)
    return float(match.group(1)) * _UNITS_NS[match.group(2)] if match is not None else None


def _faults(
    kept: Sequence[TableRow],
    steps: Sequence[TableRow],
    repeats: Sequence[TableRow],
    *,
    total_ns: float | None,
    rows: int,
) -> list[str]:
    faults = []
    doubled = sum(row.self_ns for row in steps)
    if doubled:
        faults.append(f"annotation rows repeat {doubled / 1e6:.3f} ms of other rows: they are left out")
    again = sum(row.self_ns for row in repeats)
    if again:
        faults.append(f"rows of host ops repeat {again / 1e6:.3f} ms of the kernels they launched: they are left out")
    cut = sum(1 for row in kept if row.name.endswith("..."))
    if cut:
        faults.append(f"{cut} names are cut: kernels that differ behind the cut are one row or cannot be told apart")
    if rows >= _MOST_ROWS:
        faults.append("the table ends after 100 rows: small ones are missing")
    listed = sum(row.self_ns for row in kept)
    if total_ns and abs(listed - total_ns) > 0.005 * total_ns:
        faults.append(f"rows add up to {listed / 1e6:.3f} ms where the table states {total_ns / 1e6:.3f} ms")
    return faults
