"""Every kind of phase, in the order of a new campaign."""

from __future__ import annotations

from campaign.phases import attention, collectives, environment, facts, gemm, macro, profile, synthesis
from campaign.phases.kind import PhaseKind

KINDS: tuple[PhaseKind, ...] = (
    environment.KIND,
    macro.KIND,
    gemm.KIND,
    attention.KIND,
    collectives.KIND,
    profile.KIND,
    facts.KIND,
    synthesis.KIND,
)
