"""The record of the Kimi campaign, rebuilt from its data: the committed document, byte for byte."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "doc" / "examples" / "kimi-k2.5-8x-rtx-pro-6000"
DOCUMENT = "doc/k25b6000bench1.md"


def copy_of_example(folder: Path) -> Path:
    """The folder without state, and with its document as it was first written by hand."""
    copy = folder / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("state", "figures", "__pycache__"))
    shutil.copyfile(copy / "doc" / "first-version.md", copy / DOCUMENT)
    return copy


def campaign(folder: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line, with this checkout's package."""
    return subprocess.run(
        [sys.executable, "-m", "campaign", "--dir", str(folder), *words],
        capture_output=True,
        text=True,
        cwd=cwd or ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=120,
        check=False,
    )


def rebuilt(copy: Path) -> str:
    done = campaign(copy, "resume")
    assert done.returncode == 0, done.stderr
    return (copy / DOCUMENT).read_text()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = copy_of_example(tmp_path_factory.mktemp("kimi"))
    rebuilt(made)
    return made


@pytest.fixture(scope="module")
def text(copy: Path) -> str:
    return (copy / DOCUMENT).read_text()


def make_traces() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_traces", EXAMPLE / "make_traces.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_document__is_rebuilt_to_the_byte(copy: Path) -> None:
    if os.environ.get("CAMPAIGN_UPDATE_GOLDEN"):
        shutil.copyfile(copy / DOCUMENT, EXAMPLE / DOCUMENT)
    assert (copy / DOCUMENT).read_bytes() == (EXAMPLE / DOCUMENT).read_bytes()


def test_document__is_rebuilt_alike_elsewhere(copy: Path, tmp_path: Path) -> None:
    elsewhere = copy_of_example(tmp_path)
    assert campaign(elsewhere, "resume", cwd=tmp_path).returncode == 0
    assert (elsewhere / DOCUMENT).read_bytes() == (copy / DOCUMENT).read_bytes()


def test_document__second_resume_changes_nothing(copy: Path) -> None:
    path = copy / DOCUMENT
    before = path.read_bytes(), path.stat().st_mtime_ns
    done = campaign(copy, "resume")
    assert done.returncode == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert campaign(copy, "render", "--check").returncode == 0


def test_document__keeps_the_header_byte_for_byte(copy: Path) -> None:
    first = (EXAMPLE / "doc" / "first-version.md").read_bytes()
    header = first[: first.index(b"## Macro")]
    assert (copy / DOCUMENT).read_bytes().startswith(header)
    assert header.startswith(
        b"# Kimi-K2.5 INT4 on 8x RTX PRO 6000 Blackwell \xe2\x80\x94 Deep Profiling & Benchmarks\n"
    )


def test_document__grew_from_the_preliminary_sections(copy: Path, text: str) -> None:
    assert "To come: the server has to be loaded again" not in text
    adopted = sorted(path.stem for path in (copy / "state" / "adopted").glob("*.md"))
    assert adopted == ["collectives", "gemm", "macro", "profile"]
    ids = re.findall(r"campaign:begin (\w+)", text)
    assert ids == [
        *("summary", "environment", "macro", "gemm", "collectives", "profile", "facts", "synthesis"),
        *("method", "revisions"),
    ]


@pytest.mark.parametrize(
    ("category", "ms", "share"),
    [
        ("allreduce", "11.17", "51.5 %"),
        ("gemm", "2.08", "9.6 %"),
        ("attention", "1.31", "6.0 %"),
        ("rms_norm", "1.12", "5.2 %"),
        ("rope", "0.81", "3.7 %"),
        ("silu_mul", "0.47", "2.2 %"),
        ("other", "4.72", "21.8 %"),
    ],
)
def test_table__holds_the_published_figures(text: str, category: str, ms: str, share: str) -> None:
    coarse = text[text.index("The coarser table") :]
    row = next(line for line in coarse.split("\n") if line.startswith(f"| {category} "))
    assert [cell.strip() for cell in row.split("|")[2:4]] == [ms, share]


@pytest.mark.parametrize(
    "said",
    [
        "155 decode steps of 8 ranks",
        "A step takes 21.68 ms",
        "127 = 61 layers × 2 + 1 for the embedding + 4 unexplained",
        "127 = 122 in layers + 1 for the embedding + 4 unexplained",
        "Beside them: 1 a step by `vllm::cross_device_reduce_2stage`, 1,125 µs each, unexplained",
        "79.1 µs each, of 14,336 bytes at batch 1",
        "in situ costs 1.64× the isolated burst",
        "| 6.81 ms ",
        "| 11.17 ms ",
        "below its floor of 2.54",
        "its true share is 9.6 to 31.4 %",
        "is refuted by at least 20.2 points of the step",
        "10.5 to 14.9 ms",
        "1.46× to 2.06×",
        "The traces are synthesised from published figures, not recorded from a run",
        "21.68 ms (imported)",
        "6.81 ms (noted)",
        "Known only from notes, not measured here: facts.toml",
    ],
)
def test_document__says(text: str, said: str) -> None:
    assert said in text


def test_directions__communicators_come_before_speculation(text: str) -> None:
    directions = text[text.index("### Next directions") :]
    assert (
        0 < directions.index("a communicator that reaches the link's floor") < directions.index("speculative decoding")
    )


def test_document__says_that_traces_are_synthesised_where_numbers_stand(text: str) -> None:
    for section in ("summary", "profile", "synthesis"):
        begin = text.index(f"campaign:begin {section}")
        assert "synthesised from published figures" in text[begin : text.index(f"campaign:end {section}")]


def test_fact__altered_alters_the_document(copy: Path, tmp_path: Path) -> None:
    other = copy_of_example(tmp_path)
    facts = other / "facts.toml"
    facts.write_text(facts.read_text().replace("ms = 6.81", "ms = 5.5"))
    text = rebuilt(other)
    assert "2.03× the isolated burst" in text
    assert "6.81 ms (noted)" not in text


def test_fact__altered_after_the_document_is_noticed(tmp_path: Path) -> None:
    other = copy_of_example(tmp_path)
    rebuilt(other)
    facts = other / "facts.toml"
    facts.write_text(facts.read_text().replace("ms = 6.81", "ms = 5.5"))
    plan = campaign(other, "plan").stdout
    assert re.search(r"^measure\s+collectives\s+changed: imports\.facts\.toml", plan, re.MULTILINE), plan
    assert "2.03× the isolated burst" in rebuilt(other)


def test_trace__altered_alters_the_document(tmp_path: Path) -> None:
    other = copy_of_example(tmp_path)
    traces = make_traces()
    traces.CATEGORY_MS["gemm"] = 3.08
    for path, _ in traces.make(other / "traces", is_full=False):
        assert path.exists()
    text = rebuilt(other)
    assert "A step takes 22.68 ms" in text
    assert "below its floor" not in text[text.index("campaign:begin profile") : text.index("campaign:end profile")]


def test_traces__are_those_that_the_script_makes() -> None:
    import gzip

    traces = make_traces()
    for rank in (0, 7):
        made = io.BytesIO()
        traces.write_rank(made, rank, 0)
        assert gzip.decompress((EXAMPLE / "traces" / f"rank{rank}.pt.trace.json.gz").read_bytes()) == made.getvalue()


def test_missing_trace__is_said_and_names_the_path(tmp_path: Path) -> None:
    other = copy_of_example(tmp_path)
    shutil.rmtree(other / "traces")
    done = campaign(other, "resume")
    assert done.returncode == 3
    assert "traces: does not exist" in done.stderr
