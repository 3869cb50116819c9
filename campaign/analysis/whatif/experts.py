"""Experts spread over ranks (EP) instead of cut over them (TP)."""

from __future__ import annotations

from campaign.analysis.scene import Scene
from campaign.analysis.whatif.change import Change, Input, changed


def changes(scene: Scene) -> tuple[Change, ...]:
    """Only for an MoE under TP: whole experts at their floor at best, all active ones on one rank at worst."""
    step_ms, model, share = scene.step_ms, scene.facts.model, scene.shares.find("moe_gemm")
    ranks = scene.facts.tensor_parallel
    if step_ms is None or share is None or model is None or not model.experts or ranks < 2:
        return ()
    if scene.facts.expert_parallel > 1 or share.floor_ms is None or share.exposed_ms <= 0:
        return ()
    active = min(model.experts, model.experts_per_token * scene.batch)
    worst = min(ranks, active) * share.exposed_ms
    best = min(share.floor_ms, share.exposed_ms)
    return (
        changed(
            id_="expert_parallel",
            change=f"experts whole on one rank each (EP {ranks}) instead of cut over {ranks} ranks",
            formula="step − expert GEMM + (floor … expert GEMM × most active experts on one rank / even)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="profile.exposed_ms.moe_gemm", value=share.exposed_ms, unit="ms"),
                Input(name="model.floor_ms.moe_gemm", value=share.floor_ms, unit="ms"),
                Input(name="ranks", value=float(ranks), unit="1"),
            ),
            now_ms=step_ms,
            step_ms=(step_ms - share.exposed_ms + best, step_ms - share.exposed_ms + worst),
            batch=scene.batch,
            assumption="even routing at best; all-reduces stay as they are (EP with one data-parallel rank)",
        ),
    )
