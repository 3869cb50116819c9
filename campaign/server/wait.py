"""Waiting for a server: progress from its log, a deadline from its start, stalls, deaths, the first completion."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import tenacity

from campaign.errors import InterruptedRun, ServerError
from campaign.server import death, loads, phrases, presence, probe, process
from campaign.server.loads import PastLoad
from campaign.server.log import LoadProgress, LogReader
from campaign.server.record import ServerRecord, replace
from campaign.server.spec import ServerSpec

#: Polls begin this often and grow to the longest.
FIRST_POLL_S, LONGEST_POLL_S, POLL_GROWTH = 0.25, 5.0, 1.25
#: A session that burns less than this share of one core, and reads less, does nothing.
IDLE_CORE_SHARE = 0.05
IDLE_READ_BYTES_PER_S = 20_000


def wait_ready(
    record: ServerRecord,
    spec: ServerSpec,
    on_progress: Callable[[LoadProgress], None] = lambda _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    earlier: Sequence[PastLoad] = (),
) -> ServerRecord:
    """Wait until a completion of one token comes back and the server's token counter has moved.

    The deadline (`spec.ready_timeout_s`) counts from the server's start, not from the call. Raises `ServerError`
    with the root cause and what to try (`is_transient` where trying again can help), `InterruptedRun` where
    `should_stop` says so; the server goes on loading then.
    """
    wait = _Wait(record, spec, on_progress, earlier)
    polling = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda ready: ready is None),
        wait=tenacity.wait_exponential(multiplier=FIRST_POLL_S, exp_base=POLL_GROWTH, max=LONGEST_POLL_S),
        sleep=lambda seconds: _sleep(seconds, should_stop),
    )
    ready = polling(wait.step)
    assert ready is not None  # tenacity goes on until it is
    return ready


def _sleep(seconds: float, should_stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while True:
        if should_stop():
            raise InterruptedRun("Interrupted while the server loads. It goes on loading; resume goes on waiting.")
        left_s = end - time.monotonic()
        if left_s <= 0:
            return
        time.sleep(min(0.2, left_s))


class _Wait:
    """One wait: what was seen so far."""

    def __init__(
        self,
        record: ServerRecord,
        spec: ServerSpec,
        on_progress: Callable[[LoadProgress], None],
        earlier: Sequence[PastLoad],
    ) -> None:
        self._record = record
        self._spec = spec
        self._on_progress = on_progress
        self._earlier = earlier
        self._log = LogReader(Path(record.log_path), record.log_offset, record.started_at) if record.log_path else None
        self._activity = process.Activity()
        self._moved_at = self._judged_at = time.monotonic()
        self._phase_began_s = presence.age_s(record)
        self._phase = ""
        self._looks = 0

    def step(self) -> ServerRecord | None:
        """Look once; the ready record, or None to look again."""
        self._looks += 1
        has_news = self._log.poll() if self._log else False
        found, self._record = presence.find(self._record)
        if found == "foreign":
            raise presence.foreign_error(self._record)
        if found in ("gone", "orphans") and not self._may_be_elsewhere():
            raise death.death_error(self._record)
        if self._log and self._log.fatal_line:
            raise death.fatal_error(self._record)
        self._report()
        if found == "ready":
            return self._ask()
        self._check_deadline()
        self._check_stall(has_news)
        return None

    def _may_be_elsewhere(self) -> bool:
        """A launcher may end well and leave its server elsewhere; an attached server may be about to start."""
        return self._record.kind == "attached" or (self._record.kind == "command" and death.ended_well(self._record))

    def _ask(self) -> ServerRecord | None:
        answer = probe.complete_one_token(self._record, self._spec.probe_timeout_s, probe.counters(self._record))
        if not answer.is_answered:
            if not presence.is_alive(self._record) and self._record.kind == "managed":
                raise death.death_error(self._record)
            if answer.is_timeout:
                raise ServerError(
                    f"{self._record.url} is up but gave {answer.problem}: a worker hangs. "
                    f"Read {self._record.log_path}, then run again.",
                    cause=answer.problem,
                    is_transient=True,
                )
            self._check_answer(answer)
            self._check_deadline()
            return None
        phase_s = self._log.phase_seconds() if self._log else {}
        return replace(
            self._record,
            state="ready",
            load_phase="ready",
            progress=None,
            phase_s=phase_s,
            ready_s=self._ready_s(phase_s),
            has_profiler=self._has_profiler(),
        )

    def _ready_s(self, phase_s: dict[str, float]) -> float | None:
        """Seconds from start to ready; a server found ready at the first look was so before: then its log tells."""
        if self._record.ready_s is not None:
            return self._record.ready_s
        return presence.age_s(self._record) if self._looks > 1 else sum(phase_s.values()) or None

    def _check_answer(self, answer: probe.Answer) -> None:
        """An answer that waiting will not better (4xx) ends the wait; a dying engine's 5xx is looked at again."""
        if answer.problem.startswith(("HTTP 400", "HTTP 404", "HTTP 422")):
            raise ServerError(
                f"{self._record.url} refuses a completion: {answer.problem}. Check target.model and server.url.",
                cause=answer.problem,
            )

    def _has_profiler(self) -> bool:
        if self._record.kind == "managed":
            return self._record.has_profiler
        return probe.has_profiler(self._record)

    def _report(self) -> None:
        elapsed_s = presence.age_s(self._record)
        phase = self._log.load_phase if self._log else "answering"
        if phase != self._phase:
            self._phase, self._phase_began_s = phase, elapsed_s
        eta_s = loads.eta_s(self._earlier, self._record.spec_hash, phase, elapsed_s, elapsed_s - self._phase_began_s)
        progress = self._log.progress if self._log else None
        self._record = replace(self._record, load_phase=phase, progress=progress)
        self._on_progress(
            LoadProgress(
                load_phase=phase,
                progress=progress,
                detail=self._log.detail if self._log else "",
                elapsed_s=elapsed_s,
                eta_s=eta_s,
                last_line=self._log.last_line if self._log else "",
            )
        )

    def _check_deadline(self) -> None:
        elapsed_s = presence.age_s(self._record)
        if elapsed_s > self._spec.ready_timeout_s and self._record.kind == "attached":
            raise ServerError(
                f"No OpenAI server answers at {self._record.url} (waited {elapsed_s:.0f} s). Start it, or correct "
                "server.url.",
                cause="no answer",
            )
        if elapsed_s > self._spec.ready_timeout_s:
            raise ServerError(
                f"The server is not ready {elapsed_s:.0f} s after its start (phase {self._phase}); the deadline is "
                f"{self._spec.ready_timeout_s:.0f} s. Read {self._record.log_path or self._record.url}, or raise "
                "server.ready_timeout.",
                cause="deadline",
            )

    def _check_stall(self, has_news: bool) -> None:
        if self._record.kind != "managed":
            return
        now = time.monotonic()
        seen = process.activity(presence.living_members(self._record))
        if self._has_moved(seen, now - self._judged_at) or has_news:
            self._moved_at = now
        self._activity, self._judged_at = seen, now
        limits = phrases.STALL_LIMITS_S | self._spec.stall_limits_s
        silence_s = now - self._moved_at
        if silence_s > limits[self._phase]:
            raise ServerError(
                f"The server has done nothing for {silence_s:.0f} s in load phase {self._phase} (no line, no CPU, no "
                f"disk; allowed {limits[self._phase]:.0f} s). Last line: {self._log.last_line if self._log else ''!r}. "
                f"Read {self._record.log_path}, then run again.",
                cause=f"stalled in {self._phase}",
                is_transient=True,
            )

    def _has_moved(self, seen: process.Activity, passed_s: float) -> bool:
        burnt_s = seen.cpu_s - self._activity.cpu_s
        read_bytes = seen.read_bytes - self._activity.read_bytes
        return burnt_s > IDLE_CORE_SHARE * passed_s or read_bytes > IDLE_READ_BYTES_PER_S * passed_s
