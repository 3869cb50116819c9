"""The isolated decode burst against the all-reduce time inside a step."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law, not_testable
from campaign.analysis.scene import Scene
from campaign.analysis.wording import amount, times, whole

_ID, _LAW = "allreduce_in_situ", "all-reduce time in a step = the isolated burst + waiting for the slowest rank"
#: Part of the burst that may stay unexplained.
TOLERANCE = 0.10


def check(scene: Scene) -> tuple[Law, ...]:
    """measured: `profile.busy_ms.allreduce` (else exposed); expected: the burst, in a graph where measured so."""
    readings = scene.readings
    if readings.value("model.allreduces_per_step") == 0:
        return ()
    burst = readings.find("collectives.burst_graph_ms") or readings.find("collectives.burst_ms")
    busy = readings.find("profile.busy_ms.allreduce") or readings.find("profile.exposed_ms.allreduce")
    if burst is None or busy is None or not burst.value or busy.value is None:
        missing = ["collectives.burst_ms"] * (burst is None) + ["profile.busy_ms.allreduce"] * (busy is None)
        return (not_testable(_ID, _LAW, *missing),)
    difference = busy.value - burst.value
    parts = _parts(scene, burst.value) if difference > 0 else []
    # The isolated burst has some waiting in it too: what is known may explain more than there is, never less.
    rest = min(difference, max(0.0, difference - sum(ms for _, ms in parts)))
    is_kept = abs(rest) <= TOLERANCE * burst.value
    return (
        Law(
            id=_ID,
            law=_LAW,
            status=HOLDS if is_kept else BROKEN,
            unit="ms",
            expected=burst.value,
            measured=busy.value,
            difference=difference,
            explained_by=" + ".join(f"{what} {amount(ms, 'ms')}" for what, ms in parts),
            unexplained=None if is_kept else rest,
            note=f"in situ costs {times(busy.value / burst.value)} the isolated burst"
            + (
                ""
                if is_kept or difference <= 0 or any("waiting" in what for what, _ in parts)
                else "; the trace does not split waiting"
            ),
        ),
    )


def _parts(scene: Scene, burst_ms: float) -> list[tuple[str, float]]:
    """What is known to be in the difference: waiting, and calls that the burst does not have."""
    value = scene.readings.value
    calls = value("profile.path_calls.allreduce")
    calls = value("profile.calls.allreduce") if calls is None else calls
    wait_us, burst_calls = (
        value("profile.allreduce_wait_us"), value("collectives.burst_calls"),
    )  # fmt: skip
    parts = []
    if calls is not None and wait_us:
        parts.append(("waiting", calls * wait_us / 1e3))
    if calls is not None and burst_calls and calls > burst_calls + 0.5:
        more = calls - burst_calls
        parts.append((f"{whole(more)} more call{'s' if more != 1 else ''}", more * burst_ms / burst_calls))
    if further_ms := value("profile.further_paths_ms.allreduce"):
        parts.append(("another path", further_ms))
    return parts
