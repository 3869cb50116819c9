"""`render --diff`: a difference that other tools can apply."""

import subprocess
from pathlib import Path

import pytest

from campaign.cli.render import unified


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "# new\n"),
        ("a\nb\n", "a\nc"),
        ("a\nform\x0cfeed\nline\u2028separator\nb\n", "a\nform\x0cfeed\nline\u2028separated\nb\n"),
        ("\r\na\r\n", "\r\nb\r\n"),
    ],
)
def test_diff__git_applies_it(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "report.md"
    path.write_bytes(before.encode())
    patch = unified(before.encode(), after.encode(), "a/report.md").replace(" (rewritten)", "")
    subprocess.run(["git", "apply", "-p1", "-"], cwd=tmp_path, input=patch.encode(), check=True)
    assert path.read_bytes() == after.encode()
