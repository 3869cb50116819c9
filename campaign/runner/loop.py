"""The walk through the todo list: measure, accept, write, save; then what the findings ask for; then the next."""

from __future__ import annotations

from collections.abc import Callable

from campaign import lock
from campaign.errors import (
    EXIT_DOCUMENT,
    EXIT_INTERRUPTED,
    EXIT_PHASE,
    EXIT_SERVER,
    DocumentError,
    InterruptedRun,
    PhaseError,
    ServerError,
    TemplateError,
    combined_exit_code,
)
from campaign.runner.attempts import Attempts
from campaign.runner.ledger import Ledger
from campaign.runner.opening import OpenCampaign
from campaign.runner.proposals import Planner, follow_ups
from campaign.runner.reading import accept_synthesis, ask_narrator, note_hypotheses, note_revision, read_all
from campaign.runner.reporting import Reporter, StopRequest
from campaign.runner.serving import ServerKeeper
from campaign.runner.writing import Written, document_path, write
from campaign.state import OPEN, PhaseState, add, change, phase, reset


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
        self._ledger = Ledger(campaign.store)
        self._codes: list[int] = []
        self._server = ServerKeeper(campaign, reporter, stop, self._ledger)
        self._attempts = Attempts(campaign, self._ledger, self._server, reporter, stop)

    # Commands

    def resume(self, until: str | None = None) -> int:
        """Go on with the todo list until it is done, blocked or interrupted; returns the exit code."""
        return self._run(lambda: self._walk(until))

    def run_phase(self, phase_id: str, *, is_forced: bool) -> int:
        """Measure one phase now, again if forced; returns the exit code."""

        def work() -> None:
            entry = phase(self._ledger.state, phase_id)
            if is_forced or entry.status in ("failed", "skipped"):
                self._ledger.save(reset(self._ledger.state, phase_id), "reset", phase_id)
            self._ledger.save(self._campaign.reconciled(self._ledger.state), "reconciled")
            entry = phase(self._ledger.state, phase_id)
            if entry.status == "blocked":
                raise PhaseError(f"phase {phase_id} cannot be measured: {entry.reason}.")
            if entry.status in OPEN:
                self._attempts.measure(entry)
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
        if any(entry.status == "failed" for entry in self._ledger.state.phases):
            self._codes.append(EXIT_PHASE)
        return combined_exit_code([*self._codes, *self._attempts.codes])

    def _open(self) -> None:
        self._store.events.shorten()
        loaded = self._store.load_state()
        for text in self._store.recovered:
            self._reporter.say(text)
        state = note_hypotheses(self._campaign, loaded or self._store.new_state())
        self._ledger.state = state
        self._attempts.settle_running()
        # Only now: a measurement that went on without its runner was perhaps just writing its result.
        removed = self._store.remove_temporaries(document_path(self._campaign))
        if removed:
            self._reporter.say(f"removed {removed} left-over temporary file{'s' if removed > 1 else ''}")
        reconciled = self._campaign.reconciled(self._ledger.state)
        if reconciled != loaded or self._store.is_file_behind:
            self._ledger.save(reconciled, "opened")

    # The walk

    def _walk(self, until: str | None) -> None:
        if until is not None:
            phase(self._ledger.state, until)
        self._retry_failed()
        is_written = False  # what an earlier run measured may not be written up yet
        while True:
            self._attempts.check_stop()
            entry = self._next(self._listed(until))
            if entry is not None:
                self._attempts.measure(entry)
                is_written = entry.id == until or not self._imports_next()
                if is_written:
                    self._write()
            elif until is not None and self._is_measured(phase(self._ledger.state, until)):
                if not is_written:
                    self._write()
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
        phases = self._ledger.state.phases
        names = [entry.id for entry in phases]
        return phases if until is None else phases[: names.index(until) + 1]

    def _imports_next(self) -> bool:
        """Whether the next phase only takes in files: the document is then written once, with its sections in order."""
        entry = self._next(self._ledger.state.phases)
        return entry is not None and bool(self._campaign.entry(entry).imports)

    def _retry_failed(self) -> None:
        """A new resume gives failed phases new attempts: the person may have mended the cause."""
        for entry in self._ledger.state.phases:
            if entry.status == "failed":
                state = change(
                    self._ledger.state, entry.id, status="pending", attempts=0, reason=f"again, after: {entry.reason}"
                )
                self._ledger.save(state, "retry", entry.id)

    def _conclude(self) -> None:
        readings = read_all(self._campaign, self._ledger.state)
        if note_revision(self._campaign, self._ledger.state, readings):
            self._store.events.note("revision")
        narration = ask_narrator(self._campaign, self._ledger.state, readings)
        if narration is not None:
            reasons = f": {'; '.join(narration.reasons)}" if narration.reasons else ""
            self._reporter.say(f"narrator: {narration.outcome}{reasons}")
        state = self._ledger.state
        for kind in self._campaign.kinds.values():
            if kind.synthesize is not None:
                state = accept_synthesis(self._campaign, state, kind)
        if state != self._ledger.state:
            self._ledger.save(state, "synthesis")
        self._write()

    def _add_follow_up(self) -> bool:
        if self._planner is None:
            return False
        entries = follow_ups(self._campaign, self._ledger.state, self._planner)
        for entry in entries:
            self._reporter.say(f"{entry.id}: added by {entry.origin}: {entry.reason}")
        if entries:
            synthesis = next((kind.name for kind in self._campaign.kinds.values() if kind.synthesize), "")
            self._ledger.save(add(self._ledger.state, entries, before_kind=synthesis), "follow-up", entries[0].id)
            self._ledger.save(self._campaign.reconciled(self._ledger.state), "reconciled")
        return bool(entries)

    def _is_measured(self, entry: PhaseState) -> bool:
        return self._campaign.kinds[entry.kind].synthesize is None

    # Document

    def _write(self) -> Written | None:
        try:
            state, written = write(self._campaign, self._ledger.state)
        except (DocumentError, TemplateError) as error:
            # Measuring goes on: a document can be written later from the results alone.
            self._reporter.say(f"document not written: {error}")
            self._codes.append(error.exit_code)
            return None
        if state != self._ledger.state:
            self._ledger.save(state, "document")
        for text in written.needs_person:
            self._reporter.say(text)
        if written.needs_person:
            self._codes.append(EXIT_DOCUMENT)
        return written
