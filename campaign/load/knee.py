"""The knee of throughput over concurrency."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

#: Past the knee a step of concurrency gains less than this part of what it asks for.
KNEE_GAIN = 0.5


def gain(low: tuple[int, float], high: tuple[int, float]) -> float:
    """Part of the asked growth that throughput followed from one (concurrency, tok/s) to the next: 1 = in full."""
    if not low[1] or high[0] <= low[0]:
        return 0.0
    return (high[1] / low[1] - 1) / (high[0] / low[0] - 1)


def knee_of(points: Sequence[tuple[int, float]]) -> int | None:
    """The concurrency from which on no step gained half of what it asked for; null where the last step still did.

    `points` are (concurrency, tok/s) by rising concurrency.
    """
    steps = list(itertools.pairwise(points))
    knee = None
    for low, high in reversed(steps):
        if gain(low, high) >= KNEE_GAIN:
            break
        knee = low[0]
    return knee
