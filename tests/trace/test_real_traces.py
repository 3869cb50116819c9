"""Real traces of vLLM: what was checked by hand in each of them."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from campaign.trace import TraceAnalysis, analyze
from campaign.trace.result import Breakdown

TRACES = Path(__file__).parent.parent / "data" / "traces"
GPU = (
    "h200-qwen3-30b-a3b-tp1",
    "h200-kimi-mini-w4a16-tp1",
    "h200x2-qwen3-30b-a3b-tp2-custom",
    "h200x2-qwen3-30b-a3b-tp2-nccl",
)
CPU = ("cpu-deepseek-tiny-tp2", "cpu-deepseek-tiny-tp2-compiled")


@functools.cache
def analysis_of(name: str) -> TraceAnalysis:
    return analyze([TRACES / name])


def decode_of(name: str) -> Breakdown:
    decode = analysis_of(name).decode
    assert decode is not None
    return decode


def calls(decode: Breakdown, category: str) -> float:
    return next((c.calls_per_step for c in decode.categories if c.name == category), 0.0)


@pytest.mark.parametrize("name", GPU + CPU)
def test_real__exposed_and_idle_add_up_to_the_step(name: str) -> None:
    analysis = analysis_of(name)
    for decode in [analysis.decode, *(rank.decode for rank in analysis.ranks)]:
        assert decode is not None
        assert decode.idle_ms_per_step is not None
        assert decode.wall_ms.mean is not None
        total = sum(c.exposed_ms_per_step for c in decode.categories) + decode.idle_ms_per_step
        assert total == pytest.approx(decode.wall_ms.mean, abs=1e-9)
        assert sum(decode.idle.values()) == pytest.approx(decode.idle_ms_per_step, abs=1e-9)
        assert sum(k.busy_ms_per_step for k in decode.kernels) == pytest.approx(decode.busy_ms_per_step, abs=1e-9)


@pytest.mark.parametrize("name", GPU)
def test_real__no_problems_and_little_unclassified(name: str) -> None:
    analysis = analysis_of(name)
    assert analysis.problems == ()
    assert all(rank.problems == () and rank.outside_events == 0 for rank in analysis.ranks)
    assert analysis.steps_found_by == "annotations"


@pytest.mark.parametrize("name", GPU + CPU)
def test_real__less_than_a_hundredth_is_unclassified_and_each_of_it_is_named(name: str) -> None:
    for decode in (rank.decode for rank in analysis_of(name).ranks):
        assert decode is not None
        share = decode.unclassified_share
        assert share is not None
        assert 0 < share < 0.01
        assert sum(one.share_of_busy for one in decode.unclassified) == pytest.approx(share)
        other = next(c for c in decode.categories if c.name == "other")
        assert other.share_of_wall is not None
        assert other.share_of_wall < 0.002


def test_qwen__31_decode_steps_of_895_device_events() -> None:
    analysis = analysis_of("h200-qwen3-30b-a3b-tp1")
    assert analysis.steps.decode.count == 31
    assert analysis.steps.prefill.count == 1
    decode = decode_of("h200-qwen3-30b-a3b-tp1")
    assert decode.batch == 1
    assert sum(c.calls_per_step for c in decode.categories) == 895
    assert calls(decode, "moe_gemm") == 48 * 2
    assert calls(decode, "rms_norm") == 48 * 2 + 1
    assert calls(decode, "moe_router") == 48 * 2  # top-k, and the sum that its neighbour identifies
    assert calls(decode, "sampling") == 1


def test_kimi__31_decode_steps_with_overlap_and_an_unsteady_start() -> None:
    analysis, decode = analysis_of("h200-kimi-mini-w4a16-tp1"), decode_of("h200-kimi-mini-w4a16-tp1")
    assert analysis.steps.decode.count == 31
    assert decode.trimmed >= 2
    assert decode.wall_ms.median == pytest.approx(2.43, abs=0.02)
    assert decode.busy_ms_per_step > sum(c.exposed_ms_per_step for c in decode.categories)
    assert decode.busy_ms_per_step == pytest.approx(2.53, abs=0.01)


@pytest.mark.parametrize("kind", ["custom", "nccl"])
def test_two_ranks__97_all_reduces_and_1_all_gather(kind: str) -> None:
    analysis = analysis_of(f"h200x2-qwen3-30b-a3b-tp2-{kind}")
    assert [rank.rank for rank in analysis.ranks] == [0, 1]
    assert analysis.steps.decode.count == 23
    for rank in analysis.ranks:
        assert rank.decode is not None
        assert calls(rank.decode, "allreduce") == 97
        assert calls(rank.decode, "comm_other") == 1


def test_two_ranks__waiting_stands_apart_in_prefill_and_the_first_step() -> None:
    analysis = analysis_of("h200x2-qwen3-30b-a3b-tp2-nccl")
    prefill = next(c for c in analysis.steps.prefill.collectives if c.name == "allreduce")
    assert prefill.wait_us_per_call is not None
    assert prefill.transfer_us_per_call is not None
    assert prefill.wait_us_per_call > 3 * prefill.transfer_us_per_call
    assert prefill.verdict == "skew-bound"
    first, later = analysis.collective_steps[1], analysis.collective_steps[5:]
    assert first.kind == "decode"
    assert first.wait_ms > 1 > 10 * max(step.wait_ms for step in later[:10])
    assert all(step.transfer_ms == pytest.approx(first.transfer_ms, rel=0.1) for step in later)


def test_two_ranks__median_call_as_measured_by_hand() -> None:
    for kind, median_us in (("custom", 3.84), ("nccl", 5.63)):
        decode = decode_of(f"h200x2-qwen3-30b-a3b-tp2-{kind}")
        allreduce = next(c for c in decode.collectives if c.name == "allreduce")
        assert allreduce.median_us == pytest.approx(median_us, rel=0.02)


@pytest.mark.parametrize("name", CPU)
def test_cpu__15_decode_steps_with_9_all_reduces(name: str) -> None:
    analysis, decode = analysis_of(name), decode_of(name)
    assert analysis.device == "cpu"
    assert analysis.steps.decode.count == 15
    assert analysis.steps.prefill.count == 1
    assert calls(decode, "allreduce") == 9
    assert calls(decode, "comm_other") == 1
    assert calls(decode, "moe_gemm") == 3
    assert set(decode.idle) == {"host"}


def test_cpu_eager__general_ops_in_a_row_are_what_they_make() -> None:
    decode = decode_of("cpu-deepseek-tiny-tp2")
    assert calls(decode, "rms_norm") == 4 * 4 + 1  # input, two of the latent attention, before the MLP; the last
    assert calls(decode, "silu_mul") == 1 + 3  # a dense MLP, three layers' shared experts
    assert calls(decode, "moe_router") == 3 * 2  # the choice of experts, and the sum of their outputs
    assert calls(decode, "sampling") == 1


def test_qwen__what_generated_kernels_may_hold_is_not_said_to_be_missing() -> None:
    reasons = {a.name: a.absent_reason for a in decode_of("h200-qwen3-30b-a3b-tp1").absent}
    assert reasons["rope"] == "no kernel is named so; generated ones (compiled) may do it"
    assert reasons["allreduce"] == "no kernel of this category ran in these steps"


def test_cpu_compiled__categories_inside_the_graph_are_absent_with_the_reason() -> None:
    reasons = {a.name: a.absent_reason for a in decode_of("cpu-deepseek-tiny-tp2-compiled").absent}
    assert "no op of its own" in reasons["rms_norm"]
    assert "no op of its own" in reasons["silu_mul"]


def test_cpu_compiled__all_reduce_takes_over_half_of_the_step() -> None:
    decode = decode_of("cpu-deepseek-tiny-tp2-compiled")
    allreduce = next(c for c in decode.categories if c.name == "allreduce")
    assert allreduce.share_of_wall is not None
    assert allreduce.share_of_wall > 0.5
    assert decode.host.annotation_ms_per_step == pytest.approx(25.3, abs=0.3)
