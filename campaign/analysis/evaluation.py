"""Whether a claim's test holds for all values that noise and unclassified time leave open."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

import msgspec

from campaign.analysis.expression import dotted, text_argument
from campaign.analysis.interval import Interval, point
from campaign.analysis.readings import ALIASES, UNKNOWN, Readings, nearest
from campaign.analysis.shares import Shares


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a verdict rests on."""

    name: str
    """As it stands in the test: a quantity or a function's call."""
    value: float
    """Measured value."""
    low: float
    """Lower end of what noise and unclassified time leave open."""
    high: float
    """Upper end."""
    unit: str
    """Unit; `share` for a fraction of the step."""


class Missing(Exception):
    """A number that the test needs was not measured; kept inside this package."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The truth of a test and how far it is from changing."""

    holds: bool | None
    """None = some of the values left open hold and some do not."""
    margin: Interval
    """Distance by which it holds (negative: fails), in `unit`; 0 is where the verdict turns."""
    unit: str
    """Unit of the margin; empty where comparisons of several units are joined."""


class Evaluator:
    """Evaluates one checked tree over the campaign's quantities."""

    def __init__(self, readings: Readings, *, is_idle_mixed: bool = False) -> None:
        self._readings = readings
        self._is_idle_mixed = is_idle_mixed
        self._by_batch: dict[int, Shares] = {}
        self.evidence: dict[str, Evidence] = {}

    def truth(self, node: ast.expr) -> Outcome:
        """Raises `Missing` where a number was not measured."""
        match node:
            case ast.BoolOp(op=op, values=values):
                return _joined([self.truth(value) for value in values], is_and=isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand)
                return Outcome(
                    holds=None if inner.holds is None else not inner.holds, margin=-inner.margin, unit=inner.unit
                )
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [left, *comparators]
                parts = [self._compare(*pair) for pair in zip(sides, ops, sides[1:], strict=False)]
                return parts[0] if len(parts) == 1 else _joined(parts, is_and=True)
        raise AssertionError(f"unchecked tree: {ast.dump(node)}")

    def _compare(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Outcome:
        """left > right is decided by left − right over every way to divide the unclassified time."""
        large, small = (left, right) if isinstance(op, (ast.Gt, ast.GtE)) else (right, left)
        differences = []
        for receiver in self._receivers(left, right):
            a, unit_a = self._number(large, receiver)
            b, unit_b = self._number(small, receiver)
            differences.append(a - b)
        margin = Interval(min(d.low for d in differences), max(d.high for d in differences))
        is_strict = isinstance(op, (ast.Gt, ast.Lt))
        holds = None
        if margin.low > 0 or (margin.low == 0 and not is_strict):
            holds = True
        elif margin.high < 0 or (margin.high == 0 and is_strict):
            holds = False
        return Outcome(holds=holds, margin=margin, unit=_sum_unit(unit_a, unit_b))

    def _receivers(self, left: ast.expr, right: ast.expr) -> Iterator[str | None]:
        """Who may own the unclassified time: one category at a time where that decides, else all at once (`*`)."""
        degrees = sorted((_degree(left), _degree(right)))
        if degrees[1] > 1 and degrees != [0, 2]:
            yield "*"
            return
        yield None
        for node in (*ast.walk(left), *ast.walk(right)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != "value":
                yield text_argument(node)

    def _number(self, node: ast.expr, receiver: str | None) -> tuple[Interval, str]:
        match node:
            case ast.Constant(value=value):
                return point(float(value)), ""  # type: ignore[arg-type]
            case ast.UnaryOp(op=op, operand=operand):
                inner, unit = self._number(operand, receiver)
                return (-inner if isinstance(op, ast.USub) else inner), unit
            case ast.BinOp(left=left, op=op, right=right):
                return _combine(op, self._number(left, receiver), self._number(right, receiver))
            case ast.Call(func=ast.Name(id=function)):
                return self._call(function, text_argument(node) or "", receiver)
            case _:
                return self._quantity(dotted(node, ""))

    def _quantity(self, name: str) -> tuple[Interval, str]:
        plain, _, batch = name.partition("@")
        full = ALIASES.get(plain, plain) + (f"@{batch}" if batch else "")
        quantity, interval = self._readings.find(full), self._readings.interval(full)
        if quantity is None or quantity.value is None or interval is None:
            raise Missing(_missing(full, self._readings))
        self._keep(name, quantity.value, interval, quantity.unit)
        return interval, quantity.unit

    def _call(self, function: str, argument: str, receiver: str | None) -> tuple[Interval, str]:
        if function == "value":
            return self._quantity(argument)
        category, _, batch = argument.partition("@b")
        if function == "calls":
            return self._quantity(f"profile.calls.{argument}")
        shares = self._shares(int(batch) if batch else 0)
        name = f"{function}({argument})"
        if function == "busy_share":
            busy = shares.busy(category)
            if busy is None:
                raise Missing(f"{name}: no kernel times were measured{f' at batch {batch}' if batch else ''}")
            self._keep(name, busy.high if category in UNKNOWN else busy.low, busy, "share")
            return busy, "share"
        given = shares.given_to(category, category if receiver in ("*", argument) else None)
        least = shares.given_to(category, None)
        most = shares.given_to(category, category)
        if given is None or least is None or most is None:
            raise Missing(f"{name}: no decode step was profiled{f' at batch {batch}' if batch else ''}")
        share = shares.find(category)
        whole = Interval(min(least.low, most.low), max(least.high, most.high))
        self._keep(name, share.share if share else 0.0, whole, "share")
        return (whole if receiver == "*" else given), "share"

    def _shares(self, batch: int) -> Shares:
        if batch not in self._by_batch:
            readings = self._readings
            if batch and readings.value("profile.batch") != batch:
                readings = readings.only_batch(batch)
            self._by_batch[batch] = Shares(readings, is_idle_mixed=self._is_idle_mixed)
        return self._by_batch[batch]

    def _keep(self, name: str, value: float, whole: Interval, unit: str) -> None:
        self.evidence[name] = Evidence(name=name, value=value, low=whole.low, high=whole.high, unit=unit)


def _degree(node: ast.expr) -> int:
    """0: no share in it; 1: linear in shares; 2: a quotient of two linear ones; 3: anything else."""
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return _joint_degree(op, _degree(left), _degree(right))
        case ast.UnaryOp(operand=operand):
            return _degree(operand)
        case ast.Call(func=ast.Name(id="share")):
            return 1
        case ast.Call(func=ast.Name(id="busy_share")):
            return 3
        case _:
            return 0


def _joint_degree(op: ast.operator, a: int, b: int) -> int:
    if isinstance(op, (ast.Add, ast.Sub)):
        return max(a, b) if max(a, b) <= 1 or 0 in (a, b) else 3
    if isinstance(op, ast.Mult):
        return a + b if 0 in (a, b) else 3
    return a if b == 0 else (2 if a <= 1 and b == 1 else 3)


def _joined(parts: list[Outcome], *, is_and: bool) -> Outcome:
    choose = min if is_and else max
    truths = [part.holds for part in parts]
    decisive = not is_and
    holds = decisive if decisive in truths else (None if None in truths else is_and)
    margin = Interval(choose(p.margin.low for p in parts), choose(p.margin.high for p in parts))
    units = {part.unit for part in parts}
    return Outcome(holds=holds, margin=margin, unit=units.pop() if len(units) == 1 else "")


def _combine(op: ast.operator, a: tuple[Interval, str], b: tuple[Interval, str]) -> tuple[Interval, str]:
    (x, unit_x), (y, unit_y) = a, b
    match op:
        case ast.Add():
            return x + y, _sum_unit(unit_x, unit_y)
        case ast.Sub():
            return x - y, _sum_unit(unit_x, unit_y)
        case ast.Mult():
            return _finite(x * y), unit_x if unit_y in ("", "1") else unit_y if unit_x in ("", "1") else ""
        case _:
            return _finite(x / y), "1" if unit_x == unit_y else unit_x if unit_y in ("", "1") else ""


def _finite(interval: Interval) -> Interval:
    low = -math.inf if math.isnan(interval.low) else interval.low
    return Interval(low, math.inf if math.isnan(interval.high) else interval.high)


def _sum_unit(a: str, b: str) -> str:
    return a or b if a == b or not a or not b else ""


def _missing(name: str, readings: Readings) -> str:
    measured = [known for known in readings.names if readings.find(known) is not None]
    head = name.partition(".")[0] + "."
    close = nearest(name, measured) or [known for known in measured if known.startswith(head)][:6]
    there = f"; measured are {', '.join(close)}" if close else ""
    return f"{name} was not measured{there}"
