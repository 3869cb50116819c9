"""Rules on time in which the device does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from campaign.analysis.wording import percent
from campaign.planner.proposal import Proposal
from campaign.planner.view import View

#: Idle time above this share of the step is looked into.
LIMIT = 0.20


def idle(view: View) -> Iterator[Proposal]:
    """Idle over 20 % of the step: a few steps at several batches, to see whether idle time is per step."""
    share = view.share("idle")
    if share <= LIMIT or not view.has("profile"):
        return
    yield Proposal(
        id="profile-host",
        kind="profile",
        parameters={"batch": [1, 4, 16], "steps": 20},
        rule="idle",
        reason=f"the device is idle for {percent(share)} of the step (limit {percent(LIMIT, 0)}): "
        "whether the host's time is per step or per sequence",
        server_loads=1,
        minutes=5.0,
    )
