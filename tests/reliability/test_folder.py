"""The folder itself: no room, no writing, no locks, another host, another runner, a clock that steps back."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from campaign import schema
from campaign.launch import local
from campaign.lock import Holder
from campaign.runner.survey import survey
from campaign.state import Process, phase
from campaign.store import Store
from tests.reliability import faults
from tests.reliability.drill import Runners, damage, temporaries, wait_until
from tests.reliability.faults import Control


def test_folder__read_only_is_refused_and_named(runners: Runners, campaign_folder: Path, tmp_path: Path) -> None:
    control = Control(tmp_path / "control", campaign_folder, mode=faults.ERROR_FROM, at=1, error=errno.EROFS)
    ended = runners.resume(campaign_folder, control)
    assert ended.code == 3, ended.output
    assert f"{campaign_folder / 'state'}: cannot be written: Read-only file system" in ended.output
    assert survey(campaign_folder).phases == []


def test_folder__becomes_read_only_and_is_named(runners: Runners, campaign_folder: Path, tmp_path: Path) -> None:
    """As a file system does after an error of its disk."""
    control = Control(
        tmp_path / "control", campaign_folder, mode=faults.ERROR_FROM, at=60, error=errno.EROFS, roles=faults.BOTH
    )
    ended = runners.resume(campaign_folder, control, until="environment")
    assert ended.code == 3, ended.output
    assert "Read-only file system" in ended.output
    assert "Traceback" not in ended.output
    assert damage(campaign_folder) == []
    again = runners.resume(campaign_folder, until="environment")
    assert (again.code, temporaries(campaign_folder)) == (0, []), again.output


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, -1], ids=str)
def test_folder__without_working_locks_is_refused(
    runners: Runners, campaign_folder: Path, tmp_path: Path, error: int
) -> None:
    control = Control(tmp_path / "control", campaign_folder, flock_error=error)
    ended = runners.resume(campaign_folder, control)
    assert ended.code == 3, ended.output
    assert "this file system gives no working lock" in ended.output
    assert not Store(campaign_folder).state_path.exists()


def test_folder__another_host_is_refused_and_a_dead_holder_is_not_in_the_way(
    runners: Runners, campaign_folder: Path
) -> None:
    lock_path = campaign_folder / "state" / "lock.json"
    lock_path.parent.mkdir()
    lock_path.write_bytes(schema.encode(Holder(host="elsewhere", pid=1, started_at="2026-01-01T00:00:00+00:00")))
    ended = runners.resume(campaign_folder, until="environment")
    assert (ended.code, "in use by host elsewhere (pid 1" in ended.output) == (4, True)
    mine = Holder(host=os.uname().nodename, pid=os.getpid(), started_at="2026-01-01T00:00:00+00:00", identity="old:1")
    lock_path.write_bytes(schema.encode(mine))  # a dead holder whose pid is somebody else's now
    assert survey(campaign_folder).runner == ""
    assert runners.resume(campaign_folder, until="environment").code == 0
    assert not lock_path.exists()


def test_folder__clock_that_steps_back(runners: Runners, campaign_folder: Path, tmp_path: Path) -> None:
    """From the middle of the first phase on it is an hour earlier."""
    control = Control(tmp_path / "control", campaign_folder, roles=faults.BOTH, clock_at=60)
    ended = runners.resume(campaign_folder, control, until="environment")
    assert ended.code == 0, ended.output
    store = Store(campaign_folder)
    state = store.load_state()
    assert state is not None
    assert store.recovered == []
    assert 0 <= phase(state, "environment").duration_s < 30
    times = [json.loads(line)["at"] for line in store.events.path.read_bytes().splitlines()]
    assert times != sorted(times)  # it did step back
    again = runners.resume(campaign_folder, None, until="environment")
    assert (again.code, again.output) == (0, "")
    assert (damage(campaign_folder), temporaries(campaign_folder)) == ([], [])


def test_process__is_the_same_whatever_the_clock_says(tmp_path: Path) -> None:
    me = local.describe(os.getpid())
    shifted = Process(pid=me.pid, started_at_s=me.started_at_s + 3600, identity=me.identity)
    another = Process(pid=me.pid, started_at_s=me.started_at_s, identity=me.identity + "1")
    assert local.is_alive(shifted)
    assert not local.is_alive(another)


def test_second_runner__is_refused_at_once_and_named_the_holder(
    runners: Runners, library: Path, tmp_path: Path, campaign_folder: Path
) -> None:
    with Runners(library, tmp_path) as others:
        run = runners.begin(campaign_folder, until="environment")
        wait_until((campaign_folder / "state" / "lock.json").exists)
        second = others.resume(campaign_folder)
    first = run.wait()
    assert first.code == 0, first.output
    assert second.code == 4, second.output
    assert f"host {os.uname().nodename}, pid {run.pid}, started 20" in second.output


def test_kill__between_start_and_saved_pid_is_adopted(runners: Runners, campaign_folder: Path, tmp_path: Path) -> None:
    """The runner dies when it is about to write down the pid of the measurement that it has just started."""
    store = Store(campaign_folder)
    trace = tmp_path / "trace"
    shutil.copytree(campaign_folder, tmp_path / "counted")
    counted = (tmp_path / "counted").resolve()
    runners.resume(counted, Control(tmp_path / "c1", counted, trace=trace), until="environment")
    calls = trace.read_text().splitlines()
    config_written = next(
        n for n, call in enumerate(calls, 1) if call.startswith("rename") and "/1/config.json" in call
    )
    pid_saved = next(n for n in range(config_written + 1, len(calls) + 1) if "events.jsonl" in calls[n - 1])
    control = Control(tmp_path / "c2", campaign_folder, mode=faults.KILL, at=pid_saved)
    assert runners.resume(campaign_folder, control, until="environment").code == -9
    state = store.load_state()
    assert state is not None
    entry = phase(state, "environment")
    assert (entry.status, entry.process) == ("running", None)
    again = runners.resume(campaign_folder, None, until="environment")
    assert again.code == 0, again.output
    assert [path.name for path in (store.results_folder / "environment").iterdir()] == ["1"]
