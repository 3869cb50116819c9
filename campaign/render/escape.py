"""Values as text in markdown: nothing in them can open, close or break anything."""

from __future__ import annotations

import html as html_module
import re
import unicodedata

from markupsafe import Markup

#: Markdown that is meant as such: what filters return and what a template says literally.
Markdown = Markup

_SPACES = re.compile("[ \t]*(?:\r\n|[\n\r\u0085\u2028\u2029])+[ \t]*|\t")
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_ENTITY = re.compile(r"&(?=#?[A-Za-z0-9]+;)")
_EDGE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_CHARACTERS = str.maketrans(
    {"\\": "&#92;", "<": "&lt;", "`": "\\`", "*": "\\*", "[": "\\[", "]": "\\]", "|": "\\|", "~": "\\~", "$": "\\$"}
)
_EDGE_SPACES = re.compile(r"^\s+|\s+$")  # no-break spaces and the like, which parsers strip
_LIST_NUMBER = re.compile(r"^([0-9]{1,9})([.)])(?=\s|$)")
_LOUD_LINE = re.compile(r"campaign\s*:\s*(?:begin|end)\b|^(?:<{7} |={7}\s*$|>{7} )", re.IGNORECASE | re.MULTILINE)


def _visible(value: str) -> str:
    """Control, direction and lone surrogate characters as `\\x1b`, `\\u202e`, `\\ud83d`."""

    def escape(match: re.Match[str]) -> str:
        number = ord(match.group())
        return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"

    return _INVISIBLE.sub(escape, value)


def _one_line(value: str) -> str:
    return _visible(_SPACES.sub(" ", value)).strip(" ")


def text(value: str) -> Markup:
    """`value` as one line of prose, of a heading, or of a table's cell, showing its own characters."""
    line = _ENTITY.sub("&amp;", _one_line(value)).translate(_CHARACTERS)
    line = _EDGE_UNDERSCORE.sub(r"\\_", line)
    line = re.sub(r"(?:^|(?<=-))>", "&gt;", line)
    line = re.sub(r"(?:^|(?<=\s))#", r"\\#", line)
    line = re.sub(r"^([-+=:])", r"\\\1", line)
    line = _EDGE_SPACES.sub(lambda m: "".join(f"&#{ord(space)};" for space in m.group()), line)
    return Markup(_LIST_NUMBER.sub(r"\1\\\2", line))


def cell(value: str) -> Markup:
    """`value` as text of a table's cell."""
    return text(value)


def code(value: str) -> Markup:
    """`value` as inline code, also inside a table; where backticks cannot hold it, as `<code>`."""
    line = _one_line(value)
    if not line:
        return Markup("")
    if _EDGE_SPACES.search(line) or re.search(r"[|`\\]|<!--|-->", line):
        return Markup("<code>") + text(line) + Markup("</code>")
    return Markup(f"`{line}`")


def sentence(value: str) -> Markup:
    """`value` as text that ends as a sentence does: one full stop, whether it came with one or not."""
    line = _one_line(value)
    return text(line if line.endswith((".", "!", "?", ":")) else line + ".")


def kernel(value: str, width: int = 90) -> Markup:
    """A kernel's name as text: no return type, no parameter list, cut at `width` letters, never down to nothing."""
    line = _one_line(value).removeprefix("void ").replace("(anonymous namespace)::", "")
    line = re.sub(r"(?<=[\w>])\([^()]*\)(?: const)?$", "", line)
    return text(line if len(line) <= width else line[: width - 1] + "…")


def html(value: str) -> Markup:
    """`value` as one line of text inside raw HTML (the collapsed line of a section)."""
    return Markup(html_module.escape(_one_line(value)))


def block(value: str, language: str = "") -> Markup:
    """`value` as a block of code, lines kept, a terminal's colours left out; with a section's marker, as `<pre>`."""
    plain = _COLOUR.sub("", value.rstrip("\r\n"))
    lines = [_visible(line) for line in re.split("\r\n|[\n\r\u0085\u2028\u2029]", plain)]
    body = "\n".join(line.rstrip(" ") for line in lines)
    if _LOUD_LINE.search(body):
        return Markup(f"<pre>\n{html_module.escape(body, quote=False)}\n</pre>\n")
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    word = language if re.fullmatch(r"[A-Za-z0-9+-]*", language) else ""
    return Markup(f"{fence}{word}\n{body}\n{fence}\n")


def width(line: str) -> int:
    """Columns that `line` takes in a monospaced font."""
    if line.isascii():
        return len(line)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(character) in ("W", "F")
        else 1
        for character in line
    )
