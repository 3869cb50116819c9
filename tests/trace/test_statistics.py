"""Intervals over steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign.trace import analyze
from campaign.trace.statistics import interval, share_interval
from tests.trace.test_views import QWEN

times = st.integers(1, 10**7)


@given(st.lists(st.tuples(times, times), min_size=3, max_size=60))
def test_share_interval__holds_the_share_that_is_shown(steps: list[tuple[int, int]]) -> None:
    parts = np.array([float(part) for part, _ in steps])
    wholes = np.array([float(part + rest) for part, rest in steps])
    found = share_interval(parts, wholes)
    assert found is not None
    low, high = found
    assert 0 <= low <= parts.sum() / wholes.sum() * (1 + 1e-12)
    assert parts.sum() / wholes.sum() * (1 - 1e-12) <= high <= 1


def test_share_interval__covers_the_true_share_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        wholes = draw.normal(100.0, 15.0, 30)
        parts = 0.2 * wholes + draw.normal(0.0, 3.0, 30)
        found = share_interval(parts, wholes)
        assert found is not None
        covered += found[0] <= 0.2 <= found[1]
    assert 930 <= covered <= 970


def test_share_interval__two_steps_tell_none() -> None:
    assert share_interval(np.array([1.0, 2.0]), np.array([2.0, 4.0])) is None
    assert share_interval(np.zeros(3), np.zeros(3)) is None


def test_categories__intervals_hold_their_values_in_a_real_trace() -> None:
    found = analyze([QWEN]).decode
    assert found is not None
    for category in found.categories:
        assert category.share_ci95 is not None and category.exposed_ci95_ms is not None
        assert category.share_of_wall is not None
        assert category.share_ci95[0] <= category.share_of_wall <= category.share_ci95[1]
        assert category.exposed_ci95_ms[0] <= category.exposed_ms_per_step <= category.exposed_ci95_ms[1]


def test_interval__is_students() -> None:
    low, high = interval(np.array([1.0, 2.0, 3.0])) or (0.0, 0.0)
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)
