"""A measurement's process: started, found again, watched, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from campaign import files
from campaign.errors import EXIT_USAGE
from campaign.lock import identity_of
from campaign.measurement import points_path, read_points
from campaign.state import Process

POLL_S = 0.2
#: A measurement that was asked to end gets this long to write what it has.
GRACE_S = 10.0


#: Stands for a measurement that is known to have ended.
NO_PROCESS = Process(pid=0, started_at_s=0.0)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a measurement's process ended."""

    kind: Literal["result", "failed", "interrupted"]
    reason: str = ""
    is_final: bool = False
    """Another attempt would fail in the same way."""


class Attempt:
    """One attempt's process and folder."""

    def __init__(self, folder: Path, process: Process, child: subprocess.Popen[bytes] | None = None) -> None:
        self.folder = folder
        self.process = process
        self._child = child

    @property
    def log_path(self) -> Path:
        return self.folder / "log.txt"

    @property
    def result_path(self) -> Path:
        return self.folder / "result.json"

    def is_alive(self) -> bool:
        """Whether this very process (not another of the same pid) still runs."""
        if self._child is not None:
            return self._child.poll() is None
        return is_alive(self.process)

    def exit_code(self) -> int | None:
        """The exit code, where this runner started the process itself."""
        return self._child.poll() if self._child is not None else None

    def points_done(self) -> int:
        """How many distinct points are on disk."""
        return self.progress()[0]

    def progress(self) -> tuple[int, float]:
        """How many distinct points are on disk, and how long they took to measure, in seconds."""
        took_s = {point.key: point.duration_s for point in read_points(points_path(self.result_path))}
        return len(took_s), sum(took_s.values())

    def end(self) -> None:
        """End the process group: TERM, then KILL after a grace."""
        for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
            if not self.is_alive():
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            deadline = time.monotonic() + wait_s
            while self.is_alive() and time.monotonic() < deadline:
                time.sleep(0.05)

    def last_words(self) -> str:
        """The last line of the log that explains a failure."""
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except OSError:
            return "no log was written"
        lines = [line.strip() for line in lines if line.strip()]
        telling = [line for line in lines if line.startswith("error:") or "Error" in line]
        return (telling or lines or ["nothing was logged"])[-1][:500]


def is_alive(process: Process) -> bool:
    """Whether the process of this pid and start time still runs (a zombie does not)."""
    if process == NO_PROCESS:
        return False
    if process.identity:
        return identity_of(process.pid) == process.identity
    import psutil

    try:
        found = psutil.Process(process.pid)
        return abs(found.create_time() - process.started_at_s) < 0.05 and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def describe(pid: int) -> Process:
    """A running process by what names it for ever; raises `psutil.NoSuchProcess` where it is gone."""
    import psutil

    return Process(pid=pid, started_at_s=psutil.Process(pid).create_time(), identity=identity_of(pid))


def start(folder: Path, kind: str, attempt: int, campaign_folder: Path) -> Attempt:
    """Start `python -m campaign.measure.KIND` in a process group of its own, its output in the attempt's log."""
    relative = folder.relative_to(campaign_folder)
    command = [sys.executable, "-m", f"campaign.measure.{kind}", "--config", str(relative / "config.json")]
    command += ["--out", str(relative / "result.json")]
    environment = {**os.environ, "CAMPAIGN_ATTEMPT": str(attempt), "PYTHONUNBUFFERED": "1"}
    package_root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH", "")]))
    with files.open_log(folder / "log.txt") as log:
        child = subprocess.Popen(
            command, cwd=campaign_folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            start_new_session=True,
        )  # fmt: skip
    return Attempt(folder, describe(child.pid), child)


def watch(
    attempt: Attempt,
    *,
    on_points: Callable[[int], None],
    should_stop: Callable[[], bool],
    complaint: Callable[[], str | None],
) -> Outcome:
    """Wait until the attempt ends.

    `complaint` is asked now and then for a reason to end it early (the server died); `should_stop` ends it cleanly.
    """
    shown = -1
    while attempt.is_alive():
        if should_stop():
            attempt.end()
            return Outcome(kind="interrupted", reason="stopped by a person")
        reason = complaint()
        if reason:
            attempt.end()
            return Outcome(kind="failed", reason=reason)
        done = attempt.points_done()
        if done != shown:
            on_points(done)
            shown = done
        time.sleep(POLL_S)
    on_points(attempt.points_done())
    if attempt.result_path.exists():
        return Outcome(kind="result")
    code = attempt.exit_code()
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return Outcome(kind="failed", reason=f"ended by {name}; last line of its log: {attempt.last_words()}")
    return Outcome(kind="failed", reason=attempt.last_words(), is_final=code == EXIT_USAGE)


def find_again(folder: Path, process: Process | None, campaign_folder: Path) -> Attempt | None:
    """The live process of an attempt that an earlier runner started, by its saved pid or by its command line."""
    if process is not None and is_alive(process):
        return Attempt(folder, process)
    return find(folder, campaign_folder)


def find(folder: Path, campaign_folder: Path) -> Attempt | None:
    """The live process of an attempt whose pid was never saved (the runner died at that very moment), or None."""
    import psutil

    out = str(folder.relative_to(campaign_folder) / "result.json")
    for found in psutil.process_iter(["pid", "cmdline"]):
        if out not in (found.info["cmdline"] or ()):
            continue
        with contextlib.suppress(psutil.Error):
            if Path(found.cwd()) == campaign_folder and found.status() != psutil.STATUS_ZOMBIE:
                return Attempt(folder, describe(found.info["pid"]))
    return None
