"""What the decode step's time goes to, and whether that is certain enough to say."""

from __future__ import annotations

import msgspec

from campaign.analysis.readings import UNKNOWN
from campaign.analysis.shares import UNCLASSIFIED_LIMIT, Share, Shares
from campaign.analysis.wording import category, percent


class Bottleneck(msgspec.Struct, frozen=True, kw_only=True):
    """The largest named part of the step."""

    category: str
    """Category, or `idle`."""
    share: Share
    """Its share of the step."""
    second: Share | None
    """The next largest."""
    unclassified: float
    """Fraction of the step in kernels that no rule knows."""
    is_claimed: bool
    """Whether it may be called what bounds decode."""
    is_largest_either_way: bool
    """Whether it stays the largest however unclassified time is counted."""
    reason: str
    """Why it is not claimed."""


def find_bottleneck(shares: Shares) -> Bottleneck | None:
    """The largest named category, claimed only if the step is classified and no other could be larger.

    None where no decode step was profiled.
    """
    ranked = shares.ranked()
    if not ranked:
        return None
    top, others = ranked[0], ranked[1:]
    is_largest = all(_stays_above(shares, top, other) for other in others) and shares.unclassified <= top.share
    reason = ""
    if shares.unclassified > UNCLASSIFIED_LIMIT:
        reason = (
            f"{percent(shares.unclassified)} of the step is unclassified "
            f"(no claim above {percent(UNCLASSIFIED_LIMIT, 0)})"
        )
    elif not is_largest:
        rivals = [other for other in others if not _stays_above(shares, top, other)]
        rival = f"{category(rivals[0].category)} could be as large" if rivals else "unclassified time is as large"
        reason = f"noise and unclassified time leave open what is largest: {rival}"
    return Bottleneck(
        category=top.category,
        share=top,
        second=others[0] if others else None,
        unclassified=shares.unclassified,
        is_claimed=not reason,
        is_largest_either_way=is_largest,
        reason=reason,
    )


def _stays_above(shares: Shares, top: Share, other: Share) -> bool:
    """Whether `top` exceeds `other` even with all unclassified time given to `other`."""
    least, most = shares.given_to(top.category, other.category), shares.given_to(other.category, other.category)
    return least is not None and most is not None and least.low > most.high and other.category not in UNKNOWN
