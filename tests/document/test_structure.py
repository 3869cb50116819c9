"""Which markers count, and which documents are refused."""

import pytest

from campaign.document import find, revise
from campaign.errors import DocumentError

B, E = "<!-- campaign:begin gemm -->", "<!-- campaign:end gemm -->"
PAIR = f"{B}\nold\n{E}\n"
EXAMPLES = {
    "fence": f"```html\n{B}\nx\n{E}\n```\n",
    "tilde fence": f"~~~~\n{B}\n~~~\n{E}\n~~~~\n",
    "indented code": f"text\n\n    {B}\n    x\n    {E}\n",
    "pre": f"<pre>\n{B}\n\n{E}\n</pre>\n",
    "script": f"<script>\n{B}\n\n{E}\n</script>\n",
    "inline code": f"Write `{B}` and `{E}`.\n",
    "front matter": f"---\na: |\n  x\n{B}\n{E}\n---\n",
    "fence in quote": f"> ```\n> {B}\n> {E}\n> ```\n",
    "fence in list": f"- a\n\n  ```\n  {B}\n  {E}\n  ```\n",
    "heading": f"# About {B}\n",
    "table": f"| a |\n|---|\n| {B} |\n",
}
MEANT = {
    "quote": f"> {B}\n> x\n> {E}\n",
    "quote in list": f"1. > {B}\n   > {E}\n",
    "list": f"- a\n\n  {B}\n  x\n  {E}\n",
    "lazy paragraph": f"text\n    {B}\n    {E}\n",
    "html": f"<div>\n{B}\nx\n{E}\n</div>\n",
    "details": f"<details>\n<summary>x</summary>\n{B}\nx\n{E}\n</details>\n",
    "text beside": f"{B} old\n\n{E} old\n",
    "spacing": "<!--campaign:begin gemm-->\nx\n<!--campaign:end gemm-->\n",
    "case": "<!-- Campaign:Begin gemm -->\nx\n<!-- Campaign:End gemm -->\n",
}
UNSOUND = {
    "duplicate": (PAIR + "\n" + PAIR, 5),
    "nested": (f"{B}\n<!-- campaign:begin nccl -->\n<!-- campaign:end nccl -->\n{E}\n", 2),
    "nested in itself": (f"{B}\n{PAIR}{E}\n", 2),
    "reversed": (f"{E}\nx\n{B}\n", 1),
    "no end": (f"a\n\n{B}\nx\n", 3),
    "no begin": (f"a\n\n{E}\n", 3),
    "end misspelt": (f"{B}\nx\n<!-- campaign:end gem -->\n", 3),
    "end in fence": (f"{B}\n```\n{E}\n", 2),
    "end in list": (f"{B}\n- x\n\n  {E}\n", 1),
    "text behind the end": (f"{B}\nx\n{E} more\n", 1),
    "conflict around": (f"<<<<<<< HEAD\n{PAIR}=======\n{PAIR}>>>>>>> b\n", 1),
    "conflict in diff3 style": (f"{B}\n<<<<<<< HEAD\na\n||||||| c\nb\n=======\nc\n>>>>>>> b\n{E}\n", 2),
    "conflict in a fence of the section": (f"{B}\n```\n<<<<<<< a\n=======\n>>>>>>> b\n```\n{E}\n", 3),
    "conflict in a person's text": ("<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n\n" + PAIR, 1),
    "unclosed fence holds an example": (PAIR + f"\n```\n{B}\n", 5),
    "unclosed pre": (f"<pre>\n{B}\n\n{E}\n", 1),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_find__examples_are_no_markers(name: str) -> None:
    source = EXAMPLES[name].encode()
    assert find(source) == ()
    revision = revise(source, {"gemm": "new"})
    assert revision.states == {"gemm": "inserted"}
    assert revision.content.startswith(source)
    known = revise(source, {"gemm": "new"}, last_written={"gemm": "old"})
    assert (known.states, known.content) == ({"gemm": "removed"}, source)
    with_pair = source + b"\n" + PAIR.encode()
    updated = revise(with_pair, {"gemm": "new"})
    assert updated.states == {"gemm": "updated"}
    assert updated.content.startswith(source + b"\n<!-- campaign:begin gemm")


@pytest.mark.parametrize("name", MEANT)
def test_revise__markers_that_seem_meant_are_refused_unless_the_section_stands(name: str) -> None:
    source = MEANT[name].encode()
    for last in ({}, {"gemm": "old"}):
        with pytest.raises(DocumentError, match="section gemm") as caught:
            revise(source, {"gemm": "new"}, last_written=last)
        assert caught.value.line == 1 + next(n for n, t in enumerate(source.lower().split(b"\n")) if b"campaign" in t)
    assert revise(source + b"\n" + PAIR.encode(), {"gemm": "new"}).content.startswith(source)
    assert revise(source, {"other": "new"}).states == {"other": "inserted"}


@pytest.mark.parametrize("name", UNSOUND)
def test_find__unsound_structure_is_refused_with_its_line(name: str) -> None:
    text, line = UNSOUND[name]
    for line_end in ("\n", "\r\n", "\r"):
        with pytest.raises(DocumentError) as caught:
            find(text.replace("\n", line_end).encode())
        assert caught.value.line == line


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_find__utf16_is_refused(encoding: str) -> None:
    with pytest.raises(DocumentError, match="UTF-8"):
        find(f"# Title\n\n{PAIR}".encode(encoding))


@pytest.mark.parametrize(
    "around",
    [
        "<details>\n<summary>GEMM</summary>\n\n{}\n</details>\n",
        "- list\n{}- list\n",
        "> quote\n{}> quote\n",
        "paragraph\n{}paragraph\n",
        "| a |\n|---|\n| 1 |\n{}| a |\n",
        "Title\n{}---\n",
        "   {}",
        "---\n\nno front matter\n\n{}\n---\n",
        "```\nclosed\n```\n{}```\nfence without markers\n",
        "\u2028\u0085\x0b\x0c\x1c{0}".replace("{0}", "\n{}"),
        "[a]: b\n{}",
        "&lt;\t\n{}\t\n \n",
    ],
)
def test_revise__neighbours_of_a_section_keep_their_bytes(around: str) -> None:
    before, behind = (part.encode() for part in around.split("{}"))
    revision = revise(before + PAIR.encode() + behind, {"gemm": "new"})
    assert revision.states == {"gemm": "updated"}
    assert revision.content.startswith(before + b"<!-- campaign:begin gemm sha256=")
    assert revision.content.endswith(b">\nnew\n" + E.encode() + b"\n" + behind)


def test_find__mixed_line_ends_take_that_of_the_begin_marker() -> None:
    source = f"a\r\n{B}\r\nx\ny\r{E}\nz\r\n".encode()
    assert find(source)[0].text == "x\ny"
    revision = revise(source, {"gemm": "1\n2"})
    assert revision.content.startswith(b"a\r\n<!-- campaign:begin gemm sha256=")
    assert revision.content.endswith(b" -->\r\n1\r\n2\r\n" + E.encode() + b"\nz\r\n")


def test_find__marker_lines_may_be_indented_and_end_in_blanks() -> None:
    source = f"  {B} \t\nold\n {E}  \n".encode()
    revision = revise(source, {"gemm": "new"})
    assert revision.content.startswith(b"  <!-- campaign:begin gemm sha256=")
    assert revision.content.endswith(f" --> \t\nnew\n {E}  \n".encode())


def test_find__git_conflict_shown_in_a_fence_is_no_conflict() -> None:
    assert find(b"```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n```\n" + PAIR.encode())


def test_find__lines_and_hash_of_sections() -> None:
    section = find(f"\ufeff# T\n\n<!-- campaign:begin gemm x=1 sha256=0123456789abcdef -->\n\n{E}".encode())[0]
    assert (section.begin_line, section.end_line, section.text) == (3, 5, "")
    assert (section.hash, section.words) == ("0123456789abcdef", ("x=1", "sha256=0123456789abcdef"))
