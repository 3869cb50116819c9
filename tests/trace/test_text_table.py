"""The profiler's text tables: read with their faults named, and equal to the traces beside them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaign.errors import TraceError
from campaign.trace import analyze
from campaign.trace.text_table import read_table

TRACES = Path(__file__).parent.parent / "data" / "traces"


def test_table__annotation_rows_are_not_counted_twice() -> None:
    table = read_table(TRACES / "h200-qwen3-30b-a3b-tp1" / "profiler_out_0.txt")
    assert table.device == "gpu"
    assert table.rank == 0
    assert table.total_ns == pytest.approx(140.270e6)
    assert sum(row.self_ns for row in table.rows) == pytest.approx(140.270e6, rel=0.005)
    assert any("host ops repeat" in fault for fault in table.faults)
    assert any("annotation rows repeat" in fault for fault in table.faults)
    assert any("names are cut" in fault for fault in table.faults)
    assert table.step_calls["execute_context_0(0)_generation_1(1)"] == 31


def test_table__kimi_counts_annotations_once_a_stream() -> None:
    table = read_table(TRACES / "h200-kimi-mini-w4a16-tp1" / "profiler_out_0.txt")
    assert table.step_calls["execute_context_0(0)_generation_1(1)"] == 62


@pytest.mark.parametrize(
    "name", ["h200-qwen3-30b-a3b-tp1", "h200-kimi-mini-w4a16-tp1", "h200x2-qwen3-30b-a3b-tp2-nccl"]
)
def test_table__states_the_traces_total(name: str) -> None:
    reconciliation = analyze([TRACES / name], processes=1).ranks[0].reconciliation
    assert reconciliation is not None
    assert reconciliation.is_equal
    assert reconciliation.difference_share < 1e-4


def test_table__alone_gives_categories_of_the_whole_run(tmp_path: Path) -> None:
    shutil.copy(TRACES / "h200-qwen3-30b-a3b-tp1" / "profiler_out_0.txt", tmp_path)
    found = analyze([tmp_path])
    whole = analyze([TRACES / "h200-qwen3-30b-a3b-tp1"]).ranks[0].whole
    assert found.decode is None
    assert "text tables alone" in found.problems[0]
    from_table = {c.name: c.busy_ms_per_step for c in found.ranks[0].whole}
    from_trace = {c.name: c.busy_ms_per_step for c in whole}
    for name in ("gemm", "moe_gemm", "attention", "kv_cache"):
        assert from_table[name] == pytest.approx(from_trace[name], rel=0.01)


def test_table__of_the_cpu_has_no_device_column() -> None:
    path = next((TRACES / "cpu-deepseek-tiny-tp2").glob("*rank0.profiler_out.txt"))
    table = read_table(path)
    assert (table.device, table.rank) == ("cpu", 0)
    assert next(row for row in table.rows if row.name == "c10d::allreduce_").calls == 144
    assert table.total_ns == pytest.approx(549.946e6)


def test_table__other_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "profiler_out_0.txt").write_text("hello\n")
    with pytest.raises(TraceError, match="no profiler table"):
        analyze([tmp_path])
