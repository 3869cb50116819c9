"""Values cannot break what they stand in, and show their own characters."""

import html
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from campaign.document import find, revise
from campaign.render import block, cell, code, table, text
from campaign.render import html as html_filter

DATA = Path(__file__).parents[1] / "data" / "doc-cases" / "evil-values.json"
EVIL: list[str] = json.loads(DATA.read_text(encoding="utf-8"))["values"]
EVIL += ["1. x", "12) x", "+ x", "> x", "=== ", "---", "***", ":--", "a\\", "`", "``x``", "&lt;", "&amp", "__init__"]
EVIL += ["![a](b)", "<https://x.y>", "    code", "\ufeff", "a\n\n# b", "| --- |", "*a*", "~~a~~", "{{ x }}", "$x$", "#"]
EVIL += ["<<<<<<< HEAD\n=======\n>>>>>>> x", "<!-- campaign:begin gemm -->\n<!-- campaign:end gemm -->", "\x1b[31m", ""]
PARSERS = [MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"])]
values = st.one_of(
    st.sampled_from(EVIL),
    st.text(max_size=30),
    st.text(alphabet="|`*_<>&#-+=1.)\\[]()!~$ \t\n\r{}%ab:", max_size=30),
)


def types(markdown: str, parser: MarkdownIt) -> list[str]:
    found: list[str] = []
    for token in parser.parse(markdown):
        found.append(token.type)
        found += [child.type for child in token.children or () if child.type != "text_special"]
    return [name for name in found if name not in ("text", "inline")]


def shown(value: str) -> str:
    """What a reader is to see: one line, control characters by their escapes."""
    line = re.sub("[ \t]*(?:\r\n|[\n\r\u0085\u2028\u2029])+[ \t]*|\t", " ", value).strip(" ")
    invisible = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    return re.sub(invisible, lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", line)


def seen(markdown: str, parser: MarkdownIt, tag: str) -> list[str]:
    rendered = parser.render(markdown)
    return [html.unescape(re.sub("</?code>", "", cut)) for cut in re.findall(f"<{tag}[^>]*>(.*?)</{tag}>", rendered)]


@settings(max_examples=400, deadline=None)
@given(values)
def test_text__stands_in_prose_heading_and_list_as_itself(value: str) -> None:
    for parser in PARSERS:
        assert types(f"a {text(value)} b\n", parser) == ["paragraph_open", "paragraph_close"]
        assert types(f"## {text(value)}\n", parser) == ["heading_open", "heading_close"]
        assert html.unescape(parser.render(f"a {text(value)}|b\n")) == f"<p>a {shown(value)}|b</p>\n"
        if shown(value):
            assert types(f"{text(value)}\n", parser) == ["paragraph_open", "paragraph_close"]
            assert types(f"a\n{text(value)}\n{text(value)}\n", parser)[0::2] in (
                ["paragraph_open", "softbreak"],
                ["paragraph_open", "softbreak", "paragraph_close"],
            )


@settings(max_examples=400, deadline=None)
@given(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=4))
def test_table__keeps_its_shape_and_shows_each_value(rows: list[list[str]]) -> None:
    written = str(table(["a|b", "c", "d"], [[row[0], cell(row[1]), code(row[2])] for row in rows]))
    parsed = types(written, PARSERS[1])
    assert parsed.count("table_open") == 1
    assert parsed[0] == "table_open"
    assert parsed[-1] == "table_close"
    assert parsed.count("td_open") == 3 * len(rows)
    assert seen(written, PARSERS[1], "td") == [shown(value) for row in rows for value in row]
    assert len({len(line) for line in written.splitlines()}) >= 1


@settings(max_examples=300, deadline=None)
@given(values, values)
def test_code__is_one_piece_of_code_anywhere(value: str, other: str) -> None:
    for parser in PARSERS:
        rendered = parser.render(f"{code(value)} and {code(other)}\n")
        assert seen(f"{code(value)} and {code(other)}\n", parser, "p") == [
            f"{shown(value)} and {shown(other)}".strip(" ")
        ]
        assert rendered.count("<code>") == sum(1 for v in (value, other) if shown(v))


@settings(max_examples=300, deadline=None)
@given(st.lists(values, max_size=5).map("\n".join))
def test_block__is_one_block_and_bounds_no_section(value: str) -> None:
    written = str(block(value, "text"))
    for parser in PARSERS:
        assert [t.type for t in parser.parse(written)] in (["fence"], ["html_block"])
    content = revise(b"", {"gemm": written}).content
    assert [section.id for section in find(content)] == ["gemm"]
    assert revise(content, {"gemm": written}).content == content


@settings(max_examples=300, deadline=None)
@given(values)
def test_html__is_text_in_a_collapsed_line(value: str) -> None:
    line = f"<details><summary>{html_filter(value)}</summary> {html_filter(value)}</details>"
    assert [t.type for t in PARSERS[0].parse(line + "\n\nnext\n")][:2] == ["html_block", "paragraph_open"]
    assert re.sub("<[^>]*>", "", line).count("<") == 0
    assert seen(line, PARSERS[0], "summary") == [shown(value)]


@pytest.mark.parametrize("value", EVIL)
def test_text__never_holds_a_marker_or_a_line_end(value: str) -> None:
    for written in (text(value), cell(value), code(value), html_filter(value)):
        assert "<!--" not in written
        assert len(written.splitlines()) <= 1
        written.encode("utf-8")


def test_text__leaves_plain_names_readable() -> None:
    for plain in ("rms_norm", "Qwen3-30B-A3B", "a < 5 %".replace("<", "at"), "C#", "R&D", "2 × H200 (NVLink), 4.43 ms"):
        assert text(plain) == plain


def test_block__shows_a_programs_colours_as_none() -> None:
    assert block("\x1b[4mGPU0\tCPU\x1b[0m\n") == "```\nGPU0\tCPU\n```\n"
