"""A document that exists already: headings of its person become sections, once."""

from __future__ import annotations

from collections.abc import Mapping

from campaign.document.blocks import Block
from campaign.document.markers import end_marker, is_section_id
from campaign.document.structure import Structure
from campaign.errors import DocumentError


def adopt_headings(source: bytes, headings: Mapping[str, str]) -> tuple[bytes, dict[str, str]]:
    """Put an empty section in the place of each heading and its text: (document, id → the old text).

    `headings`: section id → the heading's text. A heading reaches to the next one of its level or above. Sections
    that stand already and headings that are not there are passed over. Raises `DocumentError` with a line where
    two headings fit, or where a heading's text holds sections.
    """
    structure = Structure(source, is_whole=True)  # a heading's title may have several lines
    spans: list[tuple[int, int, str]] = []
    for section_id, title in headings.items():
        if not is_section_id(section_id):
            raise DocumentError(f"section id {section_id!r} cannot stand in a marker.")
        if section_id in structure.ids:
            continue
        heading = _only_heading(structure, section_id, title)
        if heading is not None:
            start, end = _reach(structure, heading)
            spans.append((start, end, section_id))
    lines, adopted = structure.lines, dict[str, str]()
    content, position = b"", 0
    for start, end, section_id in sorted(spans):
        if lines.start(start) < position:
            raise _refused(start, f"heading for section {section_id} stands inside another adopted one")
        line_end = (lines.line_end(start) or lines.usual_line_end()).encode()
        old = source[lines.start(start) : lines.start(end)]
        last = b"" if not old.endswith((b"\n", b"\r")) else line_end
        begin = f"<!-- campaign:begin {section_id} -->".encode()
        content += source[position : lines.start(start)] + begin + line_end + end_marker(section_id).encode() + last
        position = lines.start(end)
        adopted[section_id] = old.decode("utf-8", "surrogateescape")
    return content + source[position:], adopted


def _only_heading(structure: Structure, section_id: str, title: str) -> Block | None:
    wanted = " ".join(title.split())
    headings = (block for block in structure.blocks.items if block.type == "heading_open")
    found = [b for b in headings if " ".join(b.title.split()) == wanted and not _is_in_section(structure, b)]
    if len(found) > 1:
        lines = ", ".join(str(block.start + 1) for block in found)
        raise _refused(
            found[1].start, f"heading {title!r} for section {section_id} stands more than once (lines {lines})"
        )
    return found[0] if found else None


def _is_in_section(structure: Structure, block: Block) -> bool:
    return any(section.begin_line <= block.start + 1 <= section.end_line for section in structure.sections)


def _reach(structure: Structure, heading: Block) -> tuple[int, int]:
    """First line of the heading and the line behind its text, blank lines at the end left out."""
    later = (b for b in structure.blocks.items if b.start > heading.start and b.type == "heading_open")
    end = next((b.start for b in later if b.level <= heading.level), len(structure.lines))
    for section in structure.sections:
        if heading.start < section.begin_line - 1 < end:
            raise _refused(section.begin_line - 1, f"section {section.id} stands in the text of an adopted heading")
    while end > heading.start + 1 and not structure.lines.text(end - 1).strip():
        end -= 1
    return heading.start, end


def _refused(line: int, what: str) -> DocumentError:
    return DocumentError(
        f"line {line + 1}: {what}; nothing was written. Change `[document] adopt` in campaign.toml or the heading.",
        line=line + 1,
    )
