"""The verifier against sixty texts, and against what it must never take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign.analysis import Hypothesis, Synthesis, synthesize
from campaign.narrator import verify
from campaign.narrator.verification import MOST_CHARACTERS
from tests.analysis.cases import CASES
from tests.analysis.fixtures import KIMI_FACTS, kimi
from tests.narrator import texts

FALSE = (
    *texts.WRONG_NUMBER, *texts.WRONG_QUANTITY, *texts.SWAPPED_DIRECTION, *texts.INVENTED_UNIT, *texts.INJECTED,
)  # fmt: skip


def _synthesis(name: str) -> Synthesis:
    case = CASES[name]()
    return synthesize(case.quantities, [Hypothesis(claim=b.claim, holds_if=b.holds_if) for b in case.beliefs])


@pytest.fixture(scope="module")
def seen() -> Synthesis:
    return _synthesis("allreduce_bound")


def test_texts__are_sixty_and_differ() -> None:
    assert len({*texts.TRUE, *FALSE}) == len(texts.TRUE) + len(FALSE) == 60


@pytest.mark.parametrize("text", texts.TRUE)
def test_verify__true_text_is_taken(seen: Synthesis, text: str) -> None:
    assert verify(text, seen).reasons == ()


@pytest.mark.parametrize("text", FALSE)
def test_verify__wrong_text_is_refused_with_a_reason(seen: Synthesis, text: str) -> None:
    verdict = verify(text, seen)
    assert not verdict.is_true
    assert verdict.reasons


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "x" * (MOST_CHARACTERS + 1), "A step takes 20.2 ms. " * 6, "The step is here.",
        "All-reduce takes 54.5.", "All-reduce takes fifty percent.", "All-reduce does not bound decode.",
        "All-reduce takes half of the step.", "It takes 54.5 %.", "Nothing is claimed on what bounds decode.",
        "All-reduce takes 54.5 % and 17.8 %.", "GEMM 17.8 % all-reduce 54.5 % GEMM 54.5 %.", "Laws do not hold.",
        "The belief is refuted.", "Next: speculative decoding.", "Try a faster link, 2.12×.",
        "All-reduce takes at least 90 %.", "With all-reduce free a step would be at least 2.20× faster.",
        "An upper bound is 54.5 %.", "At 4 streams the throughput is 516 tok/s.", "All-reduce rose by 5 %.",
        "GEMM and all-reduce take 54.5 % of the step.", "GEMM (all-reduce) takes 54.5 % of the step.",
        "All-reduce makes 54.5 % of all calls.", "All-reduce takes 11.0 ms per call.",
        "All-reduce takes 11.0 ms a token.",
        "With a communicator all-reduce takes 11.0 ms.", "All-reduce would take 54.5 % of the step.",
        "All-reduce is the largest GEMM.", "With all-reduce free, GEMM bounds decode.",
        "All-reduce takes 54.5 % since the last revision.", "All-reduce takes 54.5 % of the step at 16 streams.",
        "The belief “Expert GEMMs bound decode” is refuted by at most 22.8 points.", "All-reduce takes 54.5 % of GEMM.",
        "All-reduce takes 54.5 % or 17.8 % of the step.", "All-reduce, rather than GEMM, takes 17.8 %.",
    ],
)  # fmt: skip
def test_verify__what_does_not_parse_is_refused(seen: Synthesis, text: str) -> None:
    assert not verify(text, seen).is_true


def test_verify__no_claim_is_the_truth_of_kimi() -> None:
    kimi_seen = synthesize(kimi(), (), KIMI_FACTS)
    assert verify("No claim is made on what bounds decode; all-reduce is the largest with 51.5 %.", kimi_seen).is_true
    assert not verify("All-reduce bounds decode with 51.5 %.", kimi_seen).is_true


@pytest.mark.parametrize("name", sorted(CASES))
def test_verify__repeated_findings_are_taken(name: str) -> None:
    found = _synthesis(name)
    assert verify(" ".join(found.sentences), found).is_true
    assert not verify(" ".join(found.sentences) + " GEMM takes 99 % of the step.", found).is_true


def test_verify__quoted_claim_may_hold_anything_but_its_verdict_must_be_true() -> None:
    claim = "GEMM takes 99 % <b>. Ignore all"
    case = CASES["allreduce_bound"]()
    found = synthesize(case.quantities, [Hypothesis(claim=claim, holds_if='share("gemm") > 0.9')])
    assert verify(f"The belief “{claim}” is refuted.", found).is_true
    assert not verify(f"The belief “{claim}” is held.", found).is_true
    assert not verify(f"{claim}.", found).is_true


@given(st.text(max_size=200))
def test_verify__babble_is_refused(text: str) -> None:
    assert not verify(text, _SEEN).is_true


@given(st.sampled_from(["allreduce", "gemm", "moe_gemm", "attention", "rms_norm"]), st.integers(0, 1000))
def test_verify__only_the_true_share_of_each_category(category: str, tenths: int) -> None:
    words = {"allreduce": "all-reduce", "moe_gemm": "expert GEMM", "rms_norm": "RMS norm"}.get(category, category)
    share = next(share for share in _SEEN.shares if share.category == category).share
    is_true = abs(share * 100 - tenths / 10) <= 0.05 + 1e-9
    assert verify(f"{words} takes {tenths / 10:.1f} % of the step.", _SEEN).is_true == is_true


_SEEN = _synthesis("allreduce_bound")
