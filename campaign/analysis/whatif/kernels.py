"""Kernels at their physical floor, a host that keeps ahead, and ranks that do not wait for each other."""

from __future__ import annotations

from campaign.analysis.scene import Scene
from campaign.analysis.whatif.change import Change, Input, changed
from campaign.analysis.wording import category

#: A gain below this part of the step is not listed.
LEAST_GAIN = 0.01


def changes(scene: Scene) -> tuple[Change, ...]:
    """One change a computing category above its floor, one for idle time and one for rank spread."""
    step_ms = scene.step_ms
    if step_ms is None:
        return ()
    made = []
    for share in scene.shares.ranked():
        floor_ms = share.floor_ms
        if share.category in ("allreduce", "idle") or not floor_ms:
            continue
        saved_ms = share.exposed_ms - floor_ms
        if saved_ms < LEAST_GAIN * step_ms:
            continue
        name = share.category
        made.append(
            changed(
                id_=f"floor.{name}",
                change=f"{category(name)} at its bandwidth floor",
                formula="step − (exposed time − floor)",
                inputs=(
                    Input(name="profile.step_ms", value=step_ms, unit="ms"),
                    Input(name=f"profile.exposed_ms.{name}", value=share.exposed_ms, unit="ms"),
                    Input(name=f"model.floor_ms.{name}", value=floor_ms, unit="ms"),
                ),
                now_ms=step_ms,
                step_ms=(step_ms - saved_ms, step_ms),
                batch=scene.batch,
                assumption="no kernel reaches its floor wholly",
            )
        )
    return (*made, *_no_gaps(scene, step_ms), *_even_ranks(scene, step_ms))


def _no_gaps(scene: Scene, step_ms: float) -> tuple[Change, ...]:
    idle = scene.shares.find("idle")
    if idle is None or scene.facts.is_cpu or not LEAST_GAIN <= idle.share < 1:
        return ()
    return (
        changed(
            id_="no_gaps",
            change="a host that keeps ahead of the device (graphs, fewer launches, asynchronous scheduling)",
            formula="step − (0 … idle time)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="profile.idle_ms", value=idle.exposed_ms, unit="ms"),
            ),
            now_ms=step_ms,
            step_ms=(step_ms - idle.exposed_ms, step_ms),
            batch=scene.batch,
            assumption="idle time is the host's and not the profiler's",
        ),
    )


def _even_ranks(scene: Scene, step_ms: float) -> tuple[Change, ...]:
    spread_ms = scene.readings.value("profile.rank_spread_ms")
    if spread_ms is None or not LEAST_GAIN * step_ms <= spread_ms < step_ms:
        return ()
    return (
        changed(
            id_="even_ranks",
            change="all ranks as fast as the fastest",
            formula="step − (0 … spread between ranks)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="profile.rank_spread_ms", value=spread_ms, unit="ms"),
            ),
            now_ms=step_ms,
            step_ms=(step_ms - spread_ms, step_ms),
            batch=scene.batch,
            assumption="the spread is the slowest rank's own work, not a queue that moves on",
        ),
    )
