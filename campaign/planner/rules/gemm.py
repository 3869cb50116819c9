"""Rules on GEMMs; measurable without a server."""

from __future__ import annotations

from collections.abc import Iterator

from campaign.analysis.wording import percent
from campaign.planner.proposal import Proposal
from campaign.planner.view import View

#: GEMMs above this share of the step are measured over batch sizes.
LIMIT = 0.30


def gemm_share(view: View) -> Iterator[Proposal]:
    """GEMMs over 30 % of the step: the same shapes over batch sizes."""
    share = view.share("gemm", "moe_gemm")
    if share <= LIMIT or not view.has("gemm"):
        return
    yield Proposal(
        id="gemm-batches",
        kind="gemm",
        parameters={"batch": [1, 2, 4, 8, 16, 32, 64]},
        rule="gemm_share",
        reason=f"GEMMs take {percent(share)} of the step (limit {percent(LIMIT, 0)}): "
        "up to which batch a step's weights are read for free",
        minutes=5.0,
    )
