"""Which lines of a document tell its block structure, so that long prose, tables and lists are not parsed in full.

Lines that start with a letter (or a table's `|`) continue what is open or are a paragraph; `- x`, `* x` and `# x`
begin an item or a heading wherever they stand outside code. A run of such lines and blank ones leaves the parser
in the state that its first few changes of kind and its last few leave it in.
"""

from __future__ import annotations

import re
import string

from campaign.document.lines import Lines

_PLAIN_STARTS = frozenset([*(string.ascii_letters + "|").encode(), *range(0x80, 0x100)])
_BLANK_STARTS = frozenset(b" \t\r\n")
#: What ends a comment, `<pre>`, `<script>`, `<?` or CDATA; a line that holds it is never left out.
_HTML_END = re.compile(rb"-->|\?>|\]\]>|</")
#: A declaration ends at any `>`.
_DECLARATION = re.compile(rb"<![A-Za-z]")
_SIMPLE = re.compile(rb"(?:[-*]|#{1,6}) [A-Za-z]")
#: So many changes of kind are kept at each end of a run: the first blank line ends HTML; two changes after any
#: beginning it is known whether a list is open.
_KEPT = 4


def telling_lines(lines: Lines, first: int) -> list[int]:
    """Numbers of the lines from `first` on that determine the blocks; parsing only these gives the same markers."""
    if _DECLARATION.search(lines.source):
        return list(range(first, len(lines)))
    kept: list[int] = []
    changes: list[int] = []
    last_kind = ""
    for line in range(first, len(lines)):
        kind = _kind(lines, line)
        if kind == "other":
            kept += [*_ends(changes), line]
            changes, last_kind = [], ""
        elif kind != last_kind:
            changes.append(line)
            last_kind = kind
    return kept + _ends(changes)


def _ends(changes: list[int]) -> list[int]:
    return changes if len(changes) <= 2 * _KEPT else changes[:_KEPT] + changes[-_KEPT:]


def _kind(lines: Lines, line: int) -> str:
    start, source = lines.starts[line], lines.source
    opening = source[start] if start < len(source) else 0x0A
    if opening in _BLANK_STARTS:
        return "other" if lines.raw(line).strip(b" \t\r\n") else "blank"
    is_plain = opening in _PLAIN_STARTS
    if not is_plain and not _SIMPLE.match(source, start):
        return "other"
    if _HTML_END.search(source, start, lines.start(line + 1)):
        return "other"
    return "plain" if is_plain else chr(opening)
