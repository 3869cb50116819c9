"""CPU-only traces by hand: self times, what belongs to what, and what is the host's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaign.trace import analyze

DECODE, PREFILL = "execute_context_0(0)_generation_1(1)", "execute_context_1(8)_generation_0(0)"


def event(name: str, ts: float, dur: float, *, tid: int = 1, cat: str = "cpu_op") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {}}


def step(at: float, kind: str = DECODE) -> list[dict[str, Any]]:
    """A step of 100 µs, the next after 110: 10 + 20 all-reduce, 15 gemm, 12 attention of which 4 gemm, 5 sampling."""
    return [
        event(kind, at, 100.0, cat="user_annotation"),
        event("_c10d_functional::all_reduce_", at + 5, 10.0),
        event("c10d::allreduce_", at + 6, 8.0),
        event("_c10d_functional::wait_tensor", at + 20, 20.0),
        event("aten::linear", at + 45, 15.0),
        event("aten::t", at + 46, 1.0),
        event("aten::addmm", at + 48, 10.0),
        event("vllm::unified_attention_with_output", at + 62, 12.0),
        event("aten::bmm", at + 64, 4.0),
        event("aten::view", at + 70, 1.0),
        event("aten::view", at + 80, 2.0),
        event("_C::fused_gumbel_argmax", at + 102, 5.0),
        event("gloo:all_reduce", at + 6, 30.0, tid=9, cat="user_annotation"),
        event("aten::mm", at + 10, 50.0, tid=9),
    ]


def write(path: Path) -> Path:
    rows = [e for number in range(6) for e in step(1000.0 + 110 * number, PREFILL if number == 0 else DECODE)]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    return path


def test_cpu__self_times_calls_and_the_hosts_rest(tmp_path: Path) -> None:
    found = analyze([write(tmp_path / "rank0.json")], trim=0)
    assert found.device == "cpu"
    assert (found.steps.decode.count, found.steps.prefill.count) == (5, 1)
    decode = found.decode
    assert decode is not None
    assert decode.steps == 4  # the last has no end
    busy = {c.name: c.busy_ms_per_step * 1e3 for c in decode.categories}
    assert busy == pytest.approx({"allreduce": 30, "gemm": 19, "attention": 8, "sampling": 5})
    calls = {c.name: c.calls_per_step for c in decode.categories}
    assert calls == {"allreduce": 1, "gemm": 2, "attention": 1, "sampling": 1}
    assert decode.wall_ms.mean == pytest.approx(0.110)
    assert decode.idle == pytest.approx({"host": 0.110 - 0.062})
    assert decode.host.annotation_ms_per_step == pytest.approx(0.100)


def test_cpu__ranks_with_different_clocks_wait_by_the_shortest_call(tmp_path: Path) -> None:
    for rank, longer in ((0, 0.0), (1, 7.0)):
        rows = []
        for number in range(6):
            at = 1000.0 + 110 * number + 5000 * rank
            rows += [event(DECODE, at, 100.0, cat="user_annotation"), event("c10d::allreduce_", at + 5, 10.0 + longer)]
        (tmp_path / f"rank{rank}.trace.json").write_text(json.dumps({"traceEvents": rows}))
    found = analyze([tmp_path], trim=0)
    assert found.skew.method == "shortest"
    assert found.skew.slowest_rank == 0
    assert found.skew.wait_ms_per_step == pytest.approx((0.0, 0.007))
    assert found.skew.transfer_ms_per_step == pytest.approx(0.010)
