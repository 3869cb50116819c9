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

CAMPAIGNS = sorted(path.parent.name for path in EXAMPLES.glob("*/campaign.toml"))
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
        assert found.output.replace("outside", "inside") == reference.output, (words, found.exception)
