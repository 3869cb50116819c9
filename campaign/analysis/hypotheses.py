"""Beliefs written down before the measurement, held against the data."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from campaign.analysis.evaluation import Evaluator, Evidence, Missing
from campaign.analysis.expression import check_syntax, parse
from campaign.analysis.readings import Readings

__all__ = ["Hypothesis", "Verdict", "check_syntax", "judge", "judge_all"]


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with its test."""

    claim: str
    """What is believed, in words."""
    holds_if: str
    """The test, an expression over named quantities."""
    because: str = ""
    """Why it was believed."""
    is_after_data: bool = False
    """Whether it was written down when its data existed already."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the data says of one hypothesis."""

    claim: str
    """What was believed."""
    because: str
    """Why."""
    holds_if: str
    """The test."""
    verdict: str
    """held, refuted or open."""
    evidence: tuple[Evidence, ...] = ()
    """The numbers in the test, each with what is left open."""
    margin: float | None = None
    """Least distance from the point where the verdict turns; null where it is open."""
    margin_high: float | None = None
    """Greatest such distance."""
    margin_unit: str = ""
    """`share` (a fraction of the step) or the unit of the compared numbers."""
    reason: str = ""
    """Why it is open."""
    is_after_data: bool = False
    """Written down after its data: not a prediction."""


def judge(hypothesis: Hypothesis, readings: Readings, *, is_idle_mixed: bool = False) -> Verdict:
    """Held or refuted only if it is so for all values that noise and unclassified time leave open.

    Raises `ConfigError` where the test cannot be read.
    """
    tree = parse(hypothesis.holds_if)
    evaluator = Evaluator(readings, is_idle_mixed=is_idle_mixed)
    fields = {name: getattr(hypothesis, name) for name in ("claim", "because", "holds_if", "is_after_data")}
    try:
        outcome = evaluator.truth(tree)
    except Missing as missing:
        return Verdict(**fields, verdict="open", evidence=tuple(evaluator.evidence.values()), reason=str(missing))
    evidence = tuple(evaluator.evidence.values())
    if outcome.holds is None:
        reason = "noise and unclassified time leave both answers open"
        return Verdict(**fields, verdict="open", evidence=evidence, reason=reason)
    ends = sorted((abs(outcome.margin.low), abs(outcome.margin.high)))
    return Verdict(
        **fields,
        verdict="held" if outcome.holds else "refuted",
        evidence=evidence,
        margin=ends[0],
        margin_high=ends[1],
        margin_unit=outcome.unit,
    )


def judge_all(
    hypotheses: Sequence[Hypothesis], readings: Readings, *, is_idle_mixed: bool = False
) -> tuple[Verdict, ...]:
    """One verdict a hypothesis, in their order."""
    return tuple(judge(hypothesis, readings, is_idle_mixed=is_idle_mixed) for hypothesis in hypotheses)
