"""Communicator variants and a faster link: what all-reduce could cost."""

from __future__ import annotations

from campaign.analysis.scene import Scene
from campaign.analysis.whatif.change import Change, Input, changed

#: How much faster the link is in the what-if.
LINK_FACTOR = 2.0


def changes(scene: Scene) -> tuple[Change, ...]:
    """All-reduce at its link's floor, and a link twice as fast."""
    step_ms, share = scene.step_ms, scene.shares.find("allreduce")
    if step_ms is None or share is None:
        return ()
    return (*_variants(scene, step_ms, share.exposed_ms), *_faster_link(scene, step_ms, share.exposed_ms))


def _variants(scene: Scene, step_ms: float, exposed_ms: float) -> tuple[Change, ...]:
    floor_ms = scene.readings.value("model.floor_ms.allreduce")
    burst = scene.readings.find("collectives.burst_graph_ms") or scene.readings.find("collectives.burst_ms")
    if floor_ms is None or burst is None or burst.value is None or burst.value <= floor_ms:
        return ()
    certain_ms = min(burst.value, exposed_ms) - floor_ms
    if certain_ms <= 0:
        return ()
    inputs = (
        Input(name="profile.step_ms", value=step_ms, unit="ms"),
        Input(name="profile.exposed_ms.allreduce", value=exposed_ms, unit="ms"),
        Input(name=burst.name, value=burst.value, unit="ms"),
        Input(name="model.floor_ms.allreduce", value=floor_ms, unit="ms"),
    )
    return (
        changed(
            id_="communicator",
            change="a communicator that reaches the link's floor (one-shot or two-shot all-reduce, other algorithms)",
            formula="step − (burst … exposed all-reduce) + floor",
            inputs=inputs,
            now_ms=step_ms,
            step_ms=(step_ms - exposed_ms + floor_ms, step_ms - certain_ms),
            batch=scene.batch,
            assumption="peer access between all ranks; waiting for the slowest rank may stay",
        ),
    )


def _faster_link(scene: Scene, step_ms: float, exposed_ms: float) -> tuple[Change, ...]:
    value = scene.readings.value
    alpha_us, beta_gb_s, message = (
        value("collectives.alpha_us"), value("collectives.beta_gb_s"), value("collectives.message_bytes"),
    )  # fmt: skip
    calls = value("collectives.burst_calls")
    if alpha_us is None or not beta_gb_s or beta_gb_s < 0 or not message or not calls:
        return ()
    moving_us = message / (beta_gb_s * 1e3)
    saved_ms = calls * moving_us * (1 - 1 / LINK_FACTOR) / 1e3
    if saved_ms <= 0 or saved_ms >= exposed_ms:
        return ()
    return (
        changed(
            id_="link",
            change=f"a link {LINK_FACTOR:g} times as fast, the same latency",
            formula="step − calls × bytes/β × (1 − 1/2)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="collectives.alpha_us", value=alpha_us, unit="us"),
                Input(name="collectives.beta_gb_s", value=beta_gb_s, unit="GB/s"),
                Input(name="collectives.message_bytes", value=message, unit="B"),
                Input(name="collectives.burst_calls", value=calls, unit="1"),
            ),
            now_ms=step_ms,
            step_ms=(step_ms - saved_ms, step_ms - saved_ms),
            batch=scene.batch,
            assumption="the fit α + bytes/β holds at this size; latency does not change with the link",
        ),
    )
