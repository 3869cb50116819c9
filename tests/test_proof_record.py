"""Proofs go on where they were interrupted, and run anew on other code: real runs of pytest."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import os
import pytest

@pytest.mark.proof
def test_first():
    print("first: 7 of 7")

@pytest.mark.proof
def test_second():
    assert os.environ["SECOND"] == "passes"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "campaign").mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path / "tests")
    (tmp_path / "tests" / "test_long.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["proof: long"]\n')
    (tmp_path / "constraints-cpu.txt").write_text("")
    return tmp_path


def prove(project: Path, *words: str, second: str = "passes") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-s", "-m", "proof", *words]
    return subprocess.run(
        command, cwd=project, env={"SECOND": second, "PATH": "/usr/bin"}, capture_output=True, text=True, check=False
    )


def test_proof__goes_on_with_what_has_not_passed(project: Path) -> None:
    broken = prove(project, "--resume-proof", second="fails")
    assert (broken.returncode, "1 failed, 1 passed" in broken.stdout) == (1, True)
    again = prove(project, "--resume-proof")
    assert again.returncode == 0, again.stdout
    assert "1 passed, 1 deselected" in again.stdout
    assert "1 proofs passed earlier on this code" in again.stdout
    assert "first: 7 of 7" in again.stdout  # its figures are printed again
    third = prove(project, "--resume-proof")
    assert (third.returncode, "2 deselected" in third.stdout) == (0, True)


def test_proof__other_code_runs_all_of_it(project: Path) -> None:
    assert prove(project, "--resume-proof").returncode == 0
    (project / "campaign" / "new.py").write_text("")
    again = prove(project, "--resume-proof")
    assert "2 passed" in again.stdout


def test_proof__without_the_flag_everything_runs(project: Path) -> None:
    assert prove(project, "--resume-proof").returncode == 0
    assert "2 passed" in prove(project).stdout


def test_proof__a_torn_record_costs_one_test(project: Path) -> None:
    assert prove(project, "--resume-proof").returncode == 0
    record = project / "build" / "proof.jsonl"
    record.write_bytes(record.read_bytes()[:-5])
    assert "1 passed, 1 deselected" in prove(project, "--resume-proof").stdout
    assert "2 deselected" in prove(project, "--resume-proof").stdout
