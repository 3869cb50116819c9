"""Medians, percentiles and spreads of raw samples."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def flatten(rounds: Sequence[Sequence[float]]) -> list[float]:
    """The samples of all rounds."""
    return [sample for samples in rounds for sample in samples]


def median(samples: Sequence[float]) -> float | None:
    """The median; None without samples."""
    return statistics.median(samples) if samples else None


def percentile(samples: Sequence[float], percent: float) -> float | None:
    """The percentile by linear interpolation between ranks; None without samples."""
    if not samples:
        return None
    ordered = sorted(samples)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def spread_of_rounds(rounds: Sequence[Sequence[float]]) -> float | None:
    """(largest − smallest) of the rounds' medians over their mean; None with fewer than two rounds."""
    medians = [statistics.median(samples) for samples in rounds if samples]
    if len(medians) < 2:
        return None
    return (max(medians) - min(medians)) / statistics.fmean(medians)
