"""One phase measured: its attempts begun, watched, judged, tried again, found again after a runner's death."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import tenacity

from campaign import host
from campaign.config import PhaseEntry
from campaign.errors import EXIT_SERVER, CampaignError, InterruptedRun, PhaseError, ServerError
from campaign.launch import local
from campaign.measurement import now_utc
from campaign.phases.kind import PhaseKind
from campaign.runner.importing import accept, read_imports
from campaign.runner.ledger import Ledger
from campaign.runner.opening import OpenCampaign
from campaign.runner.reporting import Reporter, StopRequest
from campaign.runner.serving import ServerKeeper
from campaign.state import MAX_ATTEMPTS, CampaignState, PhaseState, begin, change, fail, finish, interrupt, phase

#: Between two attempts of a phase: 2, 4, 8 … seconds, at most a minute.
BACK_OFF = tenacity.wait_exponential(multiplier=2, max=60)


class Attempts:
    """The attempts of one campaign's phases."""

    def __init__(
        self, campaign: OpenCampaign, ledger: Ledger, server: ServerKeeper, reporter: Reporter, stop: StopRequest
    ) -> None:
        self.codes: list[int] = []
        """Exit codes of what failed and did not stop the others."""
        self._campaign = campaign
        self._store = campaign.store
        self._ledger = ledger
        self._server = server
        self._reporter = reporter
        self._stop = stop

    def measure(self, entry: PhaseState) -> None:
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
            self._ledger.save(fail(self._ledger.state, entry.id, str(error)), "failed", entry.id)
            self._reporter.say(f"{entry.id}: the server failed: {error}")
            self.codes.append(EXIT_SERVER)
        except PhaseError as error:
            self._ledger.save(fail(self._ledger.state, entry.id, str(error)), "failed", entry.id)
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
        self.check_stop()
        entry = phase(self._ledger.state, phase_id)
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
        state = begin(self._ledger.state, phase_id, inputs=inputs, at=now_utc(), newest_folder=newest)
        entry = phase(state, phase_id)
        self._ledger.save(state, "begin", phase_id, f"attempt {entry.last_attempt}")
        folder = self._store.prepare_attempt(entry, config)
        attempt = local.start(folder, entry.kind, entry.last_attempt, self._store.folder)
        self._ledger.save(change(self._ledger.state, phase_id, process=attempt.process), "started", phase_id)
        self._watch(entry, kind, attempt)

    def _is_blocked_by_others(self, entry: PhaseState) -> bool:
        """Free the device of our own server; whoever else holds a GPU blocks the phase: never a disturbed number."""
        self._server.free_device()
        occupants = host.describe_occupants() if self._campaign.context.target.device == "cuda" else None
        if occupants is None:
            return False
        self._ledger.save(change(self._ledger.state, entry.id, status="blocked", reason=occupants), "blocked", entry.id)
        self._reporter.say(f"{entry.id}: blocked: {occupants}")
        return True

    def _import(self, typed: PhaseEntry) -> None:
        """What campaign.toml has come from elsewhere, taken in its phase's place."""
        self._reporter.say(f"{typed.id}: importing {', '.join(typed.imports)}")
        inputs = self._campaign.inputs(typed)
        newest = self._store.newest_attempt(typed.id)
        state = begin(self._ledger.state, typed.id, inputs=inputs, at=now_utc(), newest_folder=newest)
        self._ledger.save(state, "begin", typed.id)
        try:
            imported = read_imports(self._campaign, typed)
        except CampaignError as error:
            raise PhaseError(str(error)) from error
        self._ledger.save(accept(self._campaign, self._ledger.state, typed.id, imported, inputs), "imported", typed.id)

    def _watch(self, entry: PhaseState, kind: PhaseKind, attempt: local.Attempt) -> None:
        def on_points(done: int) -> None:
            self._reporter.progress(entry.id, done, entry.points_total, f"{done} of {entry.points_total}")

        with self._server.watched(kind.server) as complaint:
            outcome = local.watch(
                attempt, on_points=on_points, should_stop=lambda: bool(self._stop), complaint=complaint
            )
        self._judge(entry, attempt, outcome)

    def _judge(self, entry: PhaseState, attempt: local.Attempt, outcome: local.Outcome) -> None:
        state = self._counted(entry.id, attempt)
        if outcome.kind == "result":
            loaded = self._store.load_result(attempt.result_path)
            if loaded is not None and loaded[0].kind == entry.kind:
                finished = finish(state, entry.id, result_hash=loaded[1], duration_s=loaded[0].duration_s)
                self._ledger.save(finished, "done", entry.id)
                self._reporter.say(f"{entry.id}: done in {loaded[0].duration_s:.1f} s of measuring")
                return
            outcome = local.Outcome(kind="failed", reason=f"{attempt.result_path} holds no whole result")
        if outcome.kind == "interrupted":
            self._ledger.save(interrupt(state, entry.id, outcome.reason), "interrupted", entry.id)
            raise InterruptedRun(outcome.reason)
        where = self._store.relative(attempt.log_path)
        reason = f"{outcome.reason} (log: {where})"
        self._ledger.save(change(state, entry.id, reason=reason, process=None), "attempt failed", entry.id, reason)
        raise (PhaseError if outcome.is_final else _TransientPhaseError)(reason)

    def _counted(self, phase_id: str, attempt: local.Attempt) -> CampaignState:
        """The state with what an attempt has so far: its points, and the time that these took."""
        points_done, measured_s = attempt.progress()
        return change(self._ledger.state, phase_id, points_done=points_done, duration_s=measured_s)

    def settle_running(self) -> None:
        """Find again what a dead runner left: measurements that go on are watched, ended ones judged."""
        for entry in self._ledger.state.phases:
            if entry.status != "running":
                continue
            folder = self._store.attempt_folder(entry.id, entry.last_attempt)
            attempt = local.find_again(folder, entry.process, self._store.folder)
            if attempt is not None:
                self._reporter.say(f"{entry.id}: attempt {entry.last_attempt} is still measuring: adopted")
            elif not (folder / "result.json").exists():
                state = self._counted(entry.id, local.Attempt(folder, local.NO_PROCESS))
                state = interrupt(state, entry.id, "the runner ended while it was measured")
                self._ledger.save(state, "interrupted", entry.id)
                continue
            ended = attempt or local.Attempt(folder, local.NO_PROCESS)
            try:
                self._watch(entry, self._campaign.kinds[entry.kind], ended)
            except _TransientPhaseError as error:
                self._ledger.save(interrupt(self._ledger.state, entry.id, str(error)), "interrupted", entry.id)
            finally:
                self._reporter.end(entry.id)

    def check_stop(self) -> None:
        """Raise `InterruptedRun` once a person asked to stop."""
        if self._stop:
            raise InterruptedRun("stopped by a person")

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check_stop()
            time.sleep(0.1)


class _TransientPhaseError(PhaseError):
    """An attempt failed in a way that another may not."""
