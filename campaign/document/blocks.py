"""The top-level blocks of a document as CommonMark sees them."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from campaign.document.lines import Lines
from campaign.document.outline import telling_lines

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_HTML_ENDS = (
    (re.compile(r" {0,3}<(pre|script|style|textarea)(?=[\s>]|$)", re.I), r"</(pre|script|style|textarea)>"),
    (re.compile(r" {0,3}<!--"), "-->"),
    (re.compile(r" {0,3}<\?"), r"\?>"),
    (re.compile(r" {0,3}<!\[CDATA\["), r"\]\]>"),
    (re.compile(r" {0,3}<![A-Za-z]"), ">"),
)
#: Blocks in which text stands for itself, so that a marker in them is an example.
_LITERAL = ("fence", "code_block")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One top-level block; lines from 0, `end` exclusive."""

    type: str
    """markdown-it-py's token type."""
    start: int
    end: int
    markup: str = ""
    """The characters that opened it (a fence's backticks)."""
    level: int = 0
    """Level of a heading; 0 for other blocks."""
    title: str = ""
    """A heading's text as it is written."""
    literal: tuple[tuple[int, int], ...] = ()
    """Lines inside a list or a quote that are code."""

    def covers(self, line: int) -> bool:
        """Whether `line` is in it."""
        return self.start <= line < self.end


class Blocks:
    """All top-level blocks of `lines`, in order; front matter is one of them.

    Unless it `is_whole`, long paragraphs and tables are read in part: the same markers, but lines of plain prose
    may stand in no block, or several paragraphs in one.
    """

    def __init__(self, lines: Lines, *, is_whole: bool = False) -> None:
        self.lines = lines
        front = lines.front_matter()
        kept = list(range(front, len(lines))) if is_whole else telling_lines(lines, front)
        text = b"".join(map(lines.raw, kept)).decode("utf-8", "surrogateescape")
        self.items = [Block(type="front_matter", start=0, end=front)] if front else []
        self.items += _top_level(_parser().parse(text), [*kept, len(lines)])
        self._starts = [block.start for block in self.items]

    def at(self, line: int) -> Block | None:
        """The block that covers `line`; None for blank lines and link definitions."""
        index = bisect_right(self._starts, line) - 1
        block = self.items[index] if index >= 0 else None
        return block if block is not None and block.covers(line) else None

    def is_open(self, block: Block) -> bool:
        """Whether `block` (a fence, `<pre>`, `<script>`, a comment …) goes on to the end for want of its end."""
        if block.type == "fence":
            last = self.lines.text(block.end - 1)
            closing = rf" {{0,3}}{re.escape(block.markup[0])}{{{len(block.markup)},}}[ \t]*"
            return block.end - block.start < 2 or re.fullmatch(closing, last) is None
        end = self._html_end(block)
        return end is not None and not any(
            re.search(end, self.lines.text(line), re.IGNORECASE) for line in range(block.start, block.end)
        )

    def is_literal(self, block: Block, line: int) -> bool:
        """Whether text at `line` of `block` stands for itself: code, front matter, `<pre>`, `<script>`."""
        if block.type in (*_LITERAL, "front_matter", "heading_open"):
            return True
        if any(start <= line < end for start, end in block.literal):
            return True
        return self._html_end(block) not in (None, "-->")

    def _html_end(self, block: Block) -> str | None:
        if block.type != "html_block":
            return None
        first = self.lines.text(block.start)
        return next((end for begin, end in _HTML_ENDS if begin.match(first)), None)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True})
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _top_level(tokens: list[Token], numbers: list[int]) -> list[Block]:
    """Blocks of level 0; `numbers`: parsed line → line of the document."""
    blocks: list[Block] = []
    literal: list[tuple[int, int]] = []
    opened: Token | None = None
    for index, token in enumerate(tokens):
        if token.level == 0 and token.map is not None and token.nesting >= 0:
            opened, literal = token, []
            if token.nesting == 0:
                blocks.append(_block(token, numbers, "", literal))
        elif token.level == 0 and token.nesting < 0 and opened is not None:
            blocks.append(_block(opened, numbers, tokens[index - 1].content, literal))
        elif token.type in _LITERAL and token.map is not None:
            literal.append((numbers[token.map[0]], numbers[token.map[1]]))
    return blocks


def _block(token: Token, numbers: list[int], title: str, literal: list[tuple[int, int]]) -> Block:
    assert token.map is not None
    is_heading = token.type == "heading_open"
    return Block(
        type=token.type,
        start=numbers[token.map[0]],
        end=numbers[token.map[1]],
        markup=token.markup,
        level=int(token.tag[1:]) if is_heading else 0,
        title=title if is_heading else "",
        literal=tuple(literal),
    )
