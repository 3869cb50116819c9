"""What becomes of sections, a person's edits and the bytes around them."""

import pytest

from campaign.document import begin_marker, find, revise, text_hash
from campaign.errors import DocumentError

OLD = "## GEMM\n\n| M | us |\n|---|---|\n| 1 | 10 |\n| 2 | 20 |\n\nMeasured once."
NEW = "## GEMM\n\n| M | us |\n|---|---|\n| 1 | 11 |\n| 2 | 21 |\n\nMeasured once."


def document(text: str, written: str | None = None, *, section: str = "gemm") -> bytes:
    begin = f"<!-- campaign:begin {section} -->" if written is None else begin_marker(section, written)
    return f"# Title\n\n{begin}\n{text}\n<!-- campaign:end {section} -->\n\nMine.\n".encode()


def text_of(content: bytes, section: str = "gemm") -> str:
    return next(s.text for s in find(content) if s.id == section)


def assert_stable(content: bytes, written: dict[str, str], new: str = NEW) -> None:
    again = revise(content, {"gemm": new}, last_written=written)
    assert again.content == content
    assert revise(content, {"gemm": new}).content == content


def test_revise__unedited_section_is_updated_by_text_or_by_hash() -> None:
    for source, last in ((document(OLD), {"gemm": OLD}), (document(OLD, OLD), {}), (document(OLD), {})):
        revision = revise(source, {"gemm": NEW}, last_written=last)
        assert revision.states == {"gemm": "updated"}
        assert revision.content == document(NEW, NEW)
        assert revision.written == {"gemm": NEW}
        assert_stable(revision.content, revision.written)


def test_revise__nothing_new_changes_no_byte() -> None:
    for source in (document(NEW), document(NEW + "\n\n"), document(NEW, NEW)):
        assert revise(source, {"gemm": NEW + "\n"}).content == source


@pytest.mark.parametrize("is_hashed", [False, True])
def test_revise__edit_beside_new_numbers_is_merged(is_hashed: bool) -> None:
    edited = OLD.replace("Measured once.", "Measured once. The fan was loud.")
    source = document(edited, OLD if is_hashed else None)
    revision = revise(source, {"gemm": NEW}, last_written={"gemm": OLD})
    assert revision.states == {"gemm": "merged"}
    assert text_of(revision.content) == NEW.replace("Measured once.", "Measured once. The fan was loud.")
    assert revision.edited == ("gemm",)
    assert_stable(revision.content, revision.written)
    assert revise(revision.content, {"gemm": NEW}, last_written={"gemm": OLD}).content == revision.content


def test_revise__merged_edit_outlives_the_next_numbers() -> None:
    edited = OLD.replace("Measured once.", "Mine.")
    first = revise(document(edited, OLD), {"gemm": NEW}, last_written={"gemm": OLD})
    newer = NEW.replace("21", "22")
    second = revise(first.content, {"gemm": newer}, last_written=first.written)
    assert second.states == {"gemm": "merged"}
    assert text_of(second.content) == newer.replace("Measured once.", "Mine.")


def test_revise__line_added_below_a_changed_row_is_merged() -> None:
    edited = OLD.replace("| 2 | 20 |", "| 2 | 20 |\n| 3 | by hand |")
    revision = revise(document(edited, OLD), {"gemm": NEW}, last_written={"gemm": OLD})
    assert revision.states == {"gemm": "merged"}
    assert "| 2 | 21 |\n| 3 | by hand |" in text_of(revision.content)


def test_revise__same_line_changed_by_both_keeps_the_persons_text() -> None:
    edited = OLD.replace("| 1 | 10 |", "| 1 | 10, my stopwatch says 12 |")
    source = document(edited, OLD) + document("x", section="macro")
    revision = revise(source, {"gemm": NEW, "macro": "y"}, last_written={"gemm": OLD})
    assert revision.states == {"gemm": "conflict", "macro": "updated"}
    assert revision.conflicts == {"gemm": NEW}
    assert revision.lines == {"gemm": 3, "macro": 17}
    assert text_of(revision.content) == edited
    assert text_of(revision.content, "macro") == "y"
    assert revision.written == {"gemm": OLD, "macro": "y"}
    again = revise(revision.content, {"gemm": NEW, "macro": "y"}, last_written=revision.written)
    assert (again.content, again.states["gemm"]) == (revision.content, "conflict")
    forced = revise(source, {"gemm": NEW, "macro": "y"}, last_written={"gemm": OLD}, force=["gemm"])
    assert forced.states == {"gemm": "updated", "macro": "updated"}
    assert text_of(forced.content) == NEW


def test_revise__edit_whose_base_is_unknown_is_a_conflict_not_lost() -> None:
    revision = revise(document("my text", OLD), {"gemm": NEW})
    assert revision.states == {"gemm": "conflict"}
    assert text_of(revision.content) == "my text"
    other = revise(document("my text", OLD), {"gemm": NEW}, last_written={"gemm": "of another branch"})
    assert other.states == {"gemm": "conflict"}


def test_revise__person_who_made_the_same_change_gets_the_new_hash() -> None:
    revision = revise(document(NEW, OLD), {"gemm": NEW})
    assert find(revision.content)[0].hash == text_hash(NEW)
    assert text_of(revision.content) == NEW
    assert_stable(revision.content, revision.written)


def test_revise__fence_that_a_person_left_open_in_a_section_is_refused() -> None:
    edited = OLD + "\n\n```\nopen"
    with pytest.raises(DocumentError):
        revise(document(edited, OLD), {"gemm": NEW}, last_written={"gemm": OLD})


def test_revise__inserts_by_the_order_of_the_sections() -> None:
    texts = {"summary": "s", "gemm": "g", "macro": "m", "profile": "p", "method": "e"}
    source = document("g", section="gemm") + b"\n" + document("p", section="profile").replace(b"# Title\n", b"")
    revision = revise(source, texts)
    assert [s.id for s in find(revision.content)] == ["summary", "gemm", "macro", "profile", "method"]
    assert revision.states == {
        "summary": "inserted",
        "gemm": "current",
        "macro": "inserted",
        "profile": "current",
        "method": "inserted",
    }
    assert revise(revision.content, texts).content == revision.content


@pytest.mark.parametrize(
    "source", [b"", b"\xef\xbb\xbf", b"text", b"text\n", b"text\r\n\r\n", b"a\r\rb", b"- a\n  - b"]
)
def test_revise__inserts_into_any_end_of_a_document(source: bytes) -> None:
    revision = revise(source, {"gemm": "g\n\n<details>\nx\n</details>", "macro": "- m"})
    assert revision.content.startswith(source)
    assert [s.id for s in find(revision.content)] == ["gemm", "macro"]
    assert revise(revision.content, {"gemm": "g\n\n<details>\nx\n</details>", "macro": "- m"}).content == (
        revision.content
    )


def test_revise__unknown_sections_and_words_in_markers_are_left_alone() -> None:
    source = b"<!-- campaign:begin mine keep=1 -->\na\n<!-- campaign:end mine -->\n"
    assert revise(source, {}).content == source
    revision = revise(source, {"mine": "b"})
    assert revision.content.startswith(b"<!-- campaign:begin mine keep=1 sha256=")


@pytest.mark.parametrize(
    "text", ["```\nopen", "<!-- open", "<pre>\nx", "a\n<!-- campaign:end gemm -->", "<!-- campaign:begin x -->\n"]
)
def test_revise__new_text_that_would_swallow_its_end_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="section gemm"):
        revise(document("old"), {"gemm": text})


def test_revise__insertion_behind_an_unclosed_fence_names_its_line() -> None:
    with pytest.raises(DocumentError) as caught:
        revise(b"# T\n\n```\nnever closed\n", {"gemm": "x"})
    assert caught.value.line == 3


def test_revise__lone_surrogates_become_visible_escapes() -> None:
    assert text_of(revise(b"", {"gemm": "a\ud83db"}).content) == "a\\ud83db"
