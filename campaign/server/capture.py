"""Capturing a profile: stop before start, drive requests, stop with patience, and judge by the files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec

from campaign.errors import ServerError
from campaign.server import death, presence, probe, trace_files
from campaign.server.record import ServerRecord
from campaign.server.spec import ServerSpec

#: Stopping exports every rank's trace; with Python stacks on a CPU that has taken over ten minutes.
STOP_TIMEOUT_S = 7200.0
START_TIMEOUT_S = 120.0
#: A stop that ended an open profile is waited for so long before a new one is started.
SETTLE_TIMEOUT_S = 600.0
#: Uncompressed JSON of a rank passes through TMPDIR: so much is wanted there for each rank.
TEMPORARY_BYTES_PER_RANK = 512 * 2**20
#: Compressed traces of this size a rank are wanted in the profile folder.
TRACE_BYTES_PER_RANK = 64 * 2**20
#: Files still incomplete so long after the stop answered will not become complete.
COMPLETE_TIMEOUT_S = 30.0
_POLL_S = 0.5


class CaptureProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a capture is."""

    step: str
    """settling, warming up, starting, driving, exporting or checking."""
    elapsed_s: float
    """Seconds since the capture began."""
    files: int = 0
    """Trace files of this capture there are so far."""
    bytes_written: int = 0
    """Their size so far; it grows while a rank exports."""


def capture_profile(
    record: ServerRecord,
    spec: ServerSpec,
    drive: Callable[[], None],
    on_progress: Callable[[CaptureProgress], None] = lambda _progress: None,
    *,
    warm_up: Callable[[], None] = lambda: None,
) -> tuple[Path, ...]:
    """Profile what `drive` does; returns one complete trace file a rank, in rank order.

    `warm_up` runs before the profiler starts, so that first-time compilation is not in the trace. `drive`
    sends the requests of the window and bounds it (a fixed number of requests and tokens). Each rank's
    file is checked to its end (gzip and JSON), and there must be as many as `record.world_size`; the server's
    status codes are not believed. Raises `ServerError`, naming what was kept and why it is not enough.
    """
    if not record.has_profiler or not record.profile_dir:
        raise ServerError(
            f"The server at {record.url} has no profiler. Start it with server.profile_ready = true, "
            "or (attached) with --profiler-config and the same folder visible here."
        )
    return _Capture(record, spec, on_progress).run(drive, warm_up)


class _Capture:
    """One capture: its folder, and the files that were there before it."""

    def __init__(self, record: ServerRecord, spec: ServerSpec, on_progress: Callable[[CaptureProgress], None]) -> None:
        self._record = record
        self._folder = Path(record.profile_dir)
        self._temporary = Path(spec.env.get("TMPDIR", "")) if spec.env.get("TMPDIR") else None
        self._on_progress = on_progress
        self._began = time.monotonic()
        self._before: set[Path] = set()

    def run(self, drive: Callable[[], None], warm_up: Callable[[], None]) -> tuple[Path, ...]:
        trace_files.check_space(
            self._folder, self._record.world_size * TRACE_BYTES_PER_RANK, "the profiler's traces (server.profile)"
        )
        if self._record.kind == "managed":
            trace_files.check_space(
                self._temporary,
                self._record.world_size * TEMPORARY_BYTES_PER_RANK,
                "uncompressed traces (set TMPDIR in server.env to a larger disk)",
            )
        self._say("settling")
        self._post("/stop_profile", SETTLE_TIMEOUT_S)  # whatever a killed runner left open
        self._say("warming up")
        warm_up()
        self._before = trace_files.traces(self._folder)
        self._say("starting")
        self._post("/start_profile", START_TIMEOUT_S)
        self._say("driving")
        try:
            drive()
        finally:
            self._say("exporting")
            problem = self._stop_with_progress()
        return self._collect(problem)

    def _post(self, path: str, timeout_s: float) -> None:
        try:
            with probe.client(self._record, timeout_s) as http:
                answer = http.post(path)
        except httpx.HTTPError as error:
            raise self._gone(f"{path} got no answer ({type(error).__name__}: {error})") from error
        if answer.status_code == 404:
            raise ServerError(
                f"The server at {self._record.url} has no {path}: it was started without a profiler. "
                "Start it with server.profile_ready = true."
            )

    def _gone(self, what: str) -> ServerError:
        if self._is_dead():
            return death.death_error(self._record)
        return ServerError(
            f"{what} from {self._record.url}. Read {self._record.log_path or 'its log'}, then run again.",
            is_transient=True,
        )

    def _is_dead(self) -> bool:
        return self._record.kind == "managed" and not presence.is_alive(self._record)

    def _stop_with_progress(self) -> ServerError | None:
        """Stop and wait until every rank has exported; the stop itself has no time-out at the server."""
        problems: list[ServerError] = []

        def stop() -> None:
            try:
                self._post("/stop_profile", STOP_TIMEOUT_S)
            except ServerError as error:
                problems.append(error)

        stopping = threading.Thread(target=stop, daemon=True)
        stopping.start()
        while stopping.is_alive():
            stopping.join(_POLL_S)
            self._say("exporting")
            if self._is_dead():
                stopping.join(5.0)
                return death.death_error(self._record)
        return problems[0] if problems else None

    def _collect(self, problem: ServerError | None) -> tuple[Path, ...]:
        self._say("checking")
        give_up_at = time.monotonic() + COMPLETE_TIMEOUT_S
        while True:
            found = sorted(trace_files.traces(self._folder) - self._before)
            faults = {path: trace_files.fault(path) for path in found}
            complete = trace_files.by_rank([path for path in found if faults[path] is None])
            if len(complete) >= self._record.world_size and problem is None:
                return tuple(complete[rank] for rank in sorted(complete))
            if problem is None and self._is_dead():
                problem = death.death_error(self._record)
            if problem is not None or time.monotonic() >= give_up_at:
                raise self._incomplete(complete, {p: f for p, f in faults.items() if f}, problem)
            time.sleep(_POLL_S)

    def _incomplete(
        self, complete: dict[int, Path], faults: dict[Path, str], problem: ServerError | None
    ) -> ServerError:
        kept = ", ".join(path.name for path in complete.values()) or "nothing complete"
        broken = "; ".join(f"{path.name}: {fault}" for path, fault in faults.items())
        why = f" {problem}" if problem else ""
        space = trace_files.space_problem(self._folder)
        return ServerError(
            f"The profile has {len(complete)} of {self._record.world_size} ranks' traces in {self._folder} (kept: "
            f"{kept}{'; broken: ' + broken if broken else ''}).{space}{why} Run the phase again.",
            cause=problem.cause if problem else "partial capture",
            is_transient=not space,
        )

    def _say(self, step: str) -> None:
        files = trace_files.traces(self._folder) - self._before
        self._on_progress(
            CaptureProgress(
                step=step,
                elapsed_s=time.monotonic() - self._began,
                files=len(files),
                bytes_written=sum(trace_files.size_bytes(path) for path in files),
            )
        )
