"""Processes of this machine by session: who lives in it, what it has burnt and read, and how to signal it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec

#: Clock ticks a second, the unit of times in /proc.
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

#: The environment variable by which a server is known to be ours.
TOKEN_VARIABLE = "CAMPAIGN_SERVER_TOKEN"


class ProcessFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One line of /proc/PID/stat, as far as a server's life needs it."""

    pid: int
    """Process id."""
    name: str
    """Short name as the kernel knows it."""
    state: str
    """R, S, D, T (stopped), Z (zombie) and so on."""
    session: int
    """Session id: the pid of the process that began the session."""
    cpu_s: float
    """User and system time so far."""
    start_ticks: int
    """Start time in clock ticks since boot; with the pid and the boot id it names a process for ever."""


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """What a session has done so far; two of them tell whether anything still moves."""

    cpu_s: float = 0.0
    """Processor time of all members."""
    read_bytes: int = 0
    """Bytes read from disk or page cache by all members."""


def boot_id() -> str:
    """Id of this boot of this machine; pids of another boot mean nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def parse_stat(line: str) -> ProcessFacts:
    """Facts from one line of /proc/PID/stat; the name in it may hold spaces and parentheses."""
    head, _, tail = line.rpartition(")")
    pid, _, name = head.partition(" (")
    fields = tail.split()
    return ProcessFacts(
        pid=int(pid),
        name=name,
        state=fields[0],
        session=int(fields[3]),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        start_ticks=int(fields[19]),
    )


def facts(pid: int) -> ProcessFacts | None:
    """Facts of a process, or None where there is none."""
    try:
        return parse_stat(Path(f"/proc/{pid}/stat").read_text())
    except (OSError, ValueError, IndexError):
        return None


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether exactly this process lives (a zombie does not, nor another one with its number)."""
    found = facts(pid)
    return found is not None and found.start_ticks == start_ticks and found.state not in "ZX"


def age_s(start_ticks: int) -> float:
    """Seconds since a process started; independent of changes of the wall clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - start_ticks / TICKS_PER_S


def all_facts() -> list[ProcessFacts]:
    """Facts of every process that this user may see."""
    found = (facts(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [one for one in found if one is not None]


def members(session: int, start_ticks: int, token: str) -> list[ProcessFacts]:
    """The living processes of the session begun by process `session` at `start_ticks`.

    Children of a server rewrite their command line and environment, so the session id is what holds them
    together. None is returned that began before the session, that carries another token, or whose session's
    leader is a later process with the same number.
    """
    leader = facts(session)
    if leader is not None and leader.start_ticks != start_ticks:
        return []
    return [
        one
        for one in all_facts()
        if one.session == session
        and one.state not in "ZX"
        and one.start_ticks >= start_ticks
        and (leader is not None or may_carry(one.pid, token))
    ]


def environment(pid: int) -> dict[str, str]:
    """Environment a process was started with; empty where it is unreadable or overwritten by a new title."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in raw.decode("utf-8", "replace").split("\0"))
    return {name: value for name, separator, value in pairs if separator and name.isidentifier()}


def may_carry(pid: int, token: str) -> bool:
    """Whether a process carries the token, or has overwritten its environment so that nobody can tell."""
    seen = environment(pid)
    return not seen or seen.get(TOKEN_VARIABLE, token if "PATH" not in seen else "") == token


def find_by_token(token: str) -> ProcessFacts | None:
    """The oldest living process started with this token in its environment."""
    found = [one for one in all_facts() if environment(one.pid).get(TOKEN_VARIABLE) == token and one.state not in "ZX"]
    return min(found, key=lambda one: one.start_ticks, default=None)


def activity(processes: list[ProcessFacts]) -> Activity:
    """What these processes have burnt and read so far."""
    return Activity(
        cpu_s=sum(one.cpu_s for one in processes),
        read_bytes=sum(_read_bytes(one.pid) for one in processes),
    )


def _read_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    counters = dict(line.split(": ") for line in lines if ": " in line)
    return int(counters.get("read_bytes", 0)) + int(counters.get("rchar", 0))


def send(processes: list[ProcessFacts], number: signal.Signals) -> None:
    """Signal these processes, each only if it is still the one that was seen."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            descriptor = os.pidfd_open(one.pid)
            try:
                if is_running(one.pid, one.start_ticks):
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
