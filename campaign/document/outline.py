"""Which lines of a document tell its block structure, so that long prose and tables are not parsed in full.

Lines that start with a letter (or a table's `|`) continue whatever is open or are a paragraph, and a run of such
lines and blank ones leaves the parser in the state that its first few and its last leave it in.
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
#: paragraph, blank, paragraph: from there on only what comes next matters.
_KEPT_OF_RUN = 4


def telling_lines(lines: Lines, first: int) -> list[int]:
    """Numbers of the lines from `first` on that determine the blocks; parsing only these gives the same markers."""
    if _DECLARATION.search(lines.source):
        return list(range(first, len(lines)))
    kept: list[int] = []
    last_kind, kinds_in_run, pending = "", 0, -1
    for line in range(first, len(lines)):
        kind = _kind(lines, line)
        if kind == "other":
            if pending >= 0:
                kept.append(pending)
            kept.append(line)
            last_kind, kinds_in_run, pending = "", 0, -1
        elif kind != last_kind:
            last_kind, kinds_in_run = kind, kinds_in_run + 1
            if kinds_in_run <= _KEPT_OF_RUN:
                kept.append(line)
            else:
                pending = line
    if pending >= 0:
        kept.append(pending)
    return kept


def _kind(lines: Lines, line: int) -> str:
    start, source = lines.starts[line], lines.source
    opening = source[start] if start < len(source) else 0x0A
    if opening in _PLAIN_STARTS:
        return "other" if _HTML_END.search(source, start, lines.start(line + 1)) else "plain"
    if opening in _BLANK_STARTS and not lines.raw(line).strip(b" \t\r\n"):
        return "blank"
    return "other"
