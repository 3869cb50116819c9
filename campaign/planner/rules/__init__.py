"""The rules, in the order in which they are heard: small modules with one signature."""

from campaign.planner.rules import communication, gemm, host, macro, profile
from campaign.planner.view import Rule

#: Rule's name → rule; earlier ones are preferred where the budget does not reach for all.
RULES: dict[str, Rule] = {
    "rank_spread": communication.rank_spread,
    "allreduce_share": communication.allreduce_share,
    "client_bound": macro.client_bound,
    "noise": macro.noise,
    "gemm_share": gemm.gemm_share,
    "allreduce_batch": profile.allreduce_batch,
    "idle": host.idle,
    "prefill": profile.prefill,
}
