"""The case that shaped the report: 155 decode steps, 8 ranks, batch 1, known from notes."""

from __future__ import annotations

import pytest

from campaign.analysis import Hypothesis, Synthesis, synthesize
from campaign.analysis.laws import Law
from tests.analysis.fixtures import KIMI_FACTS, kimi

BELIEF = Hypothesis(
    claim="Small expert GEMMs bound decode", holds_if='share("moe_gemm") + share("gemm") > share("allreduce")'
)


@pytest.fixture(scope="module")
def seen() -> Synthesis:
    return synthesize(kimi(), [BELIEF], KIMI_FACTS)


def _law(seen: Synthesis, name: str) -> Law:
    return next(law for law in seen.laws if law.id == name)


def test_kimi__allreduce_is_half_of_the_step_but_no_claim_is_made(seen: Synthesis) -> None:
    assert seen.bottleneck is not None
    assert seen.bottleneck.category == "allreduce"
    assert f"{seen.bottleneck.share.share:.1%}" == "51.5%"
    assert not seen.bottleneck.is_claimed
    assert seen.bottleneck.is_largest_either_way
    assert seen.sentences[0].startswith("No claim on what bounds decode")
    assert "21.8 % of the step is unclassified" in seen.sentences[0]
    assert "51.5 %" in seen.sentences[0]


def test_kimi__gemm_is_below_its_floor_and_its_share_widens(seen: Synthesis) -> None:
    gemm = next(share for share in seen.shares if share.category == "gemm")
    assert gemm.is_misclassified
    assert (f"{gemm.low:.1%}", f"{gemm.high:.1%}") == ("9.6%", "31.4%")
    law = _law(seen, "floor.gemm")
    assert law.status == "broken"
    assert law.expected == pytest.approx(3.36, abs=0.01)
    assert "9.6 to 31.4 %" in law.note


def test_kimi__calls_are_122_and_1_and_4_unexplained(seen: Synthesis) -> None:
    law = _law(seen, "collective_calls")
    assert (law.status, law.measured, law.expected, law.unexplained) == ("broken", 127, 123, 4)
    assert law.note == "127 = 122 in layers + 1 for the embedding + 4 unexplained"


def test_kimi__in_situ_costs_more_than_the_burst(seen: Synthesis) -> None:
    law = _law(seen, "allreduce_in_situ")
    assert law.ratio is not None
    assert f"{law.ratio:.2f}" == "1.64"
    assert law.status == "broken"
    assert "5 more calls" in law.explained_by
    assert law.unexplained == pytest.approx(11.17 - 6.81 - 5 * 6.81 / 122)


def test_kimi__allreduce_free_is_at_most_twice_as_fast(seen: Synthesis) -> None:
    change = next(change for change in seen.changes if change.id == "free.allreduce")
    assert f"{change.step_ms_low:.1f}" == "10.5"
    assert f"{change.gain_high:.2f}" == "2.06"
    assert change.is_bound
    assert "waiting is in it" in change.assumption
    assert f"{change.gain_low:.2f}" == f"{21.68 / (21.68 - 6.81):.2f}"


def test_kimi__belief_is_refuted_with_its_margin(seen: Synthesis) -> None:
    (verdict,) = seen.verdicts
    assert verdict.verdict == "refuted"
    assert verdict.margin == pytest.approx((11.17 - 2.08 - 4.72) / 21.68)
    evidence = {number.name: (number.low, number.high) for number in verdict.evidence}
    assert evidence["share(gemm)"] == pytest.approx((0.0959, 0.3137), abs=1e-4)


def test_kimi__communicator_comes_before_speculation(seen: Synthesis) -> None:
    assert [change.id for change in seen.directions] == ["communicator", "speculation"]
    assert seen.directions[1].is_assumed


def test_kimi__five_sentences_at_most_each_with_a_number(seen: Synthesis) -> None:
    assert len(seen.sentences) <= 5
    assert all(any(character.isdigit() for character in sentence) for sentence in seen.sentences)
