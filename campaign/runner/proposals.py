"""Follow-up phases: what the planner's rules propose, within the budget of campaign.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from campaign.config import PlannerTable
from campaign.phases.kind import Material
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import material, read_all
from campaign.state import CampaignState, PhaseState


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that a rule asks for."""

    id: str
    kind: str
    parameters: dict[str, object]
    rule: str
    reason: str


Planner = Callable[[Material, PlannerTable], Sequence[Proposal]]


def follow_ups(campaign: OpenCampaign, state: CampaignState, planner: Planner) -> list[PhaseState]:
    """New entries for the todo list; a phase that is on it already (done, vetoed or failed) is not proposed again."""
    readings = read_all(campaign, state)
    known = {entry.id for entry in state.phases}
    return [
        PhaseState(
            id=proposal.id, kind=proposal.kind, parameters=dict(proposal.parameters), reason=proposal.reason,
            origin=f"rule:{proposal.rule}",
        )
        for proposal in planner(material(campaign, state, readings), campaign.config.planner)
        if proposal.id not in known and proposal.kind in campaign.kinds
    ]  # fmt: skip
