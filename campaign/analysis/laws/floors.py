"""No category is faster than its bytes over the memory's (or link's) bandwidth."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law
from campaign.analysis.scene import Scene
from campaign.analysis.wording import category, percents


def check(scene: Scene) -> tuple[Law, ...]:
    """One law a category with `model.floor_ms.<category>`; measured: its busy time, else its exposed time."""
    laws = []
    for name, floor_ms in scene.readings.keys("model.floor_ms").items():
        share = scene.shares.find(name)
        if share is None or floor_ms <= 0:
            continue
        measured = share.exposed_ms if share.busy_ms is None else share.busy_ms
        is_kept = measured >= floor_ms
        note = "" if is_kept else f"kernels of it stand elsewhere; its true share is {percents(share.low, share.high)}"
        laws.append(
            Law(
                id=f"floor.{name}",
                law=f"{category(name)} time ≥ its bytes over the bandwidth",
                status=HOLDS if is_kept else BROKEN,
                unit="ms",
                expected=floor_ms,
                measured=measured,
                difference=measured - floor_ms,
                explained_by="",
                unexplained=None if is_kept else measured - floor_ms,
                note=note,
            )
        )
    return tuple(laws)
