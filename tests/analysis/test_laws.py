"""Laws at their edges."""

from __future__ import annotations

import pytest

from campaign.analysis import Facts, Readings
from campaign.analysis.laws import tpot
from campaign.analysis.scene import set_scene
from tests.analysis.fixtures import quantity


@pytest.mark.parametrize(
    ("tpot_ms", "half_ms", "status"),
    [(50.0, 0.1, "holds"), (46.0, 0.1, "holds"), (40.0, 0.1, "broken"), (74.0, 69.0, "not testable")],
)
def test_tpot__noise_neither_breaks_nor_keeps_a_law(tpot_ms: float, half_ms: float, status: str) -> None:
    numbers = [
        quantity("profile.step_ms", 50.0),
        quantity("macro.tpot_ms.c1", tpot_ms, low=tpot_ms - half_ms, high=tpot_ms + half_ms),
    ]
    (law,) = tpot.check(set_scene(Readings(numbers), Facts()))
    assert law.status == status
    assert (law.expected, law.measured) == (tpot_ms, 50.0)
