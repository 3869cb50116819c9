"""The table that torch's profiler prints (`profiler_out_0.txt`, `*.profiler_out.txt`), as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from campaign.importers.imported import read_text, unusable
from campaign.trace import TraceAnalysis, categories
from campaign.trace.breakdown import whole
from campaign.trace.result import Rank

_UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIME = re.compile(r"([\d.]+)(ns|us|ms|s)")
_ANNOTATION = re.compile(r"^(execute_|step\[|ProfilerStep|gpu_model_runner|## |Command Buffer|Activity Buffer)")
_RANK = re.compile(r"(?:rank|profiler_out_)(\d+)")
#: Difference of the two totals above which it is named.
TOLERANCE = 0.005


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One name of the table."""

    name: str
    """As printed: cut to about 52 characters."""
    self_ns: float
    """Time on the device, else on the CPU where the table has no device column."""
    calls: int
    is_kernel: bool
    """Whether it ran on the device itself (ops are shown with the time of their kernels)."""


def is_table(head: bytes) -> bool:
    """Whether these first bytes are of such a table."""
    return b"# of Calls" in head and b"Self CPU" in head


def read_table(path: Path) -> tuple[TableRow, ...]:
    """The rows; raises `UsageError` with the line that cannot be read."""
    lines = read_text(path).split("\n")
    place = next((i for i, line in enumerate(lines) if "# of Calls" in line), None)
    if place is None:
        raise unusable(path, "holds no header with `# of Calls`", "Give the file as the profiler wrote it.")
    header = _cells(lines[place])
    rows = []
    for number, line in enumerate(lines[place + 1 :], place + 2):
        cells = _cells(line)
        if not cells or set(line.strip()) <= {"-", " "} or cells[0].startswith("Self C"):
            continue
        if len(cells) < len(header):
            raise unusable(path, f"line {number}: {len(cells)} cells where the header has {len(header)}", "Mend it.")
        name = " ".join(cells[: len(cells) - len(header) + 1])
        values = [name, *cells[len(cells) - len(header) + 1 :]]
        rows.append(_row(dict(zip(header, values, strict=True)), path, number))
    if not rows:
        raise unusable(path, "the table has no rows", "Give the file of a profile that recorded something.")
    return tuple(rows)


def _cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip()) if line.strip() else []


def _row(cells: Mapping[str, str], path: Path, number: int) -> TableRow:
    device = next((name for name in ("Self CUDA", "Self XPU", "Self device") if name in cells), "")
    try:
        self_cpu_ns = _ns(cells["Self CPU"])
        return TableRow(
            name=cells["Name"],
            self_ns=_ns(cells[device]) if device else self_cpu_ns,
            calls=int(cells["# of Calls"]),
            is_kernel=bool(device) and self_cpu_ns == 0.0,
        )
    except (KeyError, ValueError) as error:
        raise unusable(path, f"line {number}: {error}", "Give the file as the profiler wrote it.") from error


def _ns(cell: str) -> float:
    match = _TIME.fullmatch(cell.strip())
    if match is None:
        raise ValueError(f"{cell!r} is no time")
    return float(match[1]) * _UNITS_NS[match[2]]


def _is_own(row: TableRow, has_device: bool) -> bool:
    return not _ANNOTATION.match(row.name) and (row.is_kernel or not has_device)


def analysis_of(files: Sequence[Path], folder: Path, extra: Mapping[str, str]) -> TraceAnalysis:
    """Kernel time by category over the whole profile, a rank a file; there are no steps in a table."""
    known = categories.table([(category, pattern) for pattern, category in extra.items()])
    ranks, is_device = [], False
    for place, file in enumerate(sorted(files)):
        rows = read_table(file)
        has_device = any(row.is_kernel for row in rows)
        is_device = is_device or has_device
        busy, calls = [0] * len(categories.CATEGORIES), [0] * len(categories.CATEGORIES)
        for row in (row for row in rows if _is_own(row, has_device)):
            index = known.category(row.name)
            busy[index] += round(row.self_ns)
            calls[index] += row.calls
        match = _RANK.findall(file.name)
        ranks.append(
            Rank(
                rank=int(match[-1]) if match else place,
                file=str(file.resolve().relative_to(folder)) if file.resolve().is_relative_to(folder) else file.name,
                events=sum(row.calls for row in rows),
                steps_total=0,
                whole=whole(busy, calls, 0),
            )
        )
    problem = "text tables only: no steps, no idle time, at most 100 names, each cut short"
    return TraceAnalysis(device="gpu" if is_device else "cpu", ranks=tuple(ranks), problems=(problem,))


def crosscheck(texts: Sequence[Path], analysis: TraceAnalysis, folder: Path) -> tuple[str, ...]:
    """The tables' kernel totals against the traces': a sentence a table whose total differs by over 0.5 %."""
    notes = []
    for one, other in (
        (rank, _match(rank, analysis)) for rank in (analysis_of(texts, folder, {}).ranks if texts else ())
    ):
        told = sum(category.busy_ms_per_step for category in one.whole)
        if other is None or not told:
            continue
        traced = sum(category.busy_ms_per_step for category in other.whole)
        if abs(told - traced) > TOLERANCE * max(told, traced):
            notes.append(
                f"{one.file}: its kernels sum to {told:.2f} ms, those of rank {one.rank}'s trace to {traced:.2f} ms."
            )
    return tuple(notes)


def _match(table: Rank, analysis: TraceAnalysis) -> Rank | None:
    return next((rank for rank in analysis.ranks if rank.rank == table.rank and rank.whole), None)
