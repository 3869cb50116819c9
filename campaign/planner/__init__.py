"""From findings to further phases: rules in an ordered table, within the budget of campaign.toml."""

from campaign.planner.planning import check_rules, propose, wishes
from campaign.planner.proposal import Proposal
from campaign.planner.rules import RULES

__all__ = ["RULES", "Proposal", "check_rules", "propose", "wishes"]
