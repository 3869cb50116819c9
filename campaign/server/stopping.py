"""Stopping a server, and making sure that nothing of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from campaign import files
from campaign.errors import ServerError
from campaign.server import memory, port, presence, probe, process, start
from campaign.server.record import ServerRecord, replace
from campaign.server.spec import ServerSpec

#: Patience after the first and the second TERM (vLLM swallows the first while it loads), and after KILL.
TERM_WAIT_S = (15.0, 20.0)
KILL_WAIT_S = 30.0
PORT_WAIT_S = 15.0
MEMORY_WAIT_S = 60.0
#: So much above the baseline is driver noise.
MEMORY_SLACK_BYTES = 512 * 2**20
_STOP_COMMAND_TIMEOUT_S = 600.0


def stop(
    record: ServerRecord,
    spec: ServerSpec | None = None,
    *,
    save: Callable[[ServerRecord], None] = lambda _record: None,
) -> ServerRecord:
    """Stop a server that we started and verify: session empty, port free, GPU memory at its baseline.

    The profiler is stopped first, then TERM, TERM, KILL. An attached server is let go of and never touched.
    Raises `ServerError` where something is left, and says what.
    """
    if record.kind == "attached":
        return replace(record, state="stopped")
    record = start.recover(record)
    record = replace(record, state="stopping")
    save(record)
    _stop_profiler(record)
    if record.kind == "command":
        _run_stop_command(record, spec.env if spec else {})
    _end_session(record)
    _check_port(record)
    _check_memory(record)
    files.remove(start.pid_path(record))
    record = replace(record, state="stopped", pid=None, start_ticks=None, session=None, token="")
    save(record)
    return record


def _stop_profiler(record: ServerRecord) -> None:
    """Let an open profile end, so that its export does not keep the server; a hung server is not waited for."""
    if not (record.has_profiler and presence.is_alive(record) and port.accepts(record.host, record.port)):
        return
    with contextlib.suppress(httpx.HTTPError), probe.client(record, 20.0) as http:
        http.post("/stop_profile")


def _run_stop_command(record: ServerRecord, env: dict[str, str]) -> None:
    words = record.stop_command
    if not words:
        return
    try:
        with Path(record.log_path).open("ab") as log:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | env,
                timeout=_STOP_COMMAND_TIMEOUT_S,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"server.stop_command failed: {error}. Stop the server by hand, then run again.") from error
    if done.returncode != 0:
        raise ServerError(
            f"server.stop_command ended with {done.returncode} ({' '.join(words)}). See the end of {record.log_path}."
        )


def _end_session(record: ServerRecord) -> None:
    for patience_s in TERM_WAIT_S:
        leaders = [one for one in presence.living_members(record) if one.pid == record.pid]
        if not leaders:
            break
        process.send(leaders, signal.SIGTERM)
        if _comes_true(lambda: not presence.living_members(record), patience_s):
            return
    give_up_at = time.monotonic() + KILL_WAIT_S
    while members := presence.living_members(record):  # a dying process may have begun another
        process.send(members, signal.SIGKILL)
        if time.monotonic() > give_up_at:
            left = ", ".join(f"{one.pid} ({one.name}, state {one.state})" for one in members)
            raise ServerError(
                f"Processes of the server survive KILL: {left}. State D waits for a driver or disk: "
                "see dmesg, then run again."
            )
        time.sleep(0.1)


def _check_port(record: ServerRecord) -> None:
    if record.kind == "managed" and not _comes_true(lambda: port.is_free(record.host, record.port), PORT_WAIT_S):
        raise ServerError(
            f"The server is gone but port {record.port} is held by {port.holder(record.port)}. "
            "Stop that, or give server.url another port."
        )
    if record.kind == "command" and not _comes_true(lambda: not port.accepts(record.host, record.port), PORT_WAIT_S):
        raise ServerError(
            f"{record.url} still answers after server.stop_command. Correct the command, or stop it by hand."
        )


def _check_memory(record: ServerRecord) -> None:
    if not _comes_true(lambda: not _above_baseline(record), MEMORY_WAIT_S):
        over = ", ".join(f"{name}: {size / 2**20:.0f} MiB" for name, size in _above_baseline(record).items())
        raise ServerError(
            f"The server is gone but GPU memory is still above what was in use before it ({over}). "
            "See nvidia-smi for who holds it.",
            is_transient=True,
        )


def _above_baseline(record: ServerRecord) -> dict[str, int]:
    if not record.gpu_baseline_bytes:
        return {}
    used = memory.gpu_used_bytes()
    return {
        name: used[name] - before
        for name, before in record.gpu_baseline_bytes.items()
        if used.get(name, 0) > before + MEMORY_SLACK_BYTES
    }


def _comes_true(condition: Callable[[], bool], timeout_s: float) -> bool:
    give_up_at = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(0.1)
    return True
