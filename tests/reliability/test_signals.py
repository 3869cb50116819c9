"""Real signals to the real command while a measurement runs."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign.measurement import read_points
from campaign.runner.survey import survey
from campaign.state import phase
from campaign.store import Store
from tests.reliability.drill import ROOT, damage, measured_twice, measurements_alive, temporaries, wait_until

LATER = [pytest.mark.proof, pytest.mark.timeout(600)]


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "campaign", "--dir", str(folder), *words]


def points_done(folder: Path) -> int:
    paths = Store(folder).results_folder.glob("gemm/*/result.points.jsonl")
    return max((len(read_points(path)) for path in paths), default=0)


def begin(folder: Path) -> subprocess.Popen[str]:
    """The real command, at work on the second phase with one point done."""
    child = subprocess.Popen(command(folder, "resume"), cwd=ROOT, text=True, stderr=subprocess.PIPE)
    wait_until(lambda: points_done(folder) >= 1 or child.poll() is not None, timeout_s=300)
    assert child.poll() is None, child.communicate()
    return child


def goes_on(folder: Path) -> None:
    """The next resume needs no word and no hand, and measures nothing again."""
    again = subprocess.run(
        command(folder, "resume"), cwd=ROOT, text=True, capture_output=True, timeout=300, check=False
    )
    assert again.returncode == 0, again.stderr
    assert (damage(folder), measured_twice(folder), temporaries(folder)) == ([], [], [])
    assert not measurements_alive(folder)
    assert {entry["status"] for entry in survey(folder).phases} == {"done"}


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=LATER), pytest.param(signal.SIGHUP, marks=LATER)],
    ids=lambda number: number.name,
)
def test_signal__once_ends_cleanly(campaign_folder: Path, number: signal.Signals) -> None:
    child = begin(campaign_folder)
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert f"stopped by {number.name}; the state is saved" in said
    assert "Traceback" not in said
    state = Store(campaign_folder).load_state()
    assert state is not None
    assert phase(state, "gemm").status == "interrupted"
    assert not measurements_alive(campaign_folder)
    before = survey(campaign_folder).phases[1]
    assert (before["attempts"], before["points_done"] >= 1, before["duration_s"] > 0) == (1, True, True)
    goes_on(campaign_folder)
    after = survey(campaign_folder).phases[1]  # attempts and times add up
    assert (after["attempts"], after["points_done"]) == (2, after["points_total"])
    assert after["duration_s"] >= before["duration_s"]


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_signal__twice_ends_at_once(campaign_folder: Path) -> None:
    child = begin(campaign_folder)
    child.send_signal(signal.SIGINT)
    time.sleep(0.01)
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert time.monotonic() - begun < 2
    assert child.returncode == 130
    assert "Traceback" not in said
    goes_on(campaign_folder)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_signal__closed_terminal(campaign_folder: Path) -> None:
    """The terminal is really gone: what is printed afterwards fails, and the state is saved all the same."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, command(campaign_folder, "resume"))
    while points_done(campaign_folder) < 1:
        os.read(terminal, 65536)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    state = Store(campaign_folder).load_state()
    assert state is not None
    assert phase(state, "gemm").status == "interrupted"
    goes_on(campaign_folder)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_kill__measurement_goes_on_and_is_adopted(campaign_folder: Path) -> None:
    child = begin(campaign_folder)
    child.kill()
    (measurement,) = measurements_alive(campaign_folder)
    os.kill(measurement, signal.SIGSTOP)  # it could be done before the next runner is there
    child.communicate()
    (gemm,) = [entry for entry in survey(campaign_folder).phases if entry["id"] == "gemm"]
    assert (gemm["status"], gemm["reason"].startswith("its runner ended, the measurement goes on")) == ("running", True)
    again = subprocess.Popen(command(campaign_folder, "resume"), cwd=ROOT, text=True, stderr=subprocess.PIPE)
    assert again.stderr is not None
    assert "gemm: attempt 1 is still measuring: adopted" in again.stderr.readline()
    os.kill(measurement, signal.SIGCONT)
    _, said = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert len(list((Store(campaign_folder).results_folder / "gemm").iterdir())) == 1
    assert measured_twice(campaign_folder) == []
