"""Three-way merge of a section: as last written, as its person left it, as it is now computed."""

from __future__ import annotations

from collections.abc import Sequence


def merge_texts(base: str, person: str, new: str) -> str | None:
    """Both changes to `base` in one text, or None where both changed the same lines.

    Neighbouring lines are no conflict: a note added below a row that got a new number is kept below it.
    """
    from merge3 import Merge3

    merged: list[str] = []
    for group in Merge3(base.split("\n"), person.split("\n"), new.split("\n")).merge_groups():
        if group[0] == "conflict":
            settled = _settle(group[1], group[2], group[3])
            if settled is None:
                return None
            merged += settled
        else:
            merged += group[1]
    return "\n".join(merged)


def _settle(base: Sequence[str], person: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """The lines of a region that both sides touched, where no single line was changed by both; else None."""
    for one, other in ((person, new), (new, person)):
        if base and len(one) > len(base):
            if list(one[: len(base)]) == list(base):
                return [*other, *one[len(base) :]]
            if list(one[-len(base) :]) == list(base):
                return [*one[: -len(base)], *other]
    if not len(base) == len(person) == len(new):
        return None
    lines: list[str] = []
    for was, theirs, ours in zip(base, person, new, strict=True):
        if theirs not in (was, ours) and ours != was:
            return None
        lines.append(ours if theirs == was else theirs)
    return lines
