"""Quantities → hypotheses, reconciliation, bottleneck, what-if: pure functions."""

from campaign.analysis.facts import Facts, ModelFacts
from campaign.analysis.hypotheses import Hypothesis, Verdict, check_syntax, judge
from campaign.analysis.readings import Readings
from campaign.analysis.synthesis import Synthesis, synthesize

__all__ = [
    "Facts",
    "Hypothesis",
    "ModelFacts",
    "Readings",
    "Synthesis",
    "Verdict",
    "check_syntax",
    "judge",
    "synthesize",
]
