"""Which numbers moved between two states of a campaign, beyond noise."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from campaign.analysis.interval import span
from campaign.analysis.readings import Readings
from campaign.schema import Quantity

#: A number without an interval on either side moved if it changed by more than this.
THRESHOLD = 0.05


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One number that is not what it was."""

    name: str
    """The quantity."""
    unit: str
    """Its unit."""
    before: float | None
    """Value then; null = it was not measured."""
    after: float | None
    """Value now; null = it is no longer there."""
    change: float | None
    """after / before − 1; null where one of them is missing or 0."""
    is_noise_known: bool
    """Whether both states give an interval; else a change of more than 5 % counts."""


def relative_change(before: Quantity | None, after: Quantity | None) -> float | None:
    """after / before − 1, or None."""
    if before is None or after is None or not before.value or after.value is None:
        return None
    return after.value / before.value - 1


def is_beyond_noise(before: Quantity, after: Quantity) -> bool:
    """Whether the intervals are apart; without both intervals, whether the change is above 5 %."""
    if before.value is None or after.value is None:
        return (before.value is None) != (after.value is None)
    if _has_interval(before) and _has_interval(after):
        return not span(before.value, before.low, before.high).overlaps(span(after.value, after.low, after.high))
    return abs(after.value - before.value) > THRESHOLD * abs(before.value)


def moved(before: Iterable[Quantity], after: Iterable[Quantity]) -> tuple[Move, ...]:
    """Numbers that changed beyond noise, appeared or went, in the order of `after`."""
    old, new = Readings(before), Readings(after)
    moves = []
    for name in dict.fromkeys([*new.names, *old.names]):
        was, is_ = old.find(name), new.find(name)
        if (was is None and is_ is None) or (was is not None and is_ is not None and not is_beyond_noise(was, is_)):
            continue
        both = was is not None and is_ is not None and _has_interval(was) and _has_interval(is_)
        moves.append(
            Move(
                name=name,
                unit=(is_ or was).unit,  # type: ignore[union-attr]
                before=was.value if was else None,
                after=is_.value if is_ else None,
                change=relative_change(was, is_),
                is_noise_known=both,
            )
        )
    return tuple(moves)


def _has_interval(quantity: Quantity) -> bool:
    return quantity.low is not None and quantity.high is not None
