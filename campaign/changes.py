"""Which numbers moved between two revisions, and whether beyond noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from campaign.schema import Quantity, Source

Verdict = Literal["moved", "within noise", "unknown noise", "appeared", "disappeared"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One number that is not what it was."""

    name: str
    """Name of the quantity."""
    unit: str
    """Its unit."""
    before: float | None
    """Value in the earlier revision; None where it had none."""
    after: float | None
    """Value in the later revision; None where it has none."""
    difference: float | None
    """after - before, in the quantity's unit."""
    relative: float | None
    """Difference as a fraction of before; None where before is 0 or missing."""
    verdict: Verdict
    """moved (intervals do not overlap), within noise (they do), unknown noise (a side has no interval), appeared,
    disappeared."""
    source: Source | None
    """The run that the later value (or, where it disappeared, the earlier one) comes from."""


def changed_numbers(before: Iterable[Quantity], after: Iterable[Quantity]) -> tuple[Change, ...]:
    """Quantities whose value differs, those beyond noise first, larger relative changes before smaller ones.

    Beyond noise: the intervals [low, high] of both revisions do not overlap. A quantity whose unit changed counts
    as one that disappeared and one that appeared.
    """
    old = {(quantity.name, quantity.unit): quantity for quantity in before}
    new = {(quantity.name, quantity.unit): quantity for quantity in after}
    changes = (_change(old.get(key), new.get(key)) for key in sorted(old.keys() | new.keys()))
    return tuple(sorted((change for change in changes if change is not None), key=_rank))


_ORDER: tuple[Verdict, ...] = ("moved", "unknown noise", "appeared", "disappeared", "within noise")


def _rank(change: Change) -> tuple[int, float, str]:
    size = math.inf if change.relative is None else abs(change.relative)
    return _ORDER.index(change.verdict), -size, change.name


def _change(old: Quantity | None, new: Quantity | None) -> Change | None:
    before = None if old is None else _finite(old.value)
    after = None if new is None else _finite(new.value)
    either = new or old
    if either is None or before == after:
        return None
    difference = after - before if before is not None and after is not None else None
    return Change(
        name=either.name,
        unit=either.unit,
        before=before,
        after=after,
        difference=difference,
        relative=difference / abs(before) if difference is not None and before else None,
        verdict=_verdict(old, new, before, after),
        source=(old if after is None and old is not None else either).source,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _verdict(old: Quantity | None, new: Quantity | None, before: float | None, after: float | None) -> Verdict:
    if old is None or before is None:
        return "appeared"
    if new is None or after is None:
        return "disappeared"
    if None in (old.low, old.high, new.low, new.high):
        return "unknown noise"
    assert old.low is not None and old.high is not None and new.low is not None and new.high is not None
    return "within noise" if old.low <= new.high and new.low <= old.high else "moved"
