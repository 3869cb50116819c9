"""The sections of a document, or the line at which its structure is unsound."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from campaign.document.blocks import Block, Blocks
from campaign.document.lines import Lines
from campaign.document.markers import Marker, look_alike, normal_text, parse_marker
from campaign.errors import DocumentError


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One section as it stands in a document; offsets are bytes, lines count from 1."""

    id: str
    """Its id."""
    begin_line: int
    """Line of its begin marker."""
    end_line: int
    """Line of its end marker."""
    start: int
    """Where the begin marker's line starts."""
    text_start: int
    """Where the line after the begin marker starts."""
    text_end: int
    """Where the end marker's line starts."""
    end: int
    """Behind the end marker's line and its line end."""
    text: str
    """Text between the markers as it is compared: LF, no blank lines at its end."""
    words: tuple[str, ...]
    """What stands behind the id in the begin marker."""
    hash: str | None
    """Hash in the begin marker of the text as last written, or None."""
    line_end: str
    """Line end of the begin marker's line."""


class Structure:
    """A document read once: lines, blocks, sections. Raises `DocumentError` with a line where it is unsound."""

    def __init__(self, source: bytes, *, is_whole: bool = False) -> None:
        self.lines = Lines(source)
        self.blocks = Blocks(self.lines, is_whole=is_whole)
        markers = self._markers()
        self._refuse_conflicts(markers)
        self._refuse_open_blocks()
        self.sections = tuple(self._paired(markers))
        self.ids = frozenset(section.id for section in self.sections)

    def refuse_look_alikes(self, wanted: Collection[str]) -> None:
        """Raise `DocumentError` for a marker of a `wanted` id that does not stand in the document but seems meant.

        Meant are markers in a list, a quote or a paragraph, in HTML, misspelt, or with text beside them; not those
        in code, front matter, `<pre>` or `<script>`, which are examples.
        """
        for line, section_id in self._look_alikes():
            if section_id not in wanted or section_id in self.ids:
                continue
            block = self.blocks.at(line)
            is_first = self.lines.text(line).lstrip(" \t-*+0123456789.)>").startswith("<!--")
            if block is None or self.blocks.is_literal(block, line) or not is_first:
                continue
            raise DocumentError(
                f"line {line + 1}: this marker of section {section_id} stands {_place(block)}, "
                "so it bounds no section. Put it on its own line at the left edge, outside lists, quotes and HTML, "
                f"as `<!-- campaign:begin {section_id} -->` or `<!-- campaign:end {section_id} -->`.",
                line=line + 1,
            )

    def open_block(self) -> Block | None:
        """The last block where it never ends (an unclosed fence, comment or `<pre>`)."""
        last = self.blocks.items[-1] if self.blocks.items else None
        return last if last is not None and self.blocks.is_open(last) else None

    def _markers(self) -> list[tuple[int, Marker]]:
        found: list[tuple[int, Marker]] = []
        for block in self.blocks.items:
            if block.type == "html_block" and block.end == block.start + 1:
                marker = parse_marker(self.lines.text(block.start))
                if marker is not None:
                    found.append((block.start, marker))
        return found

    def _look_alikes(self) -> Iterator[tuple[int, str]]:
        source, at, last = self.lines.source, -1, -1
        lowered = source.lower()
        while (at := lowered.find(b"campaign", at + 1)) >= 0:
            line = self.lines.line_of(at)
            if line == last:
                continue
            last = line
            section_id = look_alike(self.lines.text(line))
            if section_id is not None:
                yield line, section_id

    def _refuse_conflicts(self, markers: list[tuple[int, Marker]]) -> None:
        spans = _rough_spans(markers)
        for first, last in self.lines.conflicts():
            block = self.blocks.at(first)
            is_ours = any(start <= last and first <= end for start, end in spans)
            is_heading = block is not None and block.type == "heading_open"  # `=======` underlines one
            if not is_ours and not is_heading and block is not None and self.blocks.is_literal(block, first):
                continue
            raise DocumentError(
                f"line {first + 1}: an unresolved git conflict (to line {last + 1}). "
                "Resolve it by hand, or take one side with `git checkout --ours` or `--theirs`, and run again.",
                line=first + 1,
            )

    def _refuse_open_blocks(self) -> None:
        block = self.open_block()
        if block is None:
            return
        for line, section_id in self._look_alikes():
            if block.covers(line) and line > block.start:
                raise DocumentError(
                    f"line {block.start + 1}: what begins here never ends, so the marker of section "
                    f"{section_id} at line {line + 1} stands inside it. Close it before that line.",
                    line=block.start + 1,
                )

    def _paired(self, markers: list[tuple[int, Marker]]) -> Iterator[Section]:
        opened: tuple[int, Marker] | None = None
        seen: dict[str, int] = {}
        ended = {marker.id for _, marker in markers if marker.edge == "end"}
        for line, marker in markers:
            if marker.edge == "begin":
                if opened is not None and opened[1].id not in ended:
                    next_one = f"the next section begins at line {line + 1}"
                    raise _unsound(*opened, f"and never ends ({next_one}{self._swallowed(opened[0])})")
                if opened is not None:
                    raise _unsound(line, marker, f"before section {opened[1].id} of line {opened[0] + 1} has ended")
                if marker.id in seen:
                    raise _unsound(line, marker, f"a second time (the first is at line {seen[marker.id] + 1})")
                opened, seen[marker.id] = (line, marker), line
            else:
                if opened is None:
                    raise _unsound(line, marker, "without a beginning before it")
                if opened[1].id != marker.id:
                    raise _unsound(line, marker, f"inside section {opened[1].id}, which begins at line {opened[0] + 1}")
                yield self._section(opened[0], line, opened[1])
                opened = None
        if opened is not None:
            raise _unsound(*opened, f"and never ends{self._swallowed(opened[0])}")

    def _swallowed(self, begin: int) -> str:
        """Where an end marker of the section that begins at line `begin` stands without being one."""
        for line, section_id in self._look_alikes():
            marker = self.lines.text(begin)
            block = self.blocks.at(line)
            is_end = "end" in self.lines.text(line).lower()
            if is_end and line > begin and f"campaign:begin {section_id} " in marker and block is not None:
                return f"; what reads like its end at line {line + 1} stands {_place(block)}"
        return ""

    def _section(self, begin: int, end: int, marker: Marker) -> Section:
        lines = self.lines
        text_start, text_end = lines.start(begin + 1), lines.start(end)
        return Section(
            id=marker.id,
            begin_line=begin + 1,
            end_line=end + 1,
            start=lines.start(begin),
            text_start=text_start,
            text_end=text_end,
            end=lines.start(end + 1),
            text=normal_text(lines.source[text_start:text_end].decode("utf-8", "surrogateescape")),
            words=marker.words,
            hash=marker.hash,
            line_end=lines.line_end(begin),
        )


def find(source: bytes) -> tuple[Section, ...]:
    """The sections of a document in their order; raises `DocumentError` with a line where it is unsound."""
    return Structure(source).sections


def _rough_spans(markers: list[tuple[int, Marker]]) -> list[tuple[int, int]]:
    """Line spans from each begin marker to the next end marker, before anything is known to be sound."""
    spans: list[tuple[int, int]] = []
    for index, (line, marker) in enumerate(markers):
        if marker.edge == "begin":
            end = next((later for later, other in markers[index:] if other.edge == "end"), line)
            spans.append((line, end))
    return spans


def _unsound(line: int, marker: Marker, what: str) -> DocumentError:
    verb = "begins" if marker.edge == "begin" else "ends"
    return DocumentError(
        f"line {line + 1}: section {marker.id} {verb} here {what}. "
        "Each section needs one begin marker and, after it, one end marker; nothing was written.",
        line=line + 1,
    )


def _place(block: Block) -> str:
    names = {
        "bullet_list_open": "in a list",
        "ordered_list_open": "in a list",
        "blockquote_open": "in a quote",
        "html_block": "in other HTML, has text beside it, or is misspelt",
        "paragraph_open": "in a paragraph",
    }
    return names.get(block.type, "inside another block")
