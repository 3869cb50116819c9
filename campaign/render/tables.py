"""Markdown tables with aligned columns, from values that cannot break them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from campaign.render.escape import text, width
from campaign.render.numbers import DASH, num

#: A cell longer than this does not widen its column.
_MOST_PADDING = 48
_BARE_PIPE = re.compile(r"(?<!\\)\|")
_NUMERIC = re.compile(r"[-+]?[0-9][0-9.,e+-]*(?: ?%)?")


def table(headers: Iterable[object], rows: Iterable[Iterable[object]], align: Sequence[str] | None = None) -> Markup:
    """A table: text is escaped, numbers get three significant digits, None is a dash.

    `align`: one letter a column, l, r or c (`"lrr"`); by default columns of numbers stand right. Raises
    `ValueError` where a row is not as long as the headers.
    """
    head = [_cell(header) for header in headers]
    body = [[_cell(value) for value in row] for row in rows]
    for number, row in enumerate(body, start=1):
        if len(row) != len(head):
            raise ValueError(f"table: row {number} has {len(row)} cells, the header has {len(head)}")
    if align is not None and len(align) != len(head):
        raise ValueError(f"table: align has {len(align)} letters for {len(head)} columns")
    sides = [_side(column, align, n) for n, column in enumerate(_columns(head, body))]
    widths = [
        max(3, *(w for value in column if (w := width(value)) <= _MOST_PADDING), 3)
        for column in _columns(head, body, with_head=True)
    ]
    lines = [_line(head, widths, sides), _rule(widths, sides), *(_line(row, widths, sides) for row in body)]
    return Markup("\n".join(lines) + "\n")


def _columns(head: list[str], body: list[list[str]], *, with_head: bool = False) -> list[list[str]]:
    return [[*([name] if with_head else []), *(row[n] for row in body)] for n, name in enumerate(head)]


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return _BARE_PIPE.sub(r"\\|", re.sub(r"\s*[\r\n]+\s*", " ", str(value)).strip(" \t"))
    if value is None:
        return DASH
    if isinstance(value, int | float):
        return str(num(value))
    return str(text(str(value)))


def _side(column: Sequence[str], align: Sequence[str] | None, index: int) -> str:
    if align is not None:
        return align[index]
    known = [value for value in column if value != DASH]
    return "r" if known and all(_NUMERIC.fullmatch(value) for value in known) else "l"


def _line(values: Sequence[str], widths: Sequence[int], sides: Sequence[str]) -> str:
    cells = (_padded(value, size, side) for value, size, side in zip(values, widths, sides, strict=True))
    return "| " + " | ".join(cells) + " |"


def _padded(value: str, size: int, side: str) -> str:
    missing = max(0, size - width(value))
    left = {"r": missing, "c": missing // 2}.get(side, 0)
    return " " * left + value + " " * (missing - left)


def _rule(widths: Sequence[int], sides: Sequence[str]) -> str:
    def dashes(size: int, side: str) -> str:
        left, right = (":" if side == "c" else "-"), (":" if side in "rc" else "-")
        return f"{left}{'-' * size}{right}"

    return "|" + "|".join(dashes(size, side) for size, side in zip(widths, sides, strict=True)) + "|"
