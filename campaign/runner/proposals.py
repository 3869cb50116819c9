"""Follow-up phases: what the planner's rules propose, within the budget of campaign.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from campaign.config import PlannerTable
from campaign.phases.kind import Material
from campaign.planner.proposal import Proposal
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import material, read_all
from campaign.state import CampaignState, PhaseState

Planner = Callable[[Material, PlannerTable], Sequence[Proposal]]


def follow_ups(campaign: OpenCampaign, state: CampaignState, planner: Planner) -> list[PhaseState]:
    """New entries for the todo list; a phase that is on it already (done, vetoed or failed) is not proposed again."""
    readings = read_all(campaign, state)
    known = {entry.id for entry in state.phases}
    return [
        PhaseState(
            id=proposal.id, kind=proposal.kind, parameters=dict(proposal.parameters), reason=proposal.reason,
            because=proposal.reason,
            title=f"{campaign.kinds[proposal.kind].title}: {proposal.id}",
            origin=f"rule:{proposal.rule}",
        )
        for proposal in planner(material(campaign, state, readings), campaign.config.planner)
        if proposal.id not in known and proposal.kind in campaign.kinds
    ]  # fmt: skip
