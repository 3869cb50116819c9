"""The document cases through the real command, on a campaign whose results are imported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.document import find
from tests.document.test_cases import CASES, REFUSED, read

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "doc" / "examples" / "kimi-k2.5-8x-rtx-pro-6000"
SAMPLE = ("01-crlf.md", "21-deleted-section.md", "33-unclosed-fence-before.md")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "campaign", "--dir", str(folder), *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign of which only the section gemm is unknown to the state."""
    folder = tmp_path_factory.mktemp("cases") / "campaign"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("state", "figures", "__pycache__"))
    shutil.copyfile(folder / "doc" / "first-version.md", folder / "doc" / "k25b6000bench1.md")
    done = run(folder, "resume")
    assert done.returncode == 0, done.stderr
    return folder


def check_case(campaign: Path, name: str) -> None:
    document = campaign / "doc" / "k25b6000bench1.md"
    sections = campaign / "state" / "sections"
    kept = {path: path.read_bytes() for path in sections.iterdir()}
    (sections / "gemm.md").unlink()
    if name == "21-deleted-section.md":
        (sections / "gemm.md").write_bytes(kept[sections / "gemm.md"])
    source = read(name)
    document.write_bytes(source)
    os.utime(document, (1_000_000, 1_000_000))
    try:
        first = run(campaign, "render")
        after, changed_at = document.read_bytes(), document.stat().st_mtime_ns
        second = run(campaign, "render")
        assert (document.read_bytes(), document.stat().st_mtime_ns) == (after, changed_at)
    finally:
        for path, data in kept.items():
            path.write_bytes(data)
    if name in REFUSED:
        assert (first.returncode, second.returncode) == (5, 5)
        assert after == source
        assert changed_at == 1_000_000 * 10**9
        assert f"{document}:{REFUSED[name]}:" in first.stderr
    elif name == "21-deleted-section.md":
        assert (first.returncode, after) == (0, source)
    else:
        assert (first.returncode, second.returncode) == (0, 0), first.stderr
        assert_only_gemm_changed(name, source, after)


def assert_only_gemm_changed(name: str, source: bytes, after: bytes) -> None:
    real = next((b for b in CASES[name]["real_blocks"] if b["id"] == "gemm"), None)
    if real is None:
        assert after.startswith(source)
        assert [s.id for s in find(after)] == ["gemm"]
        return
    assert after.startswith(source[: real["start"]])
    assert after.endswith(source[real["end"] :])
    line_ends = {"crlf": after.count(b"\r\n"), "lf": after.count(b"\n") - after.count(b"\r\n")}
    for kind, count in line_ends.items():
        assert (count > 0) == (CASES[name]["eol"][kind] > 0)


@pytest.mark.parametrize("name", SAMPLE)
def test_command__case(campaign: Path, name: str) -> None:
    check_case(campaign, name)


@pytest.mark.proof
@pytest.mark.parametrize("name", sorted(set(CASES) - set(SAMPLE)))
def test_command__every_other_case(campaign: Path, name: str) -> None:
    check_case(campaign, name)
