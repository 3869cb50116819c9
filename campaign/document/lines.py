"""A document's bytes as the lines that CommonMark sees, each with its offset."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right

from campaign.errors import DocumentError

_LINE_END = re.compile(rb"\r\n|\r|\n")
_WIDE_BOMS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONFLICT = re.compile(rb"(?:<{7} |={7}|>{7} )")


class Lines:
    """The lines of `source`, numbered from 0; a BOM belongs to no line.

    Raises `DocumentError` for UTF-16 and UTF-32, whose bytes are not the lines that they look like.
    """

    def __init__(self, source: bytes) -> None:
        if source.startswith(_WIDE_BOMS) or _is_wide(source):
            raise DocumentError("line 1: the document is UTF-16 or UTF-32; save it as UTF-8.", line=1)
        self.source = source
        self.first = len(codecs.BOM_UTF8) if source.startswith(codecs.BOM_UTF8) else 0
        ends = (match.end() for match in _LINE_END.finditer(source, self.first))
        self.starts = [self.first, *ends]
        if len(self.starts) > 1 and self.starts[-1] == len(source):
            self.starts.pop()

    def __len__(self) -> int:
        return len(self.starts)

    def start(self, line: int) -> int:
        """Offset of the first byte of `line`; the end of the document for the line behind the last."""
        return self.starts[line] if line < len(self.starts) else len(self.source)

    def raw(self, line: int) -> bytes:
        """The bytes of `line` with its line end."""
        return self.source[self.start(line) : self.start(line + 1)]

    def text(self, line: int) -> str:
        """`line` without its line end; bytes that are not UTF-8 as surrogates."""
        return self.raw(line).rstrip(b"\r\n").decode("utf-8", "surrogateescape")

    def line_end(self, line: int) -> str:
        """How `line` ends: CRLF, CR, LF, or '' at the end of the document."""
        raw = self.raw(line)
        return raw[len(raw.rstrip(b"\r\n")) :].decode("ascii")

    def line_of(self, offset: int) -> int:
        """The line that the byte at `offset` stands in."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def usual_line_end(self) -> str:
        """The line end of the last line that has one; LF where there is none."""
        return next((e for n in range(len(self) - 1, -1, -1) if (e := self.line_end(n))), "\n")

    def front_matter(self) -> int:
        """How many lines of YAML (or TOML) front matter the document starts with, delimiters included."""
        fence = self.text(0).rstrip(" \t")
        closing = {"---": ("---", "..."), "+++": ("+++",)}.get(fence)
        if closing is None or len(self) < 2 or not self.text(1).strip():
            return 0
        for line in range(1, len(self)):
            if self.text(line).rstrip(" \t") in closing:
                return line + 1
        return 0

    def conflicts(self) -> list[tuple[int, int]]:
        """First and last line of each unresolved merge conflict that git left."""
        found: list[tuple[int, int]] = []
        opened = middle = None
        for line in self._conflict_lines():
            mark = self.raw(line)[:1]
            if mark == b"<":
                opened, middle = line, None
            elif mark == b"=" and opened is not None:
                middle = line
            elif mark == b">" and opened is not None and middle is not None:
                found.append((opened, line))
                opened = middle = None
        return found

    def _conflict_lines(self) -> list[int]:
        if b"<<<<<<< " not in self.source:
            return []
        marked = [line for line, at in enumerate(self.starts) if _CONFLICT.match(self.source, at)]
        return [line for line in marked if self._is_whole_mark(line)]

    def _is_whole_mark(self, line: int) -> bool:
        return self.raw(line)[:1] != b"=" or self.raw(line).rstrip() == b"======="


def _is_wide(source: bytes) -> bool:
    """Whether UTF-16 or UTF-32 without a BOM is likely: every second byte of the beginning is NUL."""
    head = source[:4096]
    halves = (head[0::2], head[1::2])
    return len(head) >= 8 and any(half.count(0) > len(half) * 0.6 for half in halves)
