"""One runner a folder; a dead one is not in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from campaign import lock, schema
from campaign.errors import LockedError
from campaign.lock import Holder

HOLD = """
import pathlib, sys, time
from campaign import lock
with lock.hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_lock__a_second_runner_is_named_the_holder(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        begun = time.monotonic()
        with (
            pytest.raises(LockedError, match=f"host {os.uname().nodename}, pid {child.pid}, started 20"),
            lock.hold(tmp_path),
        ):
            pass
        assert time.monotonic() - begun < 5
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    with lock.hold(tmp_path):  # the holder is dead: its lock is not in the way
        assert lock.read_holder(tmp_path) is not None
    assert lock.read_holder(tmp_path) is None


def test_lock__another_host_in_the_folder_is_refused(tmp_path: Path) -> None:
    stranger = Holder(host="elsewhere", pid=1, started_at="2026-01-01T00:00:00+00:00")
    (tmp_path / "lock.json").write_bytes(schema.encode(stranger))
    with pytest.raises(LockedError, match="host elsewhere"), lock.hold(tmp_path):
        pass
