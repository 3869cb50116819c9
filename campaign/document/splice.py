"""The bytes of a revised document: new sections between a person's bytes, which are copied as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from campaign.document.markers import begin_marker, end_marker
from campaign.document.structure import Section, Structure

_LINE_ENDS = (b"\n", b"\r")


def splice(
    structure: Structure,
    *,
    machine: Mapping[str, str],
    taken: Mapping[str, str],
    order: Sequence[str],
    inserted: Collection[str],
) -> bytes:
    """The document with the texts `taken` (id → text) in their sections, and those `inserted` put in by `order`.

    `machine`: id → the text computed, whose hash the begin marker carries (after a merge it is not the text taken).
    """
    source, position = structure.lines.source, 0
    after, before, at_end = _places(structure, order, inserted)
    pieces: list[bytes] = []
    for section in structure.sections:
        line_end = section.line_end
        gap = line_end.encode()
        pieces.append(source[position : section.start])
        pieces += [section_block(i, taken[i], line_end) + gap for i in before.get(section.id, ())]
        pieces.append(_standing(source, section, machine, taken))
        following = [gap + section_block(i, taken[i], line_end) for i in after.get(section.id, ())]
        if following and not source[: section.end].endswith(_LINE_ENDS):
            pieces.append(gap)
        pieces += following
        position = section.end
    content = b"".join(pieces) + source[position:]
    for section_id in at_end:
        content = _appended(content, structure, section_block(section_id, taken[section_id], _line_end(structure)))
    return content


def section_block(section_id: str, text: str, line_end: str) -> bytes:
    """A new section with its markers."""
    begin, end = begin_marker(section_id, text), end_marker(section_id)
    return f"{begin}{line_end}".encode() + _body(text, line_end) + f"{end}{line_end}".encode()


def _body(text: str, line_end: str) -> bytes:
    """A section's lines; a blank line ends HTML that would go on through the end marker."""
    if not text:
        return b""
    lines = text.split("\n")
    last_blank = max((n for n, line in enumerate(lines) if not line.strip(" \t")), default=-1)
    if any(line.lstrip(" \t").startswith("<") for line in lines[last_blank + 1 :]):
        lines.append("")
    return (line_end.join(lines) + line_end).encode("utf-8", "surrogateescape")


def _standing(source: bytes, section: Section, machine: Mapping[str, str], taken: Mapping[str, str]) -> bytes:
    """A section that stands in the document, with the text taken for it, if any."""
    if section.id not in taken:
        return source[section.start : section.end]
    opening = source[section.start : section.text_start]
    indent = opening[: opening.index(b"<")]
    trail = opening[opening.rindex(b"-->") + len(b"-->") :]
    begin = begin_marker(section.id, machine[section.id], section.words).encode()
    body = _body(taken[section.id], section.line_end)
    return indent + begin + trail + body + source[section.text_end : section.end]


def _places(
    structure: Structure, order: Sequence[str], inserted: Collection[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]], list[str]]:
    """Where inserted sections go: after which standing one, else before which, else at the end."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    at_end: list[str] = []
    for index, section_id in enumerate(order):
        if section_id not in inserted:
            continue
        preceding = next((i for i in reversed(order[:index]) if i in structure.ids), None)
        following = next((i for i in order[index:] if i in structure.ids), None)
        if preceding is not None:
            after.setdefault(preceding, []).append(section_id)
        elif following is not None:
            before.setdefault(following, []).append(section_id)
        else:
            at_end.append(section_id)
    return after, before, at_end


def _line_end(structure: Structure) -> str:
    return structure.lines.usual_line_end()


def _appended(content: bytes, structure: Structure, block: bytes) -> bytes:
    """`block` at the end of `content`, a blank line between."""
    if len(content) == structure.lines.first:
        return content + block
    line_end = _line_end(structure).encode()
    missing = b"" if content.endswith(_LINE_ENDS) else line_end
    last_lines = content[-2 * len(line_end) :]
    blank = b"" if last_lines == line_end * 2 else line_end
    return content + missing + blank + block
