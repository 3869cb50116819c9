"""Which of the rules' proposals the budget allows."""

from __future__ import annotations

from campaign.analysis.readings import nearest
from campaign.config import PlannerTable
from campaign.errors import ConfigError
from campaign.phases.kind import Material
from campaign.planner.proposal import Proposal
from campaign.planner.rules import RULES
from campaign.planner.view import view_of

ORIGIN = "rule:"


def wishes(material: Material, off: tuple[str, ...] = ()) -> tuple[Proposal, ...]:
    """Everything that the rules ask for and that is not on the todo list yet, whatever it costs.

    Raises `ConfigError` where `off` names a rule that does not exist.
    """
    check_rules(off)
    view, known = view_of(material), {row.id for row in material.rows}
    asked = [proposal for name, rule in RULES.items() if name not in off for proposal in rule(view)]
    return tuple(proposal for proposal in asked if proposal.id not in known)


def propose(material: Material, budget: PlannerTable) -> tuple[Proposal, ...]:
    """What may be added now, first rule first: as many phases, server loads and minutes as the budget still has.

    A follow-up that its person vetoed (skipped) costs nothing, and is not asked for again.
    """
    added = [row for row in material.rows if row.origin.startswith(ORIGIN) and row.status != "skipped"]
    phases, loads = budget.follow_ups - len(added), budget.server_loads
    loads -= sum(row.kind in ("macro", "profile") for row in added)
    minutes = budget.minutes - sum(row.duration_s for row in added) / 60
    taken: list[Proposal] = []
    for proposal in wishes(material, budget.off):
        if len(taken) >= phases or proposal.server_loads > loads or proposal.minutes > minutes:
            continue
        taken.append(proposal)
        loads -= proposal.server_loads
        minutes -= proposal.minutes
    return tuple(taken)


def check_rules(off: tuple[str, ...]) -> None:
    """Raise `ConfigError` for a rule in `[planner] off` that does not exist, with the nearest that does."""
    for name in off:
        if name not in RULES:
            close = nearest(name, tuple(RULES), 1)
            hint = f"The nearest: {close[0]}." if close else f"The rules: {', '.join(RULES)}."
            raise ConfigError(f"planner.off: there is no rule {name!r}. {hint}")
