"""`check`: the document of a real run against its results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.runner.checking import problems
from campaign.runner.opening import OpenCampaign
from tests.reliability.drill import ROOT, Runners
from tests.reliability.kinds import drill_kinds


@pytest.fixture(scope="session")
def written(unbegun: Path, runners: Runners, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign whose first phase is done and written up."""
    folder = Path(shutil.copytree(unbegun, tmp_path_factory.mktemp("written") / "campaign")).resolve()
    ended = runners.resume(folder, until="environment")
    assert ended.code == 0, ended.output
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "campaign")).resolve()


def found(folder: Path) -> str:
    return "\n".join(problems(OpenCampaign(folder, drill_kinds())))


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "doc" / "report.md"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_check__what_was_written_holds(folder: Path) -> None:
    assert found(folder) == ""


def test_check__altered_result_is_named(folder: Path) -> None:
    path = folder / "state" / "results" / "environment" / "1" / "result.json"
    path.write_bytes(path.read_bytes() + b" ")
    assert "altered since it was accepted" in found(folder)
    assert "is not what it was written from" in found(folder)


def test_check__missing_result_is_named(folder: Path) -> None:
    (folder / "state" / "results" / "environment" / "1" / "result.json").unlink()
    assert "its source state/results/environment/1/result.json is gone" in found(folder)


def test_check__numbers_without_a_source_are_named(folder: Path) -> None:
    path = folder / "doc" / "report.md"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("<details>")))
    assert "section environment: its numbers name no source" in found(folder)


def test_check__unsound_markers_are_named_with_their_line(folder: Path) -> None:
    edit(folder, "<!-- campaign:end environment -->\n", "")
    assert found(folder).startswith("doc/report.md:")


def test_check__no_document_is_said(folder: Path) -> None:
    (folder / "doc" / "report.md").unlink()
    assert "not there, but results are" in found(folder)


def test_check__exit_codes_of_the_command(folder: Path) -> None:
    command = [sys.executable, "-m", "campaign", "--dir", str(folder), "check"]
    sound = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (sound.returncode, sound.stdout) == (0, "document and results agree\n")
    (folder / "doc" / "report.md").unlink()
    broken = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert broken.returncode == 1
    assert "doc/report.md" in broken.stdout
