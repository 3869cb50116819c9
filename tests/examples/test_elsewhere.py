"""`--dir`, from elsewhere: paths in campaign.toml, in results and in targets are relative to the campaign's folder."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from campaign.cli import group
from tests.examples.test_gpu import EXAMPLES

#: Every kind of phase measured; every kind imported.
CAMPAIGNS = ("h200-qwen3-30b-a3b", "kimi-k2.5-8x-rtx-pro-6000")
#: What a hint says more where the folder was named.
TYPED = " --dir campaign"
#: Every command that opens a campaign and measures nothing.
COMMANDS = (
    ("plan", "--json"),
    ("status", "--json"),
    ("render",),
    ("check",),
    ("export", "--out", "page.html"),
    ("add", "gemm", "batch=[2]"),
    ("skip", "gemm-2"),
    ("reset", "gemm-2"),
)


def run(folder: Path, cwd: Path, words: tuple[str, ...]) -> Result:
    """A command given from another folder."""
    with contextlib.chdir(cwd):
        return CliRunner().invoke(group, ["--dir", os.path.relpath(folder, cwd), *words])


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_elsewhere__every_command_says_what_it_says_inside(name: str, tmp_path: Path) -> None:
    inside, outside = (tmp_path / place / "campaign" for place in ("inside", "outside"))
    for folder in (inside, outside):
        shutil.copytree(EXAMPLES / name, folder)
    for words in COMMANDS:
        reference = run(inside, inside, words)
        assert reference.exit_code == 0, (words, reference.output, reference.exception)
        found = run(outside, outside.parent, words)
        assert found.output.replace("outside", "inside").replace(TYPED, "") == reference.output, (
            words,
            found.exception,
        )


def test_elsewhere__what_to_type_next_names_the_folder(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / CAMPAIGNS[0], tmp_path / "campaign")
    assert run(tmp_path / "campaign", tmp_path, ("skip", "gemm")).output == (
        "gemm: skipped. Take it up again: python -m campaign --dir campaign reset gemm\n"
    )
    assert "python -m campaign reset gemm" in run(tmp_path / "campaign", tmp_path / "campaign", ("skip", "gemm")).output
    bare = run(tmp_path / "a b", tmp_path, ("status",)).output
    assert "python -m campaign --dir 'a b' init" in " ".join(bare.split())


@pytest.mark.parametrize("words", [("add", "macro"), ("reset", "gemm")])
def test_edit__a_blocked_phase_says_why_and_not_how_to_measure_it(words: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "kimi-k2.5-8x-rtx-pro-6000", tmp_path / "campaign")
    if words[0] == "reset":
        assert run(tmp_path / "campaign", tmp_path, ("resume",)).exit_code == 0
    output = run(tmp_path / "campaign", tmp_path, words).output
    assert ": blocked: it " in output
    assert "Measure it" not in output
