"""Generated documents × nasty values: what must hold whatever a person wrote."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from campaign.document import Section, begin_marker, find, normal_text, revise
from campaign.document.structure import Structure
from campaign.errors import DocumentError
from campaign.render import block, code, table, text

IDS = ("summary", "gemm", "nccl")
PARSERS = [MarkdownIt("commonmark"), MarkdownIt("commonmark").enable(["table", "strikethrough"])]
PIECES = [
    *("# T", "## GEMM", "Title\n===", "text", "text one\ntext two", "  \t", "", "", "- a", "- a\n  - b", "1. x", "+ y"),
    *("> quote", ">", "***", "---", "===", "```", "```\ncode\n```", "~~~\nx\n~~~", "````", "    code", "\tcode", "`x"),
    *("| a | b |\n|---|---|\n| 1 | <br> |", "| loose |", "<div>", "</div>", "<div>\n\nx\n\n</div>", "<pre>", "</pre>"),
    *("<pre>\nx\n</pre>", "<script>", "</script>", "<!--", "-->", "<!-- note -->", "<?php", "?>", "<![CDATA[", "]]>"),
    *(
        "<details>\n<summary>s</summary>",
        "</details>",
        "<b>",
        "[a]: /url",
        "[a]:\n/url\n'title",
        "[a] $& \\1",
        "\\",
        "é",
    ),
    *("<!-- campaign:begin gemm -->", "<!-- campaign:end gemm -->", "`<!-- campaign:end gemm -->` in prose", "\u2028x"),
    *("- <!-- campaign:begin nccl -->", "> <!-- campaign:end nccl -->", "    <!-- campaign:begin gemm -->", "\u0085"),
    *("<!-- campaign:begin other -->\nkept\n<!-- campaign:end other -->", "a\x00b\x1b[0m", "\x0b\x0c", "long " * 30),
    *(
        "<<<<<<< HEAD",
        "=======",
        ">>>>>>> b",
        "text\n\ntext\n\ntext\n\ntext",
        "text\n\n\n\nmore\n\n\nagain\n\n",
        "{{ x }}",
    ),
]
VALUES = st.one_of(
    st.sampled_from(
        ["a|b", "`x|y`", "~~~\nx", "<!-- campaign:end gemm -->", "\\1 $& ${x}", "# h", "- i", "</details>"]
    ),
    st.text(max_size=20),
    st.text(alphabet="|`*_<>&#-+=1.)\\[]()!~$ \t\n\r", max_size=20),
)


def _section_text(a: str, b: str, c: str) -> str:
    parts = [f"## {text(a)}", f"{text(b)} and {code(c)}.", str(table(["n", a], [[b, c], [code(a), 1.5]]))]
    return "\n\n".join([*parts, str(block(c)), f"<details><summary>{text(a)}</summary></details>\n"])


section_texts = st.builds(_section_text, VALUES, VALUES, VALUES)
OPEN = ("```", "````", "<pre>", "<script>", "<!--", "<?php", "<![CDATA[", "<<<<<<< HEAD")
SOUND = [piece for piece in PIECES if piece not in OPEN and not piece.startswith("<!-- campaign:")]
calm, wild = (st.lists(st.sampled_from(some), max_size=6) for some in (SOUND, PIECES))
pieces = st.one_of(calm, calm, calm, wild)
#: A link defined inside a section may be used outside of it; what the machine writes defines none.
bodies = pieces.map(lambda some: [piece for piece in some if not piece.startswith("[a]:")])


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """Pieces of nasty text with up to three sections among them, any line ends, perhaps a BOM and odd bytes."""
    parts: list[str] = ["---\ntitle: x\n---"] if draw(st.booleans()) else []
    for section_id in draw(st.lists(st.sampled_from(IDS), unique=True, max_size=3)):
        parts += draw(pieces)
        body = draw(st.one_of(section_texts, st.just("old"), bodies.map("\n".join)))
        is_hashed = draw(st.booleans())
        begin = begin_marker(section_id, body) if is_hashed else f"<!-- campaign:begin {section_id} -->"
        parts += [begin, body, f"<!-- campaign:end {section_id} -->"]
    parts += draw(pieces)
    whole = "\n".join(parts).replace("\n", draw(st.sampled_from(["\n", "\r\n", "\r"])))
    data = (draw(st.sampled_from(["", "\ufeff"])) + whole + draw(st.sampled_from(["", "\n"]))).encode()
    return data.replace("é".encode(), b"\xe9") if draw(st.booleans()) else data


def _outside(source: bytes, sections: tuple[Section, ...], known: set[str]) -> list[list[bytes]]:
    """The bytes between known sections, each as the pieces that inserted sections cut it into."""
    parts: list[list[bytes]] = [[]]
    position = 0
    for section in sections:
        parts[-1].append(source[position : section.start])
        position = section.end
        if section.id in known:
            parts[-1][-1] += source[section.start : section.text_start].split(b"<!--")[0]
            parts.append([source[section.text_end : section.end]])
    parts[-1].append(source[position:])
    return parts


def _rendered_outside(source: bytes, sections: tuple[Section, ...], parser: MarkdownIt) -> list[str]:
    """HTML of what stands outside of sections, piece by piece (front matter and BOM are no markdown)."""
    lines = Structure(source).lines
    front = lines.front_matter()
    env: dict[str, Any] = {}
    tokens = parser.parse(source[lines.start(front) :].decode("utf-8", "surrogateescape"), env)
    spans = [(section.begin_line - 1 - front, section.end_line - front) for section in sections]
    pieces_of: dict[int, list[Token]] = {}
    place, is_in = 0, False
    for token in tokens:
        if token.level == 0 and token.map is not None:
            start = token.map[0]
            is_in = any(begin <= start < end for begin, end in spans)
            place = sum(1 for _, end in spans if end <= start)
        if not is_in:
            pieces_of.setdefault(place, []).append(token)
    rendered = [parser.renderer.render(part, parser.options, env) for _, part in sorted(pieces_of.items())]
    lines_joined = (part.replace("\n", "") for part in rendered)  # HTML at the end has the document's line end or not
    return [part for part in lines_joined if part]


def check_revision(source: bytes, texts: dict[str, str], last: dict[str, str]) -> bool:
    """Whether `source` was revised (else it was refused); everything that must hold then is asserted."""
    try:
        before = find(source)
        revision = revise(source, texts, last_written=last)
    except DocumentError as error:
        assert "line" in str(error) or "section" in str(error)
        return False
    after = find(revision.content)
    known = {section.id for section in before}
    assert [s.id for s in after if s.id in known] == [s.id for s in before]
    assert {s.id for s in after} - known == {i for i, state in revision.states.items() if state == "inserted"}
    for new, old in zip(_outside(revision.content, after, known), _outside(source, before, known), strict=True):
        _assert_same(new, old)
    stands = {section.id: section for section in before}
    for section in after:
        state = revision.states.get(section.id, "current")
        if state in ("updated", "inserted"):
            assert section.text == normal_text(texts[section.id])
        elif state in ("conflict", "current"):
            assert section.text == stands[section.id].text
    for parser in PARSERS:
        assert _rendered_outside(revision.content, after, parser) == _rendered_outside(source, before, parser)
    again = revise(revision.content, texts, last_written=revision.written)
    assert again.content == revision.content
    assert set(again.states.values()) <= {"current", "conflict", "removed"}
    return True


def _assert_same(new: list[bytes], old: list[bytes]) -> None:
    """The same bytes; where a section was inserted, line ends may have come to its edges."""
    if len(new) == len(old):
        assert new == old
        return
    position, whole = 0, b"".join(old)
    for number, piece in enumerate(new):
        core = (
            piece.strip(b"\r\n")
            if 0 < number < len(new) - 1
            else piece.lstrip(b"\r\n")
            if number
            else piece.rstrip(b"\r\n")
        )
        assert core in whole[position:]
        between = whole[position : whole.index(core, position)]
        assert not between.strip(b"\r\n")
        position = whole.index(core, position) + len(core)
    assert not whole[position:].strip(b"\r\n")


revisions = given(
    documents(),
    st.dictionaries(st.sampled_from(IDS), section_texts, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(IDS), section_texts, max_size=1),
)
relaxed = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@settings(relaxed, max_examples=120)
@revisions
def test_revise__holds_for_generated_documents(source: bytes, texts: dict[str, str], last: dict[str, str]) -> None:
    check_revision(source, texts, last)


@pytest.mark.proof
@settings(relaxed, max_examples=12_000)
@revisions
def test_revise__holds_for_ten_thousand_documents(source: bytes, texts: dict[str, str], last: dict[str, str]) -> None:
    check_revision(source, texts, last)


def check_outline(source: bytes) -> None:
    """Reading the telling lines alone and reading all of them find the same."""
    found: list[object] = []
    for is_whole in (False, True):
        try:
            structure = Structure(source, is_whole=is_whole)
            structure.refuse_look_alikes(IDS)
            found.append((structure.sections, structure.open_block() is None))
        except DocumentError as error:
            found.append((error.line, str(error)))
    assert found[0] == found[1]


@settings(relaxed, max_examples=150)
@given(documents())
def test_structure__telling_lines_tell_all(source: bytes) -> None:
    check_outline(source)


@pytest.mark.proof
@settings(relaxed, max_examples=15_000)
@given(documents())
def test_structure__telling_lines_tell_all_in_many_documents(source: bytes) -> None:
    check_outline(source)


def test_check_revision__generated_documents_are_mostly_revised() -> None:
    """The property would be hollow if nearly all documents were refused."""
    outcomes: list[bool] = []

    @settings(relaxed, max_examples=80, derandomize=True)
    @revisions
    def run(source: bytes, texts: dict[str, str], last: dict[str, str]) -> None:
        outcomes.append(check_revision(source, texts, last))

    run()
    assert sum(outcomes) > 0.3 * len(outcomes)
