"""What text tables add: a second total beside traces, and whole-run categories where there are no traces at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from campaign.errors import TraceError
from campaign.trace import breakdown, result
from campaign.trace.categories import CATEGORIES, Table
from campaign.trace.ranked import RankSteps
from campaign.trace.text_table import PATTERNS, TextTable, rank_of, read_table

_EQUAL_SHARE: Final = 0.005


def tables_in(folder: Path) -> list[Path]:
    """The text tables of a folder."""
    return sorted({path for pattern in PATTERNS for path in folder.glob(pattern)})


def reconcile(rank: RankSteps) -> result.Reconciliation | None:
    """Compare a rank's device time with the table beside its trace; None where there is none to compare."""
    if rank.device != "gpu":
        return None
    mine = [path for path in tables_in(Path(rank.path).parent) if rank_of(path) == rank.rank]
    for path in mine:
        try:
            table = read_table(path)
        except TraceError:
            continue
        if table.device == "gpu" and table.total_ns:
            trace_ns = float(rank.whole_ns.sum())
            share = abs(trace_ns - table.total_ns) / table.total_ns
            return result.Reconciliation(
                table=path.name,
                table_ms=table.total_ns / 1e6,
                trace_ms=trace_ns / 1e6,
                difference_share=share,
                is_equal=share <= _EQUAL_SHARE,
            )
    return None


def from_tables(paths: Sequence[Path], known: Table) -> result.TraceAnalysis:
    """An analysis from text tables alone: the run by category, no steps. Raises `TraceError` where none is one."""
    tables = [read_table(path) for path in paths]
    ranks = tuple(_rank(table, number, known) for number, table in enumerate(tables))
    return result.TraceAnalysis(
        device=tables[0].device,
        ranks=ranks,
        steps_found_by="none",
        problems=(
            "text tables alone: the whole run by name, without steps, order, overlap or idle time; "
            "give the trace files (*.pt.trace.json.gz) for those",
        ),
    )


def _rank(table: TextTable, number: int, known: Table) -> result.Rank:
    busy, calls = [0.0] * len(CATEGORIES), [0] * len(CATEGORIES)
    for row in table.rows:
        if table.device == "cpu" and known.host_ops.search(row.name):
            continue
        category = known.category(row.name)
        busy[category] += row.self_ns
        calls[category] += row.calls if known.is_counted(row.name) else 0
    return result.Rank(
        rank=number if table.rank is None else table.rank,
        file=table.path,
        events=sum(row.calls for row in table.rows),
        steps_total=0,
        problems=table.faults,
        steps_found_by="none",
        whole=breakdown.whole([round(ns) for ns in busy], calls, round(table.total_ns or 0)),
    )
