"""Rules on all-reduce and on ranks that do not keep step; measurable without a server."""

from __future__ import annotations

from collections.abc import Iterator

from campaign.analysis.wording import amount, percent
from campaign.planner.proposal import Proposal
from campaign.planner.view import View

#: All-reduce above this share of the step is swept.
ALLREDUCE_LIMIT = 0.30
#: A spread between ranks above this part of the step asks for the links.
SPREAD_LIMIT = 0.10
#: From a quarter of a KiB to 4 MiB: what decode and small prefills send.
SWEEP_BYTES = tuple(256 << shift for shift in range(0, 15, 2))
#: Large enough to see a slow link, small enough for a minute.
LINK_BYTES = (1 << 14, 1 << 18, 1 << 22)


def allreduce_share(view: View) -> Iterator[Proposal]:
    """All-reduce over 30 % of the step: its size and algorithm sweep."""
    share = view.share("allreduce")
    if share <= ALLREDUCE_LIMIT or not view.has("collectives"):
        return
    sizes = sorted({*SWEEP_BYTES, int(view.scene.readings.value("model.message_bytes") or SWEEP_BYTES[0])})
    yield Proposal(
        id="collectives-sweep",
        kind="collectives",
        parameters={
            "sizes_bytes": sizes,
            "operations": ["all_reduce", "reduce_scatter", "all_gather"],
            "samples": 40,
        },
        rule="allreduce_share",
        reason=f"all-reduce takes {percent(share)} of the step (limit {percent(ALLREDUCE_LIMIT, 0)}): "
        "where its time goes from latency to bandwidth, and what its two halves cost",
        minutes=2.0,
    )


def rank_spread(view: View) -> Iterator[Proposal]:
    """Ranks apart by over 10 % of the step: each rank's links."""
    spread_ms, step_ms = view.scene.readings.value("profile.rank_spread_ms"), view.scene.step_ms
    if spread_ms is None or step_ms is None or spread_ms <= SPREAD_LIMIT * step_ms or not view.has("collectives"):
        return
    yield Proposal(
        id="collectives-links",
        kind="collectives",
        parameters={"sizes_bytes": list(LINK_BYTES), "operations": ["all_to_all", "all_gather"], "samples": 40},
        rule="rank_spread",
        reason=f"ranks are {amount(spread_ms, 'ms')} apart in a step of {amount(step_ms, 'ms')} "
        f"({percent(spread_ms / step_ms)}, limit {percent(SPREAD_LIMIT, 0)}): whether one rank's link is slow",
        minutes=2.0,
    )
