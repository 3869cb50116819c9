"""Whether a recorded server is still there: loading, ready, gone, its orphans, or another one in its place."""

from __future__ import annotations

import time
from typing import Literal

from campaign.errors import ServerError
from campaign.server import port, probe, process, start
from campaign.server.record import ServerRecord, replace
from campaign.server.spec import ServerSpec

Presence = Literal["loading", "ready", "gone", "orphans", "foreign"]


def find(record: ServerRecord) -> tuple[Presence, ServerRecord]:
    """What became of a recorded server, and the record with its pid filled in where that was never saved.

    loading: its process lives and nobody answers yet; ready: it answers under its own name; gone: nothing is
    left; orphans: its first process is gone but members of its session live (they hold GPUs); foreign: another
    server answers at its URL.
    """
    record = start.recover(record)
    is_ours = is_alive(record)
    if not is_ours and record.kind == "managed":
        return ("orphans" if living_members(record) else "gone"), record
    if not port.accepts(record.host, record.port):
        if record.kind == "command" and not is_ours:
            return ("orphans" if living_members(record) else "gone"), record
        return ("loading" if is_ours else "gone"), record
    models = probe.served_models(record)
    if models is None:  # a tunnel or proxy accepts connections before its server is up
        return "loading", record
    if record.served_name and record.served_name not in models:
        return "foreign", record
    return "ready", replace(record, served_name=record.served_name or (models[0] if models else ""))


def is_alive(record: ServerRecord) -> bool:
    """Whether the recorded first process lives (same pid, start time and boot)."""
    if record.pid is None or record.start_ticks is None or record.boot_id != process.boot_id():
        return False
    start.exit_code(record)  # reaps it if it is our child and dead
    return process.is_running(record.pid, record.start_ticks)


def living_members(record: ServerRecord) -> list[process.ProcessFacts]:
    """Every living process of the server's session; none for servers that we did not start."""
    if record.session is None or record.start_ticks is None or record.boot_id != process.boot_id():
        return []
    return process.members(record.session, record.start_ticks, record.token)


def age_s(record: ServerRecord) -> float:
    """Seconds since the server's start, whoever waits; not moved by changes of the wall clock where it has a pid."""
    if record.start_ticks is not None and record.boot_id == process.boot_id():
        return process.age_s(record.start_ticks)
    return max(0.0, time.time() - record.started_at)


def satisfies(record: ServerRecord, need: ServerSpec) -> bool:
    """Whether a recorded server is what a phase needs: the same but for a profiler that is not asked for."""
    if record.spec_hash != need.spec_hash or record.url != need.base_url:
        return False
    return need.profile_dir is None or (record.has_profiler and record.profile_dir == need.profile_dir)


def adopt(record: ServerRecord, spec: ServerSpec) -> ServerRecord | None:
    """Take over a recorded server that is loading or ready and satisfies `spec`; None where there is none.

    Raises `ServerError`, naming it, where another server answers at that URL.
    """
    presence, record = find(record)
    if presence == "foreign":
        raise foreign_error(record)
    if presence not in ("loading", "ready") or not satisfies(record, spec):
        return None
    return replace(record, state="loading" if presence == "loading" else record.state)


def foreign_error(record: ServerRecord) -> ServerError:
    """The refusal of a server that is not the one expected, by its name."""
    models = probe.served_models(record)
    name = ", ".join(models) if models else "something that is no OpenAI server"
    return ServerError(
        f"{record.url} answers as {name}, not as {record.served_name or 'the recorded server'}; held by "
        f"{port.holder(record.port)}. Give server.url another port, or stop that server.",
        cause="a different server on that port",
    )
