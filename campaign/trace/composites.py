"""Operations that a CPU trace shows as several general ops in a row: found by their order, as `categories.toml` says.

An eager RMSNorm is `pow mean add rsqrt mul mul`; no name of these tells. What tells is the order among siblings (ops
called by the same op, or by none) and the known operations around them. Siblings are written as words: the name without
`aten::` for ops of no category and plain data movement, `@category` for the others; ops that move nothing are left out.
The patterns of `[[composite]]` are searched in that text, in the table's order; what one took the next ones do not see.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from campaign.trace.categories import CATEGORIES, OTHER, Table

_COPY: Final = CATEGORIES.index("copy")
_TAKEN: Final = "#"
#: Names of general ops are short; the patterns look at up to forty words from each.
_LONGEST_WORD: Final = 32


def find(siblings: Sequence[int], words: Mapping[int, str], table: Table) -> list[tuple[int, list[int]]]:
    """(category, ops) of every composite among siblings in their order; ops without a word are passed over."""
    left = [index for index in siblings if index in words]
    spelled = [words[index] for index in left]
    found = []
    for composite in table.composites:
        at, begins = 0, []
        for word in spelled:
            begins.append(at)
            at += len(word) + 1
        text = " ".join(spelled) + " "
        for match in composite.pattern.finditer(text):
            first, last = bisect_left(begins, match.start()), bisect_left(begins, match.end())
            if first < last:
                found.append((composite.category, left[first:last]))
                spelled[first:last] = [_TAKEN] * (last - first)
    return found


def word(name: str, category: int | None) -> str | None:
    """How an op stands in the text; None for one that moves no data."""
    if category is None:
        return None
    if category in (OTHER, _COPY):
        return name.removeprefix("aten::")[:_LONGEST_WORD].replace(" ", "_").lstrip("@#") or "_"
    return f"@{CATEGORIES[category]}"


def families(parents: Sequence[int]) -> dict[int, list[int]]:
    """Parent (−1 = none) → the ops it called, in their order; an op's own family comes before that of its children."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, parent in enumerate(parents):
        found[parent].append(index)
    return found
