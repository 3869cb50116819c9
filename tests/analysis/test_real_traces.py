"""Real profiler traces through the profile phase, the synthesis and the planner."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from campaign import schema
from campaign.analysis import Facts, Hypothesis, Synthesis, synthesize
from campaign.config import PlannerTable
from campaign.phases import profile, profile_data
from campaign.phases.kind import Context, Material, Row, ServerAccess, Target
from campaign.planner import propose
from campaign.schema import Quantity, Result
from campaign.trace import analyze

TRACES = Path(__file__).parents[1] / "data" / "traces"
BELIEF = Hypothesis(
    claim="Expert GEMMs bound decode", holds_if='share("moe_gemm") + share("gemm") > share("allreduce")'
)


def _quantities(folder: str, expected_calls: int, tensor_parallel: int) -> tuple[Quantity, ...]:
    analysis = analyze([TRACES / folder], processes=1)
    capture = profile_data.Capture(
        batch=1, traces=(), trace_bytes=0, unprofiled_tpot_ms=None, stop_s=0.0, analysis=analysis
    )  # fmt: skip
    target = Target(model="m", config_path="", tensor_parallel=tensor_parallel)
    config = profile_data.Config(
        target=target, server=ServerAccess(), batch=(1,), steps=50, input_tokens=128,
        expected=profile_data.Expected(allreduces_per_step=expected_calls),
    )  # fmt: skip
    result = Result(
        kind="profile", script_version=1, command=(), started_at="", finished_at="", duration_s=1.0,
        config=msgspec.Raw(schema.encode(config)),
        data=msgspec.Raw(schema.encode(profile_data.Data(captures=(capture,)))),
    )  # fmt: skip
    assert profile.KIND.analyze is not None
    return profile.KIND.analyze(result, Context(target=target)).quantities


def _seen(folder: str, calls: int, ranks: int, *, is_cpu: bool) -> tuple[Synthesis, tuple[Quantity, ...]]:
    quantities = _quantities(folder, calls, ranks)
    return synthesize(quantities, [BELIEF], Facts(is_cpu=is_cpu, tensor_parallel=ranks)), quantities


@pytest.mark.parametrize(
    ("folder", "asked"),
    [
        ("cpu-deepseek-tiny-tp2-compiled", ["collectives-sweep"]),
        ("cpu-deepseek-tiny-tp2", []),  # eager: the host is most of the step, and asking on needs a server
    ],
)
def test_real__cpu_campaign_follow_ups_without_a_server(folder: str, asked: list[str]) -> None:
    seen, quantities = _seen(folder, 9, 2, is_cpu=True)
    assert seen.sentences[0].startswith("Measured on a CPU: says nothing of a GPU")
    calls = next(law for law in seen.laws if law.id == "collective_calls")
    assert calls.status == "holds", calls
    rows = tuple(Row(id=k, kind=k, title=k, status="done") for k in ("macro", "gemm", "collectives", "profile"))
    material = Material(quantities=quantities, findings=(), beliefs=(), rows=rows)
    assert [p.id for p in propose(material, PlannerTable())] == asked


@pytest.mark.parametrize(
    ("folder", "category", "is_claimed"),
    [
        ("h200-kimi-mini-w4a16-tp1", "gemm", True),
        ("h200-qwen3-30b-a3b-tp1", "gemm", False),
        ("h200x2-qwen3-30b-a3b-tp2-nccl", "moe_gemm", False),
        ("h200x2-qwen3-30b-a3b-tp2-custom", "moe_gemm", False),
    ],
)
def test_real__gpu_steps(folder: str, category: str, is_claimed: bool) -> None:
    """Dense and expert GEMMs of Qwen3 are alike within what is unclassified: no claim which of them is larger."""
    ranks = 2 if "x2" in folder else 1
    seen, _ = _seen(folder, 97 if ranks == 2 else 0, ranks, is_cpu=False)
    assert seen.bottleneck is not None
    assert (seen.bottleneck.category, seen.bottleneck.is_claimed) == (category, is_claimed)
    assert seen.verdicts[0].verdict == "held"
    laws = {law.id: law.status for law in seen.laws}
    assert laws["step_sum"] == "holds"
    if ranks == 2:
        assert laws["collective_calls"] == "holds"
