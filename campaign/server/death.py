"""Why a server died: exit code, root cause in its log, the kernel's out-of-memory killer."""

from __future__ import annotations

import time
from pathlib import Path

from campaign.errors import ServerError
from campaign.server import memory, presence, start
from campaign.server.log import LogReader, RootCause
from campaign.server.record import ServerRecord

#: After a fatal line the engine's other processes still write; so long is waited for them to end.
FATAL_GRACE_S = 10.0


def ended_well(record: ServerRecord) -> bool:
    """Whether a launcher's command ended with exit code 0, or was started by a runner before this one."""
    return start.exit_code(record) in (0, None)


def fatal_error(record: ServerRecord) -> ServerError:
    """The error of a server whose log shows a fatal line; waits a moment for the rest of its last words."""
    end = time.monotonic() + FATAL_GRACE_S
    while presence.is_alive(record) and time.monotonic() < end:
        time.sleep(0.2)
    return death_error(record)


def death_error(record: ServerRecord) -> ServerError:
    """The error of a server that died: what it was, why, and what to try."""
    log = LogReader(Path(record.log_path), record.log_offset)
    log.finish()
    cause = log.root_cause()
    code = start.exit_code(record)
    ending = "" if code is None else f" (exit code {code})" if code >= 0 else f" (signal {-code})"
    what = f"The server died in load phase {log.load_phase}{ending}"
    if log.load_phase == "answering":
        what = f"The server died after it was up{ending}"
    killed = _oom_kills_since(record)
    if killed and (cause is None or not cause.is_known):
        return ServerError(
            f"{what}: the kernel killed {killed} process(es) for memory. Give it more memory, or fewer workers.",
            cause="out of memory",
        )
    if cause is None:
        last = f" Last line: {log.last_line!r}." if log.last_line else " It wrote nothing."
        return ServerError(
            f"{what} without saying why.{last} Nobody asked it to stop: look for a killed worker in "
            f"{record.log_path}, then run again.",
            cause="died without a cause in its log",
            is_transient=code is None or code <= 0,  # a positive code is its own decision, and will be the same again
        )
    return ServerError(
        f"{what}: {cause.text}. {advice(cause, record)}", cause=cause.text, is_transient=cause.is_transient
    )


def advice(cause: RootCause, record: ServerRecord) -> str:
    """What to try: the known cause's advice, and where to read more."""
    return " ".join(part for part in (cause.advice, f"Whole log: {record.log_path}.") if part)


def _oom_kills_since(record: ServerRecord) -> int:
    now = memory.oom_kills()
    return max(0, now - record.oom_kills) if now is not None and record.oom_kills is not None else 0
