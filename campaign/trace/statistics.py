"""Means, deciles and intervals over steps."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from campaign.trace.events import Floats

#: Student's t, two-sided 95 %, by degrees of freedom; beyond, by Cornish and Fisher's expansion of the normal 1.95996.
_T95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_Z95: Final = 1.959964
_FEWEST: Final = 3


def t95(freedom: int) -> float:
    """The 97.5 % quantile of Student's t with `freedom` ≥ 1 degrees of freedom."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    z = _Z95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def interval(values: Floats) -> tuple[float, float] | None:
    """95 % interval of the mean; None below three values."""
    if len(values) < _FEWEST:
        return None
    mean = float(values.mean())
    half = t95(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half


def share_interval(parts: Floats, wholes: Floats) -> tuple[float, float] | None:
    """95 % interval of the ratio of the means, sum(parts) / sum(wholes), within 0 and 1; None below three values.

    Linearised: the ratio's error is that of the mean of (part − ratio · whole) over the mean whole (Cochran, Sampling
    Techniques, 6.4), so that the interval is about the ratio that is shown and not about the mean of the ratios.
    """
    if len(parts) < _FEWEST or not wholes.any():
        return None
    whole = float(wholes.mean())
    ratio = float(parts.mean()) / whole
    rest = (parts - ratio * wholes) / whole
    half = t95(len(parts) - 1) * float(rest.std(ddof=1)) / math.sqrt(len(parts))
    return max(0.0, ratio - half), min(1.0, ratio + half)


def quantile(values: Floats, share: float) -> float | None:
    """The quantile by linear interpolation; None of nothing."""
    return float(np.quantile(values, share)) if len(values) else None


def unsteady(walls: Floats) -> int:
    """How many steps at the start are not steady yet: longer than the later ones by more than their scatter.

    The measure is the median of the later two thirds, the tolerance three scaled median deviations, 5 % at least; at
    most a third of the steps is left out.
    """
    if len(walls) < 2 * _FEWEST:
        return 0
    later = walls[len(walls) // 3 :]
    middle = float(np.median(later))
    tolerance = max(3 * 1.4826 * float(np.median(np.abs(later - middle))), 0.05 * middle)
    steady = np.flatnonzero(np.abs(walls - middle) <= tolerance)
    return min(int(steady[0]) if len(steady) else 0, len(walls) // 3)
