"""The walk through the todo list: measure, accept, write, save; then what the findings ask for; then the next."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import tenacity

from campaign import host, lock
from campaign.config import PhaseEntry
from campaign.errors import (
    EXIT_DOCUMENT,
    EXIT_INTERRUPTED,
    EXIT_PHASE,
    EXIT_SERVER,
    CampaignError,
    DocumentError,
    InterruptedRun,
    PhaseError,
    ServerError,
    TemplateError,
    combined_exit_code,
)
from campaign.launch import local
from campaign.measurement import now_utc
from campaign.phases.kind import PhaseKind
from campaign.runner.importing import accept, read_imports
from campaign.runner.opening import OpenCampaign
from campaign.runner.proposals import Planner, follow_ups
from campaign.runner.reading import accept_synthesis, ask_narrator, note_hypotheses, note_revision, read_all
from campaign.runner.reporting import Reporter, StopRequest
from campaign.runner.serving import ServerKeeper
from campaign.runner.writing import Written, document_path, write
from campaign.state import (
    MAX_ATTEMPTS,
    OPEN,
    CampaignState,
    PhaseState,
    add,
    begin,
    change,
    fail,
    finish,
    interrupt,
    phase,
    reset,
)

#: Between two attempts of a phase: 2, 4, 8 … seconds, at most a minute.
BACK_OFF = tenacity.wait_exponential(multiplier=2, max=60)


class Runner:
    """One run of a campaign; holds the lock from `resume` or `run` to their end."""

    def __init__(
        self, campaign: OpenCampaign, reporter: Reporter, stop: StopRequest, planner: Planner | None = None
    ) -> None:
        self._campaign = campaign
        self._store = campaign.store
        self._reporter = reporter
        self._stop = stop
        self._planner = planner
        self._state: CampaignState = self._store.new_state()
        self._codes: list[int] = []
        self._server = ServerKeeper(campaign, reporter, stop, state=lambda: self._state, save=self._save)

    # Commands

    def resume(self, until: str | None = None) -> int:
        """Go on with the todo list until it is done, blocked or interrupted; returns the exit code."""
        return self._run(lambda: self._walk(until))

    def run_phase(self, phase_id: str, *, is_forced: bool) -> int:
        """Measure one phase now, again if forced; returns the exit code."""

        def work() -> None:
            entry = phase(self._state, phase_id)
            if is_forced or entry.status in ("failed", "skipped"):
                self._save(reset(self._state, phase_id), "reset", phase_id)
            self._save(self._campaign.reconciled(self._state), "reconciled")
            entry = phase(self._state, phase_id)
            if entry.status == "blocked":
                raise PhaseError(f"phase {phase_id} cannot be measured: {entry.reason}.")
            if entry.status in OPEN:
                self._do(entry)
            else:
                self._reporter.say(f"{phase_id}: up to date; --force measures it again")
            self._write()

        return self._run(work)

    def _run(self, work: Callable[[], None]) -> int:
        with lock.hold(self._store.state_folder):
            try:
                self._open()
                work()
            except InterruptedRun:
                self._codes.append(EXIT_INTERRUPTED)
            except ServerError as error:
                self._reporter.say(f"error: {error}")
                self._codes.append(EXIT_SERVER)
            if not self._stop:
                self._server.stop()
            else:
                self._reporter.say(f"stopped by {self._stop.signal_name}; the state is saved. Go on with: resume")
                self._server.leave()
        if any(entry.status == "failed" for entry in self._state.phases):
            self._codes.append(EXIT_PHASE)
        return combined_exit_code(self._codes)

    def _open(self) -> None:
        self._store.shorten_events()
        loaded = self._store.load_state()
        for text in self._store.recovered:
            self._reporter.say(text)
        state = note_hypotheses(self._campaign, loaded or self._store.new_state())
        self._state = state
        self._settle_running()
        # Only now: a measurement that went on without its runner was perhaps just writing its result.
        removed = self._store.remove_temporaries(document_path(self._campaign))
        if removed:
            self._reporter.say(f"removed {removed} left-over temporary file{'s' if removed > 1 else ''}")
        reconciled = self._campaign.reconciled(self._state)
        if reconciled != loaded or self._store.is_file_behind:
            self._save(reconciled, "opened")

    # The walk

    def _walk(self, until: str | None) -> None:
        if until is not None:
            phase(self._state, until)
        self._retry_failed()
        while True:
            self._check_stop()
            entry = self._next(self._listed(until))
            if entry is not None:
                self._do(entry)
                if entry.id == until or not self._imports_next():
                    self._write()
            elif until is not None and self._is_measured(phase(self._state, until)):
                self._write()  # what an earlier run measured may not be written up yet
                return
            elif not self._add_follow_up():
                break
        self._conclude()

    def _next(self, listed: tuple[PhaseState, ...]) -> PhaseState | None:
        """The next phase to measure: in the list's order, but first those that the running server serves as it is.

        A load can take half an hour; a phase that needs the device for itself ends the server.
        """
        entries = [e for e in listed if e.status in OPEN and self._is_measured(e)]
        served = [e for e in entries if self._server.serves(self._campaign.kinds[e.kind].server)]
        return next(iter(served or entries), None)

    def _listed(self, until: str | None) -> tuple[PhaseState, ...]:
        """The todo list up to and with `until`; all of it where that is None."""
        phases = self._state.phases
        names = [entry.id for entry in phases]
        return phases if until is None else phases[: names.index(until) + 1]

    def _imports_next(self) -> bool:
        """Whether the next phase only takes in files: the document is then written once, with its sections in order."""
        entry = self._next(self._state.phases)
        return entry is not None and bool(self._campaign.entry(entry).imports)

    def _retry_failed(self) -> None:
        """A new resume gives failed phases new attempts: the person may have mended the cause."""
        for entry in self._state.phases:
            if entry.status == "failed":
                state = change(
                    self._state, entry.id, status="pending", attempts=0, reason=f"again, after: {entry.reason}"
                )
                self._save(state, "retry", entry.id)

    def _conclude(self) -> None:
        readings = read_all(self._campaign, self._state)
        if note_revision(self._campaign, self._state, readings):
            self._store.log("revision")
        narration = ask_narrator(self._campaign, self._state, readings)
        if narration is not None:
            reasons = f": {'; '.join(narration.reasons)}" if narration.reasons else ""
            self._reporter.say(f"narrator: {narration.outcome}{reasons}")
        state = self._state
        for kind in self._campaign.kinds.values():
            if kind.synthesize is not None:
                state = accept_synthesis(self._campaign, state, kind)
        if state != self._state:
            self._save(state, "synthesis")
        self._write()

    def _add_follow_up(self) -> bool:
        if self._planner is None:
            return False
        entries = follow_ups(self._campaign, self._state, self._planner)
        for entry in entries:
            self._reporter.say(f"{entry.id}: added by {entry.origin}: {entry.reason}")
        if entries:
            synthesis = next((kind.name for kind in self._campaign.kinds.values() if kind.synthesize), "")
            self._save(add(self._state, entries, before_kind=synthesis), "follow-up", entries[0].id)
            self._save(self._campaign.reconciled(self._state), "reconciled")
        return bool(entries)

    def _is_measured(self, entry: PhaseState) -> bool:
        return self._campaign.kinds[entry.kind].synthesize is None

    # One phase

    def _do(self, entry: PhaseState) -> None:
        """Measure a phase, with retries; its failure is recorded and does not stop the others."""
        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(MAX_ATTEMPTS),
            wait=BACK_OFF,
            retry=tenacity.retry_if_exception_type(_TransientPhaseError),
            before_sleep=self._announce_retry(entry),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            retrying(self._attempt, entry.id)
        except ServerError as error:
            self._save(fail(self._state, entry.id, str(error)), "failed", entry.id)
            self._reporter.say(f"{entry.id}: the server failed: {error}")
            self._codes.append(EXIT_SERVER)
        except PhaseError as error:
            self._save(fail(self._state, entry.id, str(error)), "failed", entry.id)
            self._reporter.say(f"{entry.id}: failed: {error}")
        finally:
            self._reporter.end(entry.id)

    def _announce_retry(self, entry: PhaseState) -> Callable[[tenacity.RetryCallState], None]:
        def announce(call: tenacity.RetryCallState) -> None:
            wait_s = call.next_action.sleep if call.next_action else 0.0
            failure = call.outcome.exception() if call.outcome else None
            self._reporter.say(
                f"{entry.id}: {failure}; attempt {call.attempt_number + 1} of {MAX_ATTEMPTS} in {wait_s:.0f} s"
            )

        return announce

    def _attempt(self, phase_id: str) -> None:
        self._check_stop()
        entry = phase(self._state, phase_id)
        kind = self._campaign.kinds[entry.kind]
        typed = self._campaign.entry(entry)
        if typed.imports:
            self._import(typed)
            return
        context = self._campaign.context
        if kind.uses_device and self._is_blocked_by_others(entry):
            return
        if kind.server != "none":
            access = self._server.ensure(kind.server)
            context = msgspec.structs.replace(context, server=access)
        config = self._campaign.measurement_config(typed, context)
        inputs = self._campaign.inputs(typed)
        newest = self._store.newest_attempt(phase_id)
        state = begin(self._state, phase_id, inputs=inputs, at=now_utc(), newest_folder=newest)
        entry = phase(state, phase_id)
        self._save(state, "begin", phase_id, f"attempt {entry.last_attempt}")
        folder = self._store.prepare_attempt(entry, config)
        attempt = local.start(folder, entry.kind, entry.last_attempt, self._store.folder)
        self._save(change(self._state, phase_id, process=attempt.process), "started", phase_id)
        self._watch(entry, kind, attempt)

    def _is_blocked_by_others(self, entry: PhaseState) -> bool:
        """Free the device of our own server; whoever else holds a GPU blocks the phase: never a disturbed number."""
        self._server.free_device()
        occupants = host.describe_occupants() if self._campaign.context.target.device == "cuda" else None
        if occupants is None:
            return False
        self._save(change(self._state, entry.id, status="blocked", reason=occupants), "blocked", entry.id)
        self._reporter.say(f"{entry.id}: blocked: {occupants}")
        return True

    def _import(self, typed: PhaseEntry) -> None:
        """What campaign.toml has come from elsewhere, taken in its phase's place."""
        self._reporter.say(f"{typed.id}: importing {', '.join(typed.imports)}")
        inputs = self._campaign.inputs(typed)
        self._save(begin(self._state, typed.id, inputs=inputs, at=now_utc()), "begin", typed.id)
        try:
            imported = read_imports(self._campaign, typed)
        except CampaignError as error:
            raise PhaseError(str(error)) from error
        self._save(accept(self._campaign, self._state, typed.id, imported, inputs), "imported", typed.id)

    def _watch(self, entry: PhaseState, kind: PhaseKind, attempt: local.Attempt) -> None:
        def on_points(done: int) -> None:
            self._reporter.progress(entry.id, done, entry.points_total, f"{done} of {entry.points_total}")

        def complaint() -> str | None:
            return self._server.complaint(kind.server) if kind.server != "none" else None

        outcome = local.watch(attempt, on_points=on_points, should_stop=lambda: bool(self._stop), complaint=complaint)
        self._judge(entry, attempt, outcome)

    def _judge(self, entry: PhaseState, attempt: local.Attempt, outcome: local.Outcome) -> None:
        state = change(self._state, entry.id, points_done=attempt.points_done())
        if outcome.kind == "result":
            loaded = self._store.load_result(attempt.result_path)
            if loaded is not None and loaded[0].kind == entry.kind:
                finished = finish(state, entry.id, result_hash=loaded[1], duration_s=loaded[0].duration_s)
                self._save(finished, "done", entry.id)
                self._reporter.say(f"{entry.id}: done in {loaded[0].duration_s:.1f} s of measuring")
                return
            outcome = local.Outcome(kind="failed", reason=f"{attempt.result_path} holds no whole result")
        if outcome.kind == "interrupted":
            self._save(interrupt(state, entry.id, outcome.reason), "interrupted", entry.id)
            raise InterruptedRun(outcome.reason)
        where = self._store.relative(attempt.log_path)
        reason = f"{outcome.reason} (log: {where})"
        self._save(change(state, entry.id, reason=reason, process=None), "attempt failed", entry.id, reason)
        raise (PhaseError if outcome.is_final else _TransientPhaseError)(reason)

    def _settle_running(self) -> None:
        """Find again what a dead runner left: measurements that go on are watched, ended ones judged."""
        for entry in self._state.phases:
            if entry.status != "running":
                continue
            folder = self._store.attempt_folder(entry.id, entry.last_attempt)
            attempt = local.find_again(folder, entry.process, self._store.folder)
            if attempt is not None:
                self._reporter.say(f"{entry.id}: attempt {entry.last_attempt} is still measuring: adopted")
            elif not (folder / "result.json").exists():
                state = interrupt(self._state, entry.id, "the runner ended while it was measured")
                self._save(state, "interrupted", entry.id)
                continue
            ended = attempt or local.Attempt(folder, local.NO_PROCESS)
            try:
                self._watch(entry, self._campaign.kinds[entry.kind], ended)
            except _TransientPhaseError as error:
                self._save(interrupt(self._state, entry.id, str(error)), "interrupted", entry.id)
            finally:
                self._reporter.end(entry.id)

    # Document and state

    def _write(self) -> Written | None:
        try:
            state, written = write(self._campaign, self._state)
        except (DocumentError, TemplateError) as error:
            # Measuring goes on: a document can be written later from the results alone.
            self._reporter.say(f"document not written: {error}")
            self._codes.append(error.exit_code)
            return None
        if state != self._state:
            self._save(state, "document")
        for text in written.needs_person:
            self._reporter.say(text)
        if written.needs_person:
            self._codes.append(EXIT_DOCUMENT)
        return written

    def _save(self, state: CampaignState, what: str, phase_id: str = "", detail: str = "") -> None:
        self._state = state
        self._store.save_state(state, what, phase=phase_id, detail=detail)

    def _check_stop(self) -> None:
        if self._stop:
            raise InterruptedRun("stopped by a person")

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._check_stop()
            time.sleep(0.1)


class _TransientPhaseError(PhaseError):
    """An attempt failed in a way that another may not."""
