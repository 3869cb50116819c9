"""Laws that tie phases together: an ordered table of small modules with one signature."""

from __future__ import annotations

from collections.abc import Callable

from campaign.analysis.laws import burst, calls, floors, gemm, sums, tokens, tpot
from campaign.analysis.laws.law import BROKEN, HOLDS, NOT_TESTABLE, Law
from campaign.analysis.scene import Scene

__all__ = ["BROKEN", "HOLDS", "LAWS", "NOT_TESTABLE", "Law", "reconcile"]

#: In the order in which the document lists them.
LAWS: tuple[Callable[[Scene], tuple[Law, ...]], ...] = (
    tpot.check,
    sums.check,
    calls.check,
    burst.check,
    gemm.check,
    floors.check,
    tokens.check,
)


def reconcile(scene: Scene) -> tuple[Law, ...]:
    """Every law held against the numbers."""
    return tuple(law for check in LAWS for law in check(scene))
