"""Rules that ask for another profile."""

from __future__ import annotations

from collections.abc import Iterator

from campaign.analysis.wording import percent
from campaign.planner.proposal import Proposal
from campaign.planner.rules.communication import ALLREDUCE_LIMIT
from campaign.planner.view import View

#: TTFT above this part of a request's time makes prefill worth a profile.
PREFILL_LIMIT = 0.30
BATCH = 16


def allreduce_batch(view: View) -> Iterator[Proposal]:
    """All-reduce over 30 % of the step: whether it stays so at batch 16."""
    share = view.share("allreduce")
    known = any(name.endswith(f"@b{BATCH}") for name in view.scene.readings.names if name.startswith("profile."))
    if share <= ALLREDUCE_LIMIT or known or view.scene.batch == BATCH or not view.has("profile"):
        return
    yield Proposal(
        id="profile-b16",
        kind="profile",
        parameters={"batch": BATCH},
        rule="allreduce_batch",
        reason=f"all-reduce takes {percent(share)} of the step at batch {view.scene.batch} "
        f"(limit {percent(ALLREDUCE_LIMIT, 0)}): whether it does at batch {BATCH}",
        server_loads=1,
        minutes=5.0,
    )


def prefill(view: View) -> Iterator[Proposal]:
    """TTFT over 30 % of a request's time at one stream: a profile with a long prompt."""
    ttft, whole = view.scene.macro("ttft_ms", 1), view.scene.macro("e2el_ms", 1)
    if ttft is None or whole is None or not whole[1].middle or not view.has("profile"):
        return
    part = ttft[1].middle / whole[1].middle
    if part <= PREFILL_LIMIT:
        return
    yield Proposal(
        id="profile-prefill",
        kind="profile",
        parameters={"input_tokens": 512, "steps": 10},
        rule="prefill",
        reason=f"{percent(part)} of a request's time is before its first token (limit {percent(PREFILL_LIMIT, 0)}): "
        "where a prefill's time goes",
        server_loads=1,
        minutes=5.0,
    )
