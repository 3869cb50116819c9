"""What a resume would do and why; changes nothing."""

from __future__ import annotations

from typing import TypedDict

from campaign.errors import StateError
from campaign.runner.opening import OpenCampaign
from campaign.runner.proposals import Planner, follow_ups
from campaign.state import MAX_ATTEMPTS, PhaseState


class PlanRow(TypedDict):
    """One phase of the plan."""

    id: str
    kind: str
    status: str
    action: str
    """measure, go on, retry, read (synthesis), keep, leave, refuse (a result is not as it was accepted)."""
    reason: str


def plan_rows(campaign: OpenCampaign, planner: Planner) -> list[PlanRow]:
    """Each phase with what would be done and the reason; then what a rule would add."""
    state = campaign.reconciled(campaign.store.load_state() or campaign.store.new_state())
    rows = [_row(campaign, entry) for entry in state.phases]
    if all(entry.status in ("done", "skipped", "blocked") or entry.kind == "synthesis" for entry in state.phases):
        rows += [
            PlanRow(
                id=entry.id,
                kind=entry.kind,
                status="pending",
                action="measure",
                reason=f"would be added by {entry.origin}: {entry.reason}",
            )
            for entry in follow_ups(campaign, state, planner)
        ]
    return rows


def _row(campaign: OpenCampaign, entry: PhaseState) -> PlanRow:
    action, reason = _action(campaign, entry)
    return PlanRow(id=entry.id, kind=entry.kind, status=entry.status, action=action, reason=reason)


def _action(campaign: OpenCampaign, entry: PhaseState) -> tuple[str, str]:
    try:
        campaign.store.read_result(entry)
    except StateError as error:
        return "refuse", str(error)
    if campaign.kinds[entry.kind].synthesize is not None:
        return "read", "reads the results of the others"
    origin = f"added by {entry.origin}: " if entry.origin.startswith("rule:") else ""
    actions = {
        "pending": ("measure", origin + (entry.reason or "new")),
        "stale": ("measure", f"changed: {entry.reason}"),
        "running": ("go on", "its measurement runs, or its runner died"),
        "interrupted": ("go on", f"{entry.points_done} of {entry.points_total} points are done; {entry.reason}"),
        "failed": ("retry", f"failed after {entry.attempts} of {MAX_ATTEMPTS} attempts: {entry.reason}"),
        "done": ("keep", "up to date"),
    }
    return actions.get(entry.status, ("leave", f"{entry.status}: {entry.reason}"))
