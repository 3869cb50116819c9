"""The profiled step against the time per token that users see at the same batch."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, NOT_TESTABLE, Law, not_testable
from campaign.analysis.scene import Scene
from campaign.analysis.wording import amounts, percent

_ID = "step_against_tpot"
#: A profiler that costs more than this measures another server.
TOLERANCE = 0.10


def check(scene: Scene) -> tuple[Law, ...]:
    """measured: `profile.step_ms`; expected: `macro.tpot_ms.c<batch>`, else `profile.unprofiled_tpot_ms`."""
    law = f"profiled step = TPOT at {scene.batch} stream{'s' if scene.batch > 1 else ''} without the profiler"
    seen = scene.macro("tpot_ms", scene.batch)
    expected = scene.readings.value(seen[0] if seen else "profile.unprofiled_tpot_ms")
    step_ms = scene.step_ms
    if expected is None or step_ms is None or not expected:
        missing = [f"macro.tpot_ms.c{scene.batch}"] * (not expected) + ["profile.step_ms"] * (step_ms is None)
        return (not_testable(_ID, law, *missing),)
    difference = step_ms - expected
    part = difference / expected
    is_kept = abs(part) <= TOLERANCE
    seen_range = scene.readings.interval(seen[0]) if seen else None
    step_range = scene.readings.interval("profile.step_ms")
    if not is_kept and seen_range is not None and step_range is not None and seen_range.overlaps(step_range):
        note = f"noise leaves it open: TPOT is {amounts(seen_range.low, seen_range.high, 'ms')}"
        return (
            Law(
                id=_ID, law=law, status=NOT_TESTABLE, unit="ms", expected=expected, measured=step_ms,
                difference=difference, note=note,
            ),
        )  # fmt: skip
    what = "the profiler adds" if part >= 0 else "the profiled step is shorter by"
    note = f"{what} {percent(abs(part))}"
    if not is_kept:
        note += "; shares of this step are not those of the served one"
    return (
        Law(
            id=_ID,
            law=law,
            status=HOLDS if is_kept else BROKEN,
            unit="ms",
            expected=expected,
            measured=step_ms,
            difference=difference,
            unexplained=None if is_kept else difference,
            note=note,
        ),
    )
