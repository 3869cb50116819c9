"""Disks that are really full, really out of inodes, really read-only: mounted, not imitated.

Where this machine permits no mounts each drill says so; the same faults are injected in test_disk.py and
test_folder.py on every machine. What is injected only: locks that do not work (no file system here breaks flock), a
clock that steps back (it belongs to the whole machine), and a disk that turns read-only under a runner (the kernel
refuses that for as long as a file is open for writing, and the lock is).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from campaign.runner.survey import survey
from campaign.store import Store
from tests.reliability import mounts
from tests.reliability.drill import Runners, damage, measured_twice, outcome, temporaries

PHASE = "environment"


class Mounting(NamedTuple):
    """A place where file systems can be mounted."""

    obstacle: str
    """Why that is not possible here; empty where it is."""
    runners: Runners
    """Runners that see what this process mounts."""

    def is_possible(self) -> bool:
        """Says aloud where it is not."""
        if self.obstacle:
            print(f"not possible here: {self.obstacle}; injected only")
        return not self.obstacle


@pytest.fixture(scope="module")
def mounting(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounting]:
    obstacle = mounts.obstacle(tmp_path_factory.mktemp("tried"))
    with Runners(library, tmp_path_factory.mktemp("mounted")) as made:
        yield Mounting(obstacle, made)


def state_outcome(folder: Path) -> object:
    state = Store(folder).load_state()
    assert state is not None
    return outcome(state)


def expected(runners: Runners, folder: Path, scratch: Path) -> object:
    """What an uninterrupted run of a copy comes to."""
    whole = Path(shutil.copytree(folder, scratch)).resolve()
    ended = runners.resume(whole, until=PHASE)
    assert ended.code == 0, ended.output
    return state_outcome(whole)


def holds_after(runners: Runners, folder: Path, wanted: object) -> None:
    """The next resume ends as if nothing had been."""
    assert damage(folder) == []
    survey(folder)
    again = runners.resume(folder, until=PHASE)
    assert again.code == 0, again.output
    assert state_outcome(folder) == wanted, again.output
    assert (damage(folder), measured_twice(folder), temporaries(folder)) == ([], [], [])


def runs_full(runners: Runners, unbegun: Path, disk: Path, free: dict[str, int], wanted: object) -> bool:
    """A run with so much room, then one with plenty; says whether the first one met its end."""
    with mounts.mounted(disk, "-t", "tmpfs", "-o", "size=16m,nr_inodes=4000", "tmpfs"):
        folder = Path(shutil.copytree(unbegun, disk / "campaign")).resolve()
        filler = mounts.fill_up(disk, free["pages"]) if "pages" in free else None
        if "inodes" in free:
            mounts.mount("-o", f"remount,nr_inodes={mounts.inodes_used(disk) + free['inodes']}", str(disk))
        ended = runners.resume(folder, until=PHASE)
        assert "Traceback" not in ended.output, ended.output
        is_named = "No space left on device" in ended.output and str(folder) in ended.output
        assert ended.code == 0 or is_named, ended.output
        if filler is not None:
            filler.unlink()
        mounts.mount("-o", "remount,nr_inodes=4000", str(disk))
        holds_after(runners, folder, wanted)
    return ended.code != 0


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=[pytest.mark.proof, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("what", ["pages", "inodes"])
def test_real_disk__runs_full_anywhere(mounting: Mounting, unbegun: Path, tmp_path: Path, what: str, step: int) -> None:
    """With 0, 1, 2 … free pages (or inodes) until they suffice: every write that needs room meets a full disk."""
    if not mounting.is_possible():
        return
    wanted = expected(mounting.runners, unbegun, tmp_path / "whole")
    free = 0
    while runs_full(mounting.runners, unbegun, tmp_path / "disk", {what: free}, wanted):
        free += step
    print(f"a real full disk: {free // step} runs with 0, {step} … {free - step} free {what}; all holds")
    assert free >= 2 * step


def test_real_disk__mounted_read_only_is_refused_named_and_status_answers(
    mounting: Mounting, campaign_folder: Path
) -> None:
    if not mounting.is_possible():
        return
    assert mounting.runners.resume(campaign_folder, until=PHASE).code == 0
    before = state_outcome(campaign_folder)
    with mounts.mounted(campaign_folder, "--bind", str(campaign_folder)):
        mounts.mount("-o", "remount,bind,ro", str(campaign_folder))
        ended = mounting.runners.resume(campaign_folder)
        assert ended.code == 3, ended.output
        assert f"{campaign_folder / 'state'}: cannot be written: Read-only file system" in ended.output
        assert "Traceback" not in ended.output
        assert survey(campaign_folder).phases[0]["status"] == "done"
    assert state_outcome(campaign_folder) == before
    assert mounting.runners.resume(campaign_folder, until="gemm").code == 0


@pytest.mark.parametrize("name", ["state", "state/campaign.json", "state/events.jsonl", "doc", "state/results"])
def test_real_disk__immutable_file_or_folder_is_named(
    mounting: Mounting, campaign_folder: Path, tmp_path: Path, name: str
) -> None:
    path = campaign_folder / name
    if path.suffix:
        assert mounting.runners.resume(campaign_folder, until=PHASE).code == 0
        config = campaign_folder / "campaign.toml"
        config.write_text(config.read_text().replace("batch = [1, 2]", "batch = [1, 3]"))
    else:
        path.mkdir(parents=True)
    if not make_immutable(path):
        return
    try:
        ended = mounting.runners.resume(campaign_folder, until=PHASE)
    finally:
        subprocess.run(["chattr", "-i", str(path)], check=True)
    assert ended.code == 3, ended.output
    assert "Operation not permitted" in ended.output
    assert "(disk of " in ended.output
    assert "Traceback" not in ended.output
    holds_after(mounting.runners, campaign_folder, expected(mounting.runners, campaign_folder, tmp_path / "copy"))


def make_immutable(path: Path) -> bool:
    """Forbid every change; says aloud where the file system or the user cannot."""
    try:
        subprocess.run(["chattr", "+i", str(path)], capture_output=True, text=True, check=True)
    except FileNotFoundError:
        print("not possible here: no chattr; injected only")
        return False
    except subprocess.CalledProcessError as error:
        print(f"not possible here: {error.stderr.strip()}; injected only")
        return False
    return True
