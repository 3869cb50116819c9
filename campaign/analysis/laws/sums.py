"""The categories of a step and its idle time add up to the step."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law, not_testable
from campaign.analysis.scene import Scene

_ID, _LAW = "step_sum", "exposed time of all categories + idle = the step"
TOLERANCE = 0.005


def check(scene: Scene) -> tuple[Law, ...]:
    """measured: the sum over `profile.exposed_ms.*` and `profile.idle_ms`; expected: `profile.step_ms`."""
    step_ms = scene.step_ms
    exposed = scene.readings.keys("profile.exposed_ms")
    if step_ms is None or not exposed:
        return (not_testable(_ID, _LAW, "profile.step_ms"),)
    measured = sum(exposed.values()) + (scene.readings.value("profile.idle_ms") or 0.0)
    is_kept = abs(measured - step_ms) <= TOLERANCE * step_ms
    return (
        Law(
            id=_ID,
            law=_LAW,
            status=HOLDS if is_kept else BROKEN,
            unit="ms",
            expected=step_ms,
            measured=measured,
            difference=round(measured - step_ms, 6),  # ns; below it is only how floats add up
            unexplained=None if is_kept else measured - step_ms,
        ),
    )
