"""One number, or one order of two quantities, against the book."""

from __future__ import annotations

import msgspec

from campaign.narrator.book import Book, Entry
from campaign.narrator.tokens import Number, Token


class Refused(Exception):
    """A claim is not one of the findings; kept inside this package."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What else stands in the clause of a number."""

    subjects: tuple[str, ...]
    """All its subjects."""
    change: str
    """`+` or `-` where it says what happened since the last revision."""
    is_faster: bool
    """It says faster."""
    is_slower: bool
    """It says slower."""


def check_number(token: Token, owner: str, book: Book, context: Context, *, operator: str = "") -> None:
    """Raise `Refused` unless the number is one of its subject's, rounding understood, or bounds it truly."""
    number = token.number or Number(value=float(token.value), unit="%", half_digit=0.0)
    known = [entry for entry in book.of(owner, number.unit) if _may_be_said(entry, context)]
    if not known:
        raise Refused(f"{owner} has no number in {number.unit!r} to compare {token.text!r} with")
    if not any(_is_true(number, entry, operator, context) for entry in known):
        values = ", ".join(f"{entry.value:.4g}" for entry in known)
        raise Refused(f"{token.text!r} of {owner}: it is {values}{f' ({operator} is wrong)' if operator else ''}")
    if number.unit == "x":
        _check_speed(owner, context)


def _may_be_said(entry: Entry, context: Context) -> bool:
    if (entry.role == "change") != bool(context.change):
        return False
    return not entry.needs or entry.needs in context.subjects


def _is_true(number: Number, entry: Entry, operator: str, context: Context) -> bool:
    value = entry.value
    if entry.role == "change":
        if (value > 0) != (context.change == "+"):
            return False
        value = abs(value)
    is_alike = abs(value - number.value) <= number.half_digit * (1 + 1e-9)
    if not operator:
        return is_alike
    if entry.role in ("least", "most"):
        return is_alike and operator in ((">", ">=") if entry.role == "least" else ("<", "<="))
    return _compare(value, operator, number.value) or (is_alike and operator in (">=", "<="))


def _check_speed(owner: str, context: Context) -> None:
    """A factor has a direction: what is freed is faster, what waits in place is slower."""
    is_gain = owner.startswith(("free.", "direction."))
    if (context.is_slower and is_gain) or (context.is_faster and not is_gain):
        raise Refused(f"the direction of {owner} is the other one")


def check_order(left: str, operator: str, right: str, book: Book) -> None:
    """Raise `Refused` unless `left` compares with `right` as it is said, in a unit that both have."""
    for unit in ("%", "ms", "tok/s"):
        a = [e.value for e in book.of(left, unit) if e.role == "value"]
        b = [e.value for e in book.of(right, unit) if e.role == "value"]
        if a and b:
            if not _compare(a[0], operator, b[0]):
                raise Refused(f"{left} {operator} {right} is not so: {a[0]:.4g} and {b[0]:.4g} {unit}")
            return
    raise Refused(f"{left or 'it'} and {right} have no unit in common")


def _compare(a: float, operator: str, b: float) -> bool:
    return {">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b}[operator]
