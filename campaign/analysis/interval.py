"""Interval arithmetic: what is left open by noise and unclassified time, carried through a formula."""

from __future__ import annotations

import math

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """All values from `low` to `high`, both included; `low <= high`."""

    low: float
    """Lower end; may be minus infinity."""
    high: float
    """Upper end; may be infinity."""

    @property
    def middle(self) -> float:
        """Centre of the interval; NaN where an end is infinite on both sides."""
        return (self.low + self.high) / 2

    @property
    def is_point(self) -> bool:
        """Whether the interval is a single value."""
        return self.low == self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        """Quotient; the whole line where the divisor may be 0."""
        if other.low <= 0 <= other.high:
            return EVERYTHING
        return self * Interval(1 / other.high, 1 / other.low)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def contains(self, value: float) -> bool:
        """Whether `value` lies within, ends included."""
        return self.low <= value <= self.high

    def overlaps(self, other: Interval) -> bool:
        """Whether the two have a value in common."""
        return self.low <= other.high and other.low <= self.high

    def clipped(self, low: float, high: float) -> Interval:
        """The part between `low` and `high`; the nearest end where there is none."""
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))


#: Nothing is known.
EVERYTHING = Interval(-math.inf, math.inf)


def point(value: float) -> Interval:
    """The interval that holds one value."""
    return Interval(value, value)


def span(value: float, low: float | None, high: float | None) -> Interval:
    """The interval of a measured value; a missing end, or one on the wrong side, is the value itself."""
    return Interval(min(value, value if low is None else low), max(value, value if high is None else high))


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b
