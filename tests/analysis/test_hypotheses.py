"""Verdicts: held or refuted only if it is so for everything left open."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign.analysis import Hypothesis, Readings, Verdict, judge
from campaign.schema import Quantity
from tests.analysis.fixtures import profile, quantity

STEP = {"allreduce": 4.0, "gemm": 3.0, "attention": 2.0, "other": 0.5}


def _judge(expression: str, quantities: Sequence[Quantity], *, is_after_data: bool = False) -> Verdict:
    hypothesis = Hypothesis(claim="c", holds_if=expression, is_after_data=is_after_data)
    return judge(hypothesis, Readings(quantities))


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ('share("allreduce") > share("gemm")', "held"),
        ('share("gemm") > share("allreduce")', "refuted"),
        ('share("gemm") > 0.33', "open"),
        ('share("gemm") + share("attention") > 0.5', "held"),
        ('share("gemm") + share("attention") + share("allreduce") < 0.96', "open"),
        ('share("gemm") / share("allreduce") < 0.9', "held"),
        ('share("gemm") / share("allreduce") < 0.8', "open"),
        ('not share("gemm") > share("allreduce")', "held"),
        ('share("rope") > 0.1', "refuted"),
        ('share("other") > 0.1', "refuted"),
        ('busy_share("allreduce") > 0.4', "held"),
        ('share("gemm") * share("gemm") < 0.2', "held"),
        ("step_ms < 10 and step_ms > 9", "held"),
        ("step_ms > 10 or step_ms < 9", "refuted"),
        ("9 < step_ms < 10", "held"),
    ],
)
def test_judge__verdicts(expression: str, verdict: str) -> None:
    assert _judge(expression, profile(STEP)).verdict == verdict


def test_judge__or_is_not_decided_by_different_halves() -> None:
    # Unclassified time makes the one or the other true at its two ends, but half of it makes neither true.
    step = {"gemm": 4.0, "attention": 4.0, "other": 2.0}
    assert _judge('share("gemm") > 0.55 or share("attention") > 0.55', profile(step)).verdict == "open"
    assert _judge('share("gemm") >= 0.6 or share("gemm") <= 0.4', profile(step)).verdict == "open"


def test_judge__sum_counts_unclassified_time_once() -> None:
    step = {"gemm": 1.0, "moe_gemm": 1.0, "allreduce": 5.0, "other": 2.0}
    verdict = _judge('share("gemm") + share("moe_gemm") < share("allreduce")', profile(step))
    assert verdict.verdict == "held"
    assert verdict.margin == pytest.approx((5 - 2 - 2) / 9)
    assert verdict.margin_unit == "share"


def test_judge__noise_leaves_a_close_call_open() -> None:
    close = [quantity("collectives.burst_ms", 2.0, low=1.7, high=2.3), quantity("profile.step_ms", 10.0)]
    assert _judge("burst_ms / step_ms < 0.22", close).verdict == "open"
    far = _judge("burst_ms / step_ms < 0.3", close)
    assert far.verdict == "held"
    assert far.margin == pytest.approx(0.3 - 0.23)


def test_judge__missing_quantity_is_named_with_what_exists() -> None:
    verdict = _judge("burst_graph_ms < 3", [quantity("collectives.burst_ms", 2.0)])
    assert verdict.verdict == "open"
    assert "collectives.burst_graph_ms was not measured" in verdict.reason
    assert "collectives.burst_ms" in verdict.reason


def test_judge__null_is_not_zero() -> None:
    assert _judge("burst_ms < 3", [quantity("collectives.burst_ms", None)]).verdict == "open"


def test_judge__division_by_what_may_be_zero_is_open() -> None:
    numbers = [quantity("profile.idle_ms", 0.1, low=-0.1, high=0.3), quantity("profile.step_ms", 10.0)]
    assert _judge("step_ms / idle_ms > 1", numbers).verdict == "open"


def test_judge__late_hypothesis_is_marked() -> None:
    assert _judge("step_ms > 1", profile(STEP), is_after_data=True).is_after_data


def test_judge__other_batch() -> None:
    other = [
        Quantity(name=f"{q.name}@b16", value=q.value, unit=q.unit) for q in profile({"allreduce": 1.0, "gemm": 9.0})
    ]
    assert _judge('share("gemm@b16") > 0.8', [*profile(STEP), *other]).verdict == "held"
    assert _judge("profile.step_ms@b16 > profile.step_ms", [*profile(STEP), *other]).verdict == "held"
    assert _judge('share("gemm@b4") > 0.8', [*profile(STEP), *other]).verdict == "open"


NAMES = ("allreduce", "gemm", "attention")


@given(
    st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
    st.floats(0, 5),
    st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    st.floats(-1, 1),
    st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_judge__no_division_of_unclassified_time_contradicts_a_verdict(
    times_ms: list[float], other_ms: float, factors: list[int], limit: float, parts: list[float]
) -> None:
    """Whatever part of `other` each category really owns, a decided verdict is right."""
    step = {**dict(zip(NAMES, times_ms, strict=True)), "other": other_ms}
    terms = " + ".join(f'{factor} * share("{name}")' for factor, name in zip(factors, NAMES, strict=True))
    verdict = _judge(f"{terms} > {limit}", profile(step)).verdict
    weights = [part / (sum(parts) or 1.0) for part in parts]
    whole = sum(step.values())
    owned = [ms + other_ms * weight for ms, weight in zip(times_ms, weights, strict=False)]
    truth = sum(factor * ms / whole for factor, ms in zip(factors, owned, strict=True)) - limit
    if abs(truth) > 1e-9:
        assert verdict in ("open", "held" if truth > 0 else "refuted")
