"""GEMMs measured alone × calls a step, against the GEMM kernels inside a step."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law, not_testable
from campaign.analysis.readings import UNKNOWN
from campaign.analysis.scene import Scene
from campaign.analysis.wording import amount, times

_ID, _LAW = "gemm_in_situ", "GEMM time in a step = each shape measured alone × its calls"
#: Shapes alone run cold; neighbours in a step leave caches and clocks in another state.
TOLERANCE = 0.25


def check(scene: Scene) -> tuple[Law, ...]:
    """measured: `profile.busy_ms.gemm` + `.moe_gemm`; expected: `gemm.step_ms` at the profile's batch."""
    readings = scene.readings
    expected = readings.value(f"gemm.step_ms@b{scene.batch}")
    if expected is None:
        expected = readings.value("gemm.step_ms")
    kinds = [readings.value(f"profile.busy_ms.{name}") for name in ("gemm", "moe_gemm")]
    known = [ms for ms in kinds if ms is not None]
    if expected is None or not known or not expected:
        missing = ["gemm.step_ms"] * (expected is None) + ["profile.busy_ms.gemm"] * (not known)
        return (not_testable(_ID, _LAW, *missing),)
    measured = sum(known)
    difference = measured - expected
    is_kept = abs(difference) <= TOLERANCE * expected
    return (
        Law(
            id=_ID,
            law=_LAW,
            status=HOLDS if is_kept else BROKEN,
            unit="ms",
            expected=expected,
            measured=measured,
            difference=difference,
            unexplained=None if is_kept else difference,
            note=f"in situ takes {times(measured / expected)} the sum of shapes" + _hiding(scene, -difference),
        ),
    )


def _hiding(scene: Scene, missing_ms: float) -> str:
    unknown_ms = sum(scene.readings.value(f"profile.busy_ms.{name}") or 0.0 for name in UNKNOWN)
    if missing_ms <= 0 or unknown_ms < missing_ms:
        return ""
    return f"; unclassified kernels ({amount(unknown_ms, 'ms')}) are enough to hold the rest"
