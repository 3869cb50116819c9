"""Every kind of phase, in the order of a new campaign."""

from __future__ import annotations

from campaign.phases import collectives, environment, gemm, macro, profile, synthesis
from campaign.phases.kind import PhaseKind

KINDS: tuple[PhaseKind, ...] = (
    environment.KIND,
    macro.KIND,
    gemm.KIND,
    collectives.KIND,
    profile.KIND,
    synthesis.KIND,
)
