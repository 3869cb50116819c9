"""Each category free: Amdahl's bound on what any work on it can bring."""

from __future__ import annotations

from campaign.analysis.scene import Scene
from campaign.analysis.shares import Share
from campaign.analysis.whatif.change import Change, Input, changed
from campaign.analysis.wording import percents

#: A category below this share of the step is not listed.
LEAST_SHARE = 0.02
#: A step cannot be shorter than this part of itself in a bound (all of it in one category).
_LEAST = 1e-3


def changes(scene: Scene) -> tuple[Change, ...]:
    """One bound a named category of at least 2 % of the step, largest first."""
    step_ms = scene.step_ms
    if step_ms is None:
        return ()
    return tuple(_free(scene, share, step_ms) for share in scene.shares.ranked() if share.share >= LEAST_SHARE)


def _free(scene: Scene, share: Share, step_ms: float) -> Change:
    inputs = [
        Input(name="profile.step_ms", value=step_ms, unit="ms"),
        Input(name=_exposed_name(share.category), value=share.exposed_ms, unit="ms"),
    ]
    transfer, assumption = _transfer(scene, share)
    if transfer is not None:
        inputs.append(transfer)
    saved_low = share.exposed_ms if transfer is None else min(transfer.value, share.exposed_ms)
    name = scene.word(share.category)
    if share.high > share.share + 0.0005 and share.category != "idle":
        assumption += f"; with unclassified time its share is {percents(share.low, share.high)}"
    return changed(
        id_=f"free.{share.category}",
        change=f"{name} free" if share.category != "idle" else f"no {name}",
        formula="step − exposed time" if transfer is None else "step − (transfer only … all exposed time)",
        inputs=tuple(inputs),
        now_ms=step_ms,
        step_ms=(_rest(step_ms, share.exposed_ms), _rest(step_ms, saved_low)),
        batch=scene.batch,
        assumption=assumption,
        is_bound=True,
    )


def _transfer(scene: Scene, share: Share) -> tuple[Input | None, str]:
    """The part of all-reduce time that is not waiting: from the trace, else the isolated burst."""
    if share.category != "allreduce":
        return None, "an upper bound: nothing is free"
    calls = scene.readings.value("profile.calls.allreduce")
    transfer_us = scene.readings.value("profile.allreduce_transfer_us")
    if calls is not None and transfer_us is not None:
        value_ms = calls * transfer_us / 1e3
        transfer = Input(name="calls × profile.allreduce_transfer_us", value=value_ms, unit="ms")
        return transfer, "waiting for the slowest rank would stay where ranks stay uneven"
    burst = scene.readings.find("collectives.burst_graph_ms") or scene.readings.find("collectives.burst_ms")
    if burst is not None and burst.value is not None:
        transfer = Input(name=burst.name, value=burst.value, unit="ms")
        return transfer, "an upper bound since waiting is in it; the isolated burst stands for transfer"
    return None, "an upper bound since waiting is in it"


def _exposed_name(name: str) -> str:
    return "profile.idle_ms" if name == "idle" else f"profile.exposed_ms.{name}"


def _rest(step_ms: float, saved_ms: float) -> float:
    return max(step_ms - saved_ms, step_ms * _LEAST)
