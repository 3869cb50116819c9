"""A person's headings that become sections."""

import pytest

from campaign.document import adopt_headings, find, revise
from campaign.errors import DocumentError

MINE = (
    b"# Kimi on eight GPUs\r\n\r\n**Model:** x\r\n\r\n## Setup\r\n\r\nmine\r\n\r\n## Profiler results ##\r\n\r\n"
    b"preliminary: 51 %\r\n\r\n### Detail\r\n\r\n```\n## Setup\n```\r\n\r\nNext steps\r\n----------\r\n\r\nmine too"
)


def test_adopt__takes_a_heading_and_its_text_over_once() -> None:
    content, adopted = adopt_headings(MINE, {"profile": "Profiler results"})
    assert adopted["profile"].startswith("## Profiler results ##\r\n\r\npreliminary: 51 %")
    assert adopted["profile"].endswith("```\n## Setup\n```\r\n")
    before, behind = MINE.split(adopted["profile"].encode())
    markers = b"<!-- campaign:begin profile -->\r\n<!-- campaign:end profile -->\r\n"
    assert content == before + markers + behind
    assert adopt_headings(content, {"profile": "Profiler results"}) == (content, {})
    revision = revise(content, {"profile": "## Where a decode step goes\n\n52 %"})
    assert revision.states == {"profile": "updated"}
    assert b"preliminary" not in revision.content


def test_adopt__setext_heading_at_the_end_without_a_final_line_end() -> None:
    content, adopted = adopt_headings(MINE, {"macro": "Next steps"})
    assert adopted == {"macro": "Next steps\r\n----------\r\n\r\nmine too"}
    assert content.endswith(b"<!-- campaign:begin macro -->\r\n<!-- campaign:end macro -->")
    assert find(content)[0].id == "macro"


def test_adopt__heading_that_is_not_there_changes_nothing() -> None:
    assert adopt_headings(MINE, {"profile": "No such heading"}) == (MINE, {})


def test_adopt__two_headings_of_that_text_are_refused() -> None:
    with pytest.raises(DocumentError, match="more than once") as caught:
        adopt_headings(b"# A\n\n## X\n\n## X\n", {"gemm": "X"})
    assert caught.value.line == 5


def test_adopt__heading_whose_text_holds_a_section_is_refused() -> None:
    source = b"# A\n\n<!-- campaign:begin gemm -->\n## In\n<!-- campaign:end gemm -->\n"
    with pytest.raises(DocumentError, match="section gemm"):
        adopt_headings(source, {"macro": "A"})
    assert adopt_headings(source, {"macro": "In"}) == (source, {})


def test_adopt__heading_inside_another_adopted_one_is_refused() -> None:
    with pytest.raises(DocumentError, match="inside another"):
        adopt_headings(b"# A\n\n## B\n\nx\n", {"macro": "A", "gemm": "B"})
