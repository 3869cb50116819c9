"""Speculative decoding: more tokens a step, a verification that is not free on an MoE."""

from __future__ import annotations

from campaign.analysis.scene import Scene
from campaign.analysis.whatif.change import Change, Input, changed

#: Draft tokens a step.
GAMMA = 3
#: Acceptance rates of a draft token; assumed until measured.
ACCEPTANCE = (0.6, 0.8)
#: A draft token's cost as a part of the step; assumed.
DRAFT_PART = (0.02, 0.10)


def tokens_per_step(acceptance: float, gamma: int) -> float:
    """τ = (1 − α^(γ+1))/(1 − α): expected tokens of a step with γ draft tokens, each accepted with α < 1."""
    return (1 - acceptance ** (gamma + 1)) / (1 - acceptance)


def changes(scene: Scene) -> tuple[Change, ...]:
    """Time per token with γ = 3; needs the weight bytes of γ+1 tokens and the GEMM time of the step."""
    step_ms, model = scene.step_ms, scene.facts.model
    if step_ms is None or model is None:
        return ()
    now = model.weight_bytes.get(scene.batch)
    then = model.weight_bytes.get(scene.batch * (GAMMA + 1))
    gemm_ms = scene.gemm_ms
    if not now or not then or gemm_ms is None:
        return ()
    ratio = then / now
    low_ms, high_ms = gemm_ms.low, gemm_ms.high
    verify_ms = (step_ms + (ratio - 1) * low_ms, step_ms + (ratio - 1) * high_ms)
    best = (verify_ms[0] + GAMMA * DRAFT_PART[0] * step_ms) / tokens_per_step(ACCEPTANCE[1], GAMMA)
    worst = (verify_ms[1] + GAMMA * DRAFT_PART[1] * step_ms) / tokens_per_step(ACCEPTANCE[0], GAMMA)
    return (
        changed(
            id_="speculation",
            change=f"speculative decoding with {GAMMA} draft tokens",
            formula="(step + GEMM time × (bytes ratio − 1) + γ × draft) / τ, τ = (1 − α^(γ+1))/(1 − α)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="GEMM time", value=low_ms, high=high_ms, unit="ms"),
                Input(name=f"weight bytes of {GAMMA + 1} tokens over 1", value=ratio, unit="1"),
                Input(name="acceptance α", value=ACCEPTANCE[0], high=ACCEPTANCE[1], unit="1", is_assumed=True),
                Input(name="draft / step", value=DRAFT_PART[0], high=DRAFT_PART[1], unit="1", is_assumed=True),
            ),
            now_ms=step_ms,
            step_ms=(best, worst),
            batch=scene.batch,
            assumption="the acceptance rate, which was not measured; attention and messages do not grow with γ",
        ),
    )
