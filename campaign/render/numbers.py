"""Numbers as readers see them: significant digits, one precision down a column, shares that add up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from markupsafe import Markup

#: What stands where nothing was measured.
DASH = "–"

Number = int | float | None


def _is_missing(value: Number) -> bool:
    return value is None or not math.isfinite(value)


def _exponent(value: float, digits: int) -> int:
    """Power of ten of the first significant digit, after rounding to `digits`."""
    return int(f"{value:.{max(digits - 1, 0)}e}".split("e")[1])


def _plain(value: float, places: int) -> str:
    shown = f"{value:,.{places}f}"
    return shown.lstrip("-") if not shown.strip("-0.,") else shown


def num(value: Number, digits: int = 3) -> Markup:
    """`value` with `digits` significant digits, digits before the point never rounded away; counts in full.

    Thousands are set off with commas; below 1e-5 and from 1e15 on the form is 1.23e-7; missing is a dash.
    """
    if isinstance(value, bool):
        return Markup("yes" if value else "no")
    if isinstance(value, str):
        raise TypeError(f"num: {value!r} is text, not a number")
    if value is None or _is_missing(value):
        return Markup(DASH)
    if isinstance(value, int):
        return Markup(f"{value:,}")
    if value == 0:
        return Markup("0")
    exponent = _exponent(value, digits)
    if exponent < -5 or exponent >= 15:
        mantissa, power = f"{value:.{max(digits - 1, 0)}e}".split("e")
        return Markup(f"{mantissa}e{int(power)}")
    return Markup(_plain(value, max(0, digits - 1 - exponent)))


def fixed(value: Number, places: int = 0) -> Markup:
    """`value` with `places` digits behind the point; missing is a dash."""
    return Markup(DASH if value is None or _is_missing(value) else _plain(value, places))


def percent(value: Number, places: int = 1) -> Markup:
    """A fraction as a percentage with its sign: 0.515 → `51.5 %`."""
    return Markup(DASH if value is None or _is_missing(value) else f"{_plain(100 * value, places)} %")


def signed(value: Number, digits: int = 3) -> Markup:
    """A difference, with + where it is above 0."""
    shown = num(value, digits)
    return Markup("+") + shown if value is not None and not _is_missing(value) and value > 0 else shown


def column(values: Iterable[Number], digits: int = 3) -> list[Markup]:
    """Values of one column, all with the same places: as many as give the middle one `digits` significant digits."""
    numbers = list(values)
    sizes = [abs(v) for v in numbers if v is not None and not _is_missing(v) and v != 0]
    if not sizes or all(isinstance(v, int) or v is None for v in numbers):
        return [num(v) for v in numbers]
    places = max(0, digits - 1 - _exponent(median(sizes), digits))
    return [fixed(v, places) for v in numbers]


def shares(values: Iterable[Number], places: int = 1, total: float | None = None) -> list[Markup]:
    """Percentages of `total` (default: the sum) that add up as printed, by the largest-remainder method."""
    numbers = list(values)
    known = [0.0 if v is None or _is_missing(v) else float(v) for v in numbers]
    whole = sum(known) if total is None else total
    if not whole:
        return [Markup(DASH) for _ in numbers]
    units = [100 * 10**places * value / whole for value in known]
    floors = _largest_remainders(units)
    return [
        Markup(DASH) if v is None or _is_missing(v) else fixed(floor / 10**places, places)
        for v, floor in zip(numbers, floors, strict=True)
    ]


def _largest_remainders(units: Sequence[float]) -> list[int]:
    floors = [math.floor(unit + 1e-9) for unit in units]
    left = round(sum(units)) - sum(floors)
    by_remainder = sorted(range(len(units)), key=lambda n: (floors[n] - units[n], n))
    for index in by_remainder[: max(left, 0)]:
        floors[index] += 1
    return floors
