"""Sessions of real processes: whose they are, and that nobody else is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.server import ServerRecord, ServerSpec, find, launch, process, stop
from campaign.server import port as ports
from campaign.server.presence import is_alive, living_members
from campaign.server.record import replace

from .conftest import free_port

#: A parent that ignores TERM, with a child that outlives it.
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print('up', flush=True); time.sleep(600)\n"
)


@pytest.fixture()
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerRecord]:
    monkeypatch.setattr("campaign.server.stopping.TERM_WAIT_S", (0.5, 0.5))
    spec = ServerSpec(argv=(sys.executable, "-c", STUBBORN), port=free_port(), cwd=str(tmp_path))
    record = launch(spec, tmp_path / "log", lambda _record: None)
    end = time.monotonic() + 20
    while b"up" not in (tmp_path / "log").read_bytes():
        assert time.monotonic() < end
        time.sleep(0.05)
    yield record
    process.send(living_members(record), signal.SIGKILL)


def test_stop__kills_what_ignores_term(stubborn: ServerRecord) -> None:
    pids = [one.pid for one in living_members(stubborn)]
    assert stop(stubborn).state == "stopped"
    assert [pid for pid in pids if (seen := process.facts(pid)) and seen.state != "Z"] == []
    assert ports.is_free(stubborn.host, stubborn.port)


def test_find__orphans_of_a_dead_parent(stubborn: ServerRecord) -> None:
    assert stubborn.pid is not None
    os.kill(stubborn.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while is_alive(stubborn):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert find(stubborn)[0] == "orphans"
    stop(stubborn)
    assert find(stubborn)[0] == "gone"


def test_find__same_pid_of_another_start_or_boot_is_not_ours(stubborn: ServerRecord) -> None:
    assert stubborn.start_ticks is not None
    for other in (replace(stubborn, start_ticks=stubborn.start_ticks - 1), replace(stubborn, boot_id="another boot")):
        assert not is_alive(other)
        assert living_members(other) == []
        assert find(other)[0] == "gone"
        stop(other)
    assert is_alive(stubborn)
    assert len(living_members(stubborn)) == 2


def test_members__of_a_session_with_another_token_are_not_ours(tmp_path: Path) -> None:
    """A session whose leader is gone: a member that carries another token is let alone."""
    script = "sleep 60 & echo $!"
    done = subprocess.Popen(
        ["/bin/sh", "-c", script],
        stdout=subprocess.PIPE,
        env=os.environ | {process.TOKEN_VARIABLE: "theirs"},
        start_new_session=True,
    )
    leader = process.facts(done.pid)
    assert leader is not None
    assert done.stdout is not None
    child = int(done.stdout.readline())
    done.wait()
    try:
        assert process.members(done.pid, leader.start_ticks, "ours") == []
        assert [one.pid for one in process.members(done.pid, leader.start_ticks, "theirs")] == [child]
    finally:
        os.kill(child, signal.SIGKILL)
        done.stdout.close()


def test_launch__outlives_its_runner_and_has_no_input(tmp_path: Path) -> None:
    """Own session, output to a file, stdin null: what a server needs to survive its runner."""
    code = "import os, sys; print(os.getsid(0) == os.getpid(), sys.stdin.read() == '', os.isatty(1))"
    spec = ServerSpec(argv=(sys.executable, "-c", code), port=free_port(), cwd=str(tmp_path))
    record = launch(spec, tmp_path / "log", lambda _record: None)
    end = time.monotonic() + 20
    while is_alive(record):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert (tmp_path / "log").read_text() == "True True False\n"


def test_stat__names_with_spaces_and_parentheses() -> None:
    line = "42 (a) b (c)) S 1 42 41 0 -1 0 0 0 0 0 150 50 0 0 20 0 1 0 12345 0 0"
    found = process.parse_stat(line)
    assert (found.pid, found.name, found.state, found.session, found.start_ticks) == (42, "a) b (c)", "S", 41, 12345)
    assert found.cpu_s == 200 / process.TICKS_PER_S
