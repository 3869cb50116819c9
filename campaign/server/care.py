"""Taking care of a server for a phase: adopt what runs, else start it, wait, and try again where that can help."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from campaign.errors import InterruptedRun, ServerError
from campaign.server import presence, start
from campaign.server.loads import PastLoad
from campaign.server.log import LoadProgress
from campaign.server.record import ServerRecord, replace
from campaign.server.spec import ServerSpec
from campaign.server.stopping import stop
from campaign.server.wait import wait_ready

#: Pauses before the second and third attempt of a load that failed for a passing reason.
BACK_OFF_S = (15.0, 60.0)


def ensure_ready(
    record: ServerRecord | None,
    spec: ServerSpec,
    *,
    log_path: Path,
    save: Callable[[ServerRecord], None],
    on_progress: Callable[[LoadProgress], None] = lambda _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    earlier: Sequence[PastLoad] = (),
    back_off_s: Sequence[float] = BACK_OFF_S,
    should_wait: bool = True,
) -> ServerRecord:
    """A ready server that satisfies `spec`: the recorded one if it still loads or runs, else a new one.

    A recorded server of ours that does not satisfy `spec` is stopped first; orphans of a dead one are ended.
    A load that fails is cleaned up; one that failed for a passing reason is tried again after a pause. Every
    change is given to `save`. With `should_wait` false it returns what loads.
    Raises `ServerError` when no attempt is left, `InterruptedRun` where `should_stop`.
    """
    attempt = 0
    while True:
        record = _current(record, spec, save) or start.launch(spec, log_path, save)
        if not should_wait:
            return record
        try:
            record = wait_ready(record, spec, _saving(record, save, on_progress), should_stop, earlier=earlier)
        except ServerError as error:
            save(replace(_cleaned_up(record, spec, error), state="failed", failure=str(error)))
            if not error.is_transient or attempt >= len(back_off_s):
                raise
            _pause(back_off_s[attempt], should_stop)
            attempt, record = attempt + 1, None
            continue
        save(record)
        return record


def _current(
    record: ServerRecord | None, spec: ServerSpec, save: Callable[[ServerRecord], None]
) -> ServerRecord | None:
    if record is None or (record.kind == "attached" and spec.kind != "attached"):
        return None
    adopted = presence.adopt(record, spec) if presence.satisfies(record, spec) else None
    if adopted is None and record.kind != "attached" and record.state != "stopped":
        stop(record, spec if spec.kind == record.kind else None, save=save)
    if adopted is not None:
        save(adopted)
    return adopted


def _cleaned_up(record: ServerRecord, spec: ServerSpec, error: ServerError) -> ServerRecord:
    """The record after its failed server was ended; raises both problems where that fails too."""
    try:
        return stop(record, spec)
    except ServerError as left:
        raise ServerError(f"{error} And cleaning up failed: {left}", cause=error.cause) from left


def _saving(
    record: ServerRecord, save: Callable[[ServerRecord], None], on_progress: Callable[[LoadProgress], None]
) -> Callable[[LoadProgress], None]:
    """Progress that is also saved whenever the load phase or the count changes, for `status`."""
    seen: list[tuple[str, str]] = []

    def report(progress: LoadProgress) -> None:
        key = (progress.load_phase, progress.detail)
        if key not in seen[-1:]:
            seen.append(key)
            save(replace(record, load_phase=progress.load_phase, progress=progress.progress))
        on_progress(progress)

    return report


def _pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if should_stop():
            raise InterruptedRun("Interrupted while waiting to start the server again. Run resume to go on.")
        time.sleep(0.2)
