"""A campaign against a real vLLM, as a person runs it: killed twice, gone on with, edited, rendered again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from campaign.server import make_tiny_model

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = """\
[campaign]
title = "Two | bars"

[target]
model = "models/tiny"

[server]
url = "http://127.0.0.1:{port}"
profile_ready = true
args = [
  "--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "512", "--max-num-seqs", "4", "--enforce-eager",
]

[[phase]]
kind = "environment"

[[phase]]
kind = "macro"
input_tokens = 16
output_tokens = 24
concurrency = [1, 2]
repeats = 3

[[phase]]
kind = "profile"
steps = 12
input_tokens = 16

[[phase]]
kind = "synthesis"

[[hypothesis]]
claim = "Attention is most of a step"
holds_if = 'share("attention") > 0.5'
"""


class Folder:
    """A campaign folder and the command line on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document = path / "doc" / "report.md"

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "campaign", "--dir", str(self.path), *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return shown

    def phase(self, name: str) -> dict[str, Any]:
        return next((p for p in self.status()["phases"] if p["id"] == name), {"status": "", "points_done": 0})

    def resume_until(self, condition: Callable[[], bool]) -> None:
        """Start a runner, and kill it the hard way as soon as `condition` holds."""
        runner = subprocess.Popen(self.command("resume"), cwd=ROOT, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 300
            while not condition():
                assert runner.poll() is None, "the runner ended by itself"
                assert time.monotonic() < deadline
                time.sleep(0.2)
        finally:
            runner.send_signal(signal.SIGKILL)
            runner.wait()

    def server_starts(self) -> int:
        return (self.path / "state" / "server.log").read_text(errors="replace").count("non-default args:")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = tmp_path_factory.mktemp("campaign")
    make_tiny_model(path / "models" / "tiny", "llama")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (path / "campaign.toml").write_text(CAMPAIGN.replace("{port}", str(port)))
    return Folder(path)


@pytest.mark.vllm
@pytest.mark.timeout(900)
def test_campaign__is_killed_gone_on_with_edited_and_rendered(folder: Folder) -> None:
    folder.resume_until(lambda: folder.status()["server"]["state"] == "loading")
    folder.resume_until(lambda: folder.phase("macro")["points_done"] >= 2)
    done = folder.run("resume")
    assert done.returncode == 0, done.stderr
    assert folder.server_starts() == 1  # adopted while loading, and again when it was ready
    check_points_once(folder)
    text = folder.document.read_text()
    assert text.startswith("# Two \\| bars\n")
    names = ("summary", "environment", "macro", "profile", "synthesis", "method", "revisions")
    assert [text.count(f"<!-- campaign:begin {name} ") for name in names] == [1] * len(names)
    check_second_resume_changes_nothing(folder)
    check_a_persons_words_stay(folder)
    assert folder.run("check").returncode in (0, 1)
    assert not any(p.name.startswith("VLLM") for p in children_of_campaign(folder))


def check_points_once(folder: Folder) -> None:
    """Whatever attempts there were, no point was measured twice."""
    lines: dict[str, str] = {}
    for path in sorted((folder.path / "state" / "results" / "macro").glob("*/result.points.jsonl")):
        for line in path.read_text().splitlines():
            point = json.loads(line)
            assert lines.setdefault(point["key"], point["started_at"]) == point["started_at"]
    assert len(lines) == 6


def check_second_resume_changes_nothing(folder: Folder) -> None:
    before = (folder.document.read_bytes(), folder.document.stat().st_mtime_ns)
    again = folder.run("resume")
    assert again.returncode == 0, again.stderr
    assert (folder.document.read_bytes(), folder.document.stat().st_mtime_ns) == before


def check_a_persons_words_stay(folder: Folder) -> None:
    text = folder.document.read_text()
    begin = text.index("<!-- campaign:begin macro ")
    text = text[:begin] + "Between two sections, by hand.\n\n" + text[begin:]
    text = "Above the title, by hand.\n\n" + text.replace("## Throughput and latency", "## Throughput, in my words")
    folder.document.write_text(text)
    edited = folder.run("render")
    assert edited.returncode == 5, edited.stderr
    assert "section macro" in edited.stderr
    template = (ROOT / "templates" / "profile.md.j2").read_text()
    own = folder.path / "templates" / "profile.md.j2"
    own.parent.mkdir()
    own.write_text(template.replace("The rows of exposed time add up to the step.", "These rows add up."))
    starts = folder.server_starts()
    rendered = folder.run("render")
    assert rendered.returncode == 0, rendered.stderr
    now = folder.document.read_text()
    assert now == text.replace("The rows of exposed time add up to the step.", "These rows add up.").replace(
        marker(text, "profile"), marker(now, "profile")
    )
    assert folder.server_starts() == starts


def marker(text: str, name: str) -> str:
    start = text.index(f"<!-- campaign:begin {name} ")
    return text[start : text.index("-->", start) + 3]


def children_of_campaign(folder: Folder) -> list[Any]:
    """Processes that still belong to this campaign's folder."""
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "name"]):
        try:
            if process.pid != os.getpid() and str(folder.path) in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_config__a_missing_model_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("{port}", "18999"))
    ended = Folder(tmp_path).run("resume")
    assert ended.returncode == 2
    assert "target.model" in ended.stderr
    assert "config.json" in ended.stderr


def test_config__a_negative_concurrency_ends_with_2_and_its_line(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("{port}", "18999").replace("concurrency = [1, 2]", "concurrency = [1, -2]")
    (tmp_path / "campaign.toml").write_text(text)
    ended = Folder(tmp_path).run("plan")
    assert ended.returncode == 2
    line = text.splitlines().index("concurrency = [1, -2]") + 1
    assert f"campaign.toml:{line}: phase[1].concurrency" in ended.stderr


def test_init__writes_a_config_that_is_read_and_is_never_overwritten(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.run("init", "--model", "models/tiny").returncode == 0
    make_tiny_model(tmp_path / "models" / "tiny", "llama")
    planned = folder.run("plan")
    assert planned.returncode == 0, planned.stderr
    assert "TP 1 has no collectives" in planned.stdout
    before = (tmp_path / "campaign.toml").read_bytes()
    assert folder.run("init").returncode == 2
    assert (tmp_path / "campaign.toml").read_bytes() == before


def test_doctor__names_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    shown = Folder(tmp_path).run("doctor")
    assert shown.returncode == 0, shown.stderr
    assert "● device: " in shown.stdout
    assert "○ campaign.toml" in shown.stdout
