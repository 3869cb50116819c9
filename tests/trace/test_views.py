"""What is made of an analysis: the command, the diff, expectations, one layer, a step for Perfetto."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from campaign.cli.trace import trace
from campaign.errors import TraceError, UsageError
from campaign.trace import analyze, call_count, diff, misclassified
from campaign.trace.perfetto import export_step
from campaign.trace.statistics import interval, t95, unsteady

TRACES = Path(__file__).parent.parent / "data" / "traces"
QWEN, KIMI = TRACES / "h200-qwen3-30b-a3b-tp1", TRACES / "h200-kimi-mini-w4a16-tp1"
NCCL, CUSTOM = TRACES / "h200x2-qwen3-30b-a3b-tp2-nccl", TRACES / "h200x2-qwen3-30b-a3b-tp2-custom"


def test_json__has_the_names_that_scripts_rely_on() -> None:
    done = CliRunner().invoke(trace, [str(NCCL), "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["schema"], found["schema_version"]) == ("campaign-trace", 1)
    assert {"rank", "file", "events", "steps_total", "problems", "decode"} <= set(found["ranks"][0])
    assert {"count", "batch_sizes", "wall_ms"} <= set(found["steps"]["decode"])
    assert set(found["steps"]["prefill"]["wall_ms"]) == {"median", "p10", "p90"}
    decode = found["decode"]
    assert {"batch", "steps", "trimmed", "wall_ms", "idle_ms_per_step"} <= set(decode)
    assert {"mean", "median", "p10", "p90", "ci95"} == set(decode["wall_ms"])
    category = {"name", "calls_per_step", "busy_ms_per_step", "exposed_ms_per_step", "share_of_busy", "share_of_wall"}
    assert category | {"us_per_call"} <= set(decode["categories"][0])
    assert {"name", "category", "calls_per_step", "us_per_call", "busy_ms_per_step"} <= set(decode["kernels"][0])
    collective = {"name", "kernel", "calls_per_step", "us_per_call", "wait_us_per_call", "transfer_us_per_call"}
    assert collective <= set(decode["collectives"][0])
    assert {"slowest_rank", "spread_ms_per_step"} <= set(found["skew"])
    assert "decode_by_batch" in found


def test_text__says_where_the_step_went() -> None:
    done = CliRunner().invoke(trace, [str(KIMI)], catch_exceptions=False)
    assert "decode, batch 1: 27 steps (3 trimmed" in done.stdout
    assert "one layer (6 in a row" in done.stdout
    assert "compiled: triton_red_fused_3" in done.stdout


def test_trim__zero_keeps_every_step_with_an_end() -> None:
    decode = analyze([KIMI], trim=0).decode
    assert decode is not None
    assert (decode.steps, decode.trimmed, decode.without_wall) == (30, 0, 1)
    five = analyze([KIMI], trim=5).decode
    assert five is not None
    assert (five.steps, five.trimmed) == (25, 5)


def test_command__without_a_path_or_with_a_bad_pattern_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no path given"):
        CliRunner().invoke(trace, [], catch_exceptions=False)
    with pytest.raises(UsageError, match="Write a Python pattern"):
        CliRunner().invoke(trace, [str(KIMI), "--step-regex", "("], catch_exceptions=False)


def test_command__imports_nothing_heavy_before_it_runs() -> None:
    code = "import sys, campaign.cli.trace; print(sorted({'numpy', 'torch', 'pandas', 'msgspec'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_diff__of_nccl_and_custom_all_reduce() -> None:
    change = diff(analyze([NCCL]), analyze([CUSTOM]), ("nccl", "custom"))
    allreduce = next(c for c in change.categories if c.name == "allreduce")
    assert allreduce.is_beyond_noise
    assert allreduce.difference_ms == pytest.approx(-0.15, abs=0.03)
    moe = next(c for c in change.categories if c.name == "moe_gemm")
    assert not moe.is_beyond_noise
    assert change.notes == ()
    done = CliRunner().invoke(trace, ["--diff", str(NCCL), str(CUSTOM)], catch_exceptions=False)
    assert "allreduce" in done.stdout


def test_diff__of_a_run_with_itself_is_nothing() -> None:
    found = analyze([QWEN])
    change = diff(found, found)
    assert change.wall.difference_ms == 0
    assert not any(c.is_beyond_noise for c in (*change.categories, *change.kernels))


def test_calls__are_explained_as_layers_and_a_remainder() -> None:
    found = analyze([NCCL])
    count = call_count(found, "allreduce", layers=48, per_layer=2, expected=97)
    assert count is not None
    assert count.text == "97 = 48 × 2 + 1"
    assert count.is_expected
    wrong = call_count(found, "allreduce", layers=48, per_layer=2, expected=96)
    assert wrong is not None
    assert not wrong.is_expected
    assert call_count(analyze([QWEN]), "allreduce", layers=48, per_layer=2, expected=0) is None


def test_floors__a_category_faster_than_the_hardware_is_misclassified() -> None:
    found = analyze([QWEN])
    assert misclassified(found, {"gemm": 0.5, "moe_gemm": 0.1}) == ()
    (wrong,) = misclassified(found, {"gemm": 99.0, "attention": 0.0})
    assert (wrong.category, wrong.floor_ms) == ("gemm", 99.0)
    (absent,) = misclassified(found, {"quantize": 0.2})
    assert "has no kernels" in absent.text


def test_layer__is_found_with_its_kernels_in_order() -> None:
    layer = analyze([QWEN]).layer
    assert layer is not None
    assert layer.repeats >= 46
    order = [kernel.category for kernel in layer.kernels]
    assert order.count("moe_gemm") == 2
    assert order.count("attention") == 2
    at = order.index("kv_cache")
    assert order[at + 1] == "attention"
    wall = analyze([QWEN]).decode
    assert wall is not None
    assert layer.repeats * layer.total_us / 1e3 == pytest.approx(wall.wall_ms.median, rel=0.1)


def test_perfetto__one_median_step_reads_back(tmp_path: Path) -> None:
    source = next(QWEN.glob("*.gz"))
    target = tmp_path / "step.json"
    assert export_step(source, target) == 895
    written = json.loads(target.read_bytes())
    rows = [row for row in written["traceEvents"] if row["ph"] == "X"]
    assert len(rows) == 895
    assert min(row["ts"] for row in rows) == 0
    # what only its neighbour tells has the category that the analysis gives it
    assert sum(row["args"]["category"] == "moe_router" for row in rows) == 48 * 2


def test_perfetto__a_step_on_a_cpu_holds_its_ops(tmp_path: Path) -> None:
    source = next((TRACES / "cpu-deepseek-tiny-tp2").glob("*rank0*.gz"))
    count = export_step(source, tmp_path / "step.json")
    rows = [row for row in json.loads((tmp_path / "step.json").read_bytes())["traceEvents"] if row["ph"] == "X"]
    assert len(rows) == count > 1000
    names = [row["name"] for row in rows if row["args"]["category"] == "allreduce"]
    assert names.count("c10d::allreduce_") == 9
    assert any(row["args"] == {"category": "rms_norm"} and row["name"] == "aten::rsqrt" for row in rows)


def test_perfetto__a_trace_without_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match="no decode step"):
        export_step(tmp_path / "rank0.json", tmp_path / "none.json")


def test_interval__is_students() -> None:
    import numpy as np

    assert interval(np.array([1.0, 2.0])) is None
    low, high = interval(np.array([1.0, 2.0, 3.0])) or (0.0, 0.0)
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), rel=1e-3)
    assert t95(20) == pytest.approx(2.0860, abs=1e-3)
    assert t95(60) == pytest.approx(2.0003, abs=1e-3)


def test_unsteady__counts_only_the_start() -> None:
    import numpy as np

    assert unsteady(np.array([9.0, 5.0, *[2.0] * 20])) == 2
    assert unsteady(np.array([2.0] * 20 + [9.0])) == 0
    assert unsteady(np.array([5.0, 2.0, 2.0])) == 0
