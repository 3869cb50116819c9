"""Nasty documents, each with its right result."""

import json
from pathlib import Path

import pytest

from campaign.document import find, revise
from campaign.errors import DocumentError

FOLDER = Path(__file__).parents[1] / "data" / "doc-cases"
CASES = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))["cases"]
NEW = "| M | N | K | TFLOP/s |\n|---|---|---|---|\n| 1 | 2 | 3 | new |\n| 4 | 5 | 6 | $& \\1 \\g<0> |"
REFUSED = {"11-missing-end.md": 10, "13-crossed-markers.md": 10, "19-marker-in-list.md": 11, "23-git-conflict.md": 11}
REFUSED |= {"31-comment-in-comment.md": 12, "33-unclosed-fence-before.md": 8}


def of(*actions: str) -> list[str]:
    return sorted(name for name, case in CASES.items() if case["action"] in actions)


def read(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


@pytest.mark.parametrize("name", [n for n in of("update", "update-or-refuse") if n not in REFUSED])
def test_case__updates_only_the_block(name: str) -> None:
    source = read(name)
    real = next(block for block in CASES[name]["real_blocks"] if block["id"] == "gemm")
    revision = revise(source, {"gemm": NEW})
    assert revision.states == {"gemm": "updated"}
    before, behind = source[: real["start"]], source[real["end"] :]
    assert revision.content.startswith(before)
    assert revision.content.endswith(behind)
    block = revision.content[len(before) : len(revision.content) - len(behind)]
    line_end = {"crlf": b"\r\n", "cr": b"\r", "lf": b"\n"}[max(CASES[name]["eol"], key=CASES[name]["eol"].get)]
    lines = block.split(line_end)
    assert lines[0].startswith(b"<!-- campaign:begin gemm sha256=")
    assert lines[1:-1] == NEW.encode().split(b"\n")
    assert lines[-1] == b"<!-- campaign:end gemm -->"
    again = revise(revision.content, {"gemm": NEW}, last_written=revision.written)
    assert again.content == revision.content
    assert again.states == {"gemm": "current"}
    assert revise(revision.content, {"gemm": NEW}).content == revision.content


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_case__is_refused_with_its_line(name: str) -> None:
    with pytest.raises(DocumentError) as caught:
        revise(read(name), {"gemm": NEW}, last_written={"gemm": "old"})
    assert caught.value.line is not None
    assert f"line {caught.value.line}" in str(caught.value)
    assert caught.value.line == REFUSED[name]


def test_case__every_case_to_refuse_is_tested() -> None:
    assert set(of("refuse", "conflict")) <= set(REFUSED)


def test_case__removed_section_stays_removed() -> None:
    source = read("21-deleted-section.md")
    texts = {"gemm": NEW, "nccl": "x"}
    revision = revise(source, texts, last_written={"gemm": "old", "nccl": find(source)[0].text})
    assert revision.states == {"gemm": "removed", "nccl": "updated"}
    assert b"campaign:begin gemm" not in revision.content
    again = revise(revision.content, texts, last_written=revision.written)
    assert again.content == revision.content
    assert again.states == {"gemm": "removed", "nccl": "current"}
    back = revise(revision.content, texts, last_written=revision.written, insert=["gemm"])
    assert back.states["gemm"] == "inserted"
    assert [section.id for section in find(back.content)] == ["gemm", "nccl"]


def test_case__document_without_markers_keeps_all_bytes_and_gets_the_section_at_its_end() -> None:
    source = read("29-no-markers.md")
    revision = revise(source, {"gemm": NEW})
    assert revision.states == {"gemm": "inserted"}
    assert revision.content.startswith(source + b"\n<!-- campaign:begin gemm sha256=")
    assert revise(revision.content, {"gemm": NEW}).content == revision.content


def test_case__long_table_with_a_section_behind_it_is_not_quadratic() -> None:
    source = read("15-long-table.md")
    assert revise(source, {"gemm": NEW}).states == {"gemm": "updated"}
