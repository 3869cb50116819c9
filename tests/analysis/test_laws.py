"""Laws at their edges."""

from __future__ import annotations

import msgspec
import pytest

from campaign.analysis import Facts, Readings
from campaign.analysis.headline import headlines
from campaign.analysis.laws import burst, tpot
from campaign.analysis.scene import set_scene
from campaign.schema import Source
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


@pytest.mark.parametrize(
    ("in_situ_ms", "wait_us", "status", "unexplained_ms"),
    [
        (
            0.447,
            0.96,
            "holds",
            None,
        ),  # The burst has some of the waiting in it: more is known than there is to explain.
        (0.447, 0.0, "holds", None),
        (0.511, 0.96, "holds", None),
        (0.700, 0.96, "broken", pytest.approx(0.189, abs=0.001)),
        (0.300, 0.96, "broken", pytest.approx(-0.118)),
    ],
)
def test_burst__waiting_explains_what_there_is(
    in_situ_ms: float, wait_us: float, status: str, unexplained_ms: float | None
) -> None:
    numbers = [
        quantity("collectives.burst_graph_ms", 0.418),
        quantity("collectives.burst_calls", 97, "1"),
        quantity("profile.busy_ms.allreduce", in_situ_ms),
        quantity("profile.calls.allreduce", 97, "1"),
        quantity("profile.allreduce_wait_us", wait_us, "us"),
    ]
    (law,) = burst.check(set_scene(Readings(numbers), Facts()))
    assert law.status == status
    assert law.unexplained == unexplained_ms


def test_headline__only_a_number_that_was_measured_again_has_a_change() -> None:
    def step(value: float, attempt: int) -> Readings:
        source = Source(phase="profile", attempt=attempt)
        return Readings([msgspec.structs.replace(quantity("profile.step_ms", value), source=source)])

    def change(now: Readings, before: Readings) -> float | None:
        (row,) = (row for row in headlines(set_scene(now, Facts()), before) if row.name == "profile.step_ms")
        return row.change

    assert change(step(5.0, 1), step(5.0, 1)) is None
    assert change(step(5.0, 2), step(5.0, 1)) == 0.0
    assert change(step(6.0, 2), step(5.0, 1)) == pytest.approx(0.2)
