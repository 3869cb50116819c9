"""What is known of a server that was started or attached: enough to find it again after the runner's death."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign.server.spec import ServerKind

ServerState = Literal["starting", "loading", "ready", "stopping", "stopped", "failed"]


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server's entry in the state; JSON."""

    state: ServerState
    """Where its life is."""
    kind: ServerKind = "managed"
    """Who may stop it: an attached server is never signalled."""
    url: str
    """Base URL without /v1."""
    host: str = "127.0.0.1"
    """Address it listens on."""
    port: int = 0
    """Port it listens on."""
    token: str = ""
    """Unique word in its environment and served name."""
    pid: int | None = None
    """First process; None while only the intent is saved, and for attached servers."""
    start_ticks: int | None = None
    """Its start time in clock ticks since boot."""
    boot_id: str = ""
    """Boot of the machine in which it was started."""
    session: int | None = None
    """Session that holds all its processes."""
    spec_hash: str = ""
    """What it was started as, but for the profiler."""
    argv_hash: str = ""
    """Hash of the exact words it was started with."""
    model: str = ""
    """Model folder or hub id."""
    served_name: str = ""
    """Name to give in requests."""
    stop_command: tuple[str, ...] = ()
    """Words that stop a launcher's server."""
    world_size: int = 1
    """Ranks."""
    log_path: str = ""
    """Its output."""
    log_offset: int = 0
    """Where in that file its output begins."""
    started_at: float = 0.0
    """Start, seconds since 1970."""
    load_phase: str = ""
    """Load phase last seen."""
    progress: float | None = None
    """How far that load phase is, 0 to 1; None where the engine does not say."""
    phase_s: dict[str, float] = {}
    """Seconds each finished load phase took; teaches the ETA of later loads."""
    ready_s: float | None = None
    """Seconds from start to ready."""
    has_profiler: bool = False
    """Whether the profiler is configured."""
    profile_dir: str = ""
    """Where it writes traces."""
    api_key_env: str = ""
    """Name of the environment variable that holds the API key."""
    gpu_baseline_bytes: dict[str, int] = {}
    """Memory in use on each GPU before the start."""
    oom_kills: int | None = None
    """Processes that the kernel had killed for memory before the start."""
    failure: str = ""
    """Why it failed."""


def replace(record: ServerRecord, **changes: object) -> ServerRecord:
    """The record with some fields changed."""
    return msgspec.structs.replace(record, **changes)
