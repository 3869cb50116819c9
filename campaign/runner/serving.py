"""The server that phases need: reused where it fits, adopted where it runs, started where it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import tenacity

from campaign import schema
from campaign.config import Config, duration_s
from campaign.errors import ServerError
from campaign.phases.kind import ServerAccess, ServerNeed
from campaign.runner.opening import OpenCampaign
from campaign.runner.reporting import Reporter, StopRequest
from campaign.server import (
    LoadProgress,
    PastLoad,
    ServerRecord,
    ServerSpec,
    adopt,
    attached_spec,
    check_alive,
    command_spec,
    find,
    is_alive,
    launch,
    past_load,
    stop,
    vllm_spec,
    wait_ready,
)
from campaign.server.vllm import split_url
from campaign.state import CampaignState

#: A server that fails in a way that may pass is started this often before the phase fails.
MAX_LAUNCHES = 3
#: Between two looks at whether a server still works while a phase runs.
CHECK_EVERY_S = 30.0
#: Load progress is saved at most this often (status reads it).
SAVE_EVERY_S = 2.0
#: So many past loads teach the ETA.
KEPT_LOADS = 10


class ServerKeeper:
    """One campaign's server."""

    def __init__(
        self,
        campaign: OpenCampaign,
        reporter: Reporter,
        stop_request: StopRequest,
        *,
        state: Callable[[], CampaignState],
        save: Callable[[CampaignState, str], None],
    ) -> None:
        self._campaign = campaign
        self._reporter = reporter
        self._stop_request = stop_request
        self._state = state
        self._save_state = save
        self._checked_s = 0.0
        self._saved_s = 0.0

    # What phases ask for

    def ensure(self, need: ServerNeed) -> ServerAccess:
        """A ready server for a phase; raises `ServerError` with the cause from its log where there is none."""
        spec = server_spec(self._campaign, is_profiled=need == "profiled")
        launching = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(MAX_LAUNCHES),
            wait=tenacity.wait_exponential(multiplier=5, max=120),
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, ServerError) and error.is_transient),
            before_sleep=self._before_retry,
            reraise=True,
        )
        record = launching(self._ready, spec, need)
        self._checked_s = time.monotonic()
        return self._access(record, need)

    def complaint(self, need: ServerNeed) -> str | None:
        """Why the server can no longer be measured, or None; looks now and then only.

        While a profile is exported a healthy server answers nothing for minutes: there only its death counts, and
        the script's own deadlines.
        """
        record = self.record()
        if record is None or time.monotonic() - self._checked_s < CHECK_EVERY_S:
            return None
        self._checked_s = time.monotonic()
        if need == "profiled":
            return "the server died; see the end of its log" if self._is_dead(record) else None
        try:
            check_alive(record)
        except ServerError as error:
            return str(error)
        return None

    def _is_dead(self, record: ServerRecord) -> bool:
        return record.kind == "managed" and not is_alive(record)

    def stop(self) -> None:
        """Stop the server we started, verified; an attached one is let go of."""
        record = self.record()
        if record is None or record.state in ("stopped", "failed"):
            return
        if record.kind != "attached":
            self._reporter.say("stopping the server")
        self._save(stop(record, server_spec(self._campaign), save=lambda r: self._save(r, "server")), "server stopped")

    def leave(self) -> None:
        """Say that a server goes on without this runner."""
        record = self.record()
        if record is not None and record.kind != "attached" and record.state in ("starting", "loading", "ready"):
            self._reporter.say(
                f"the server (pid {record.pid}, {record.state}) is left running for the next resume; "
                "stop it with: python -m campaign server stop"
            )

    def record(self) -> ServerRecord | None:
        """What is known of the server."""
        known = self._state().server
        return msgspec.convert(known, ServerRecord) if known else None

    # How it gets ready

    def _ready(self, spec: ServerSpec, need: ServerNeed) -> ServerRecord:
        record = self._usable(spec) or self._launch(spec)
        try:
            ready = wait_ready(
                record, spec, self._show, lambda: bool(self._stop_request), earlier=self._earlier_loads()
            )
        except ServerError as error:
            self._failed(record, spec, error)
            raise
        finally:
            self._reporter.end("server")
        if record.state != "ready":
            self._reporter.say(f"server: ready after {ready.ready_s or 0:.0f} s at {ready.url}")
            self._learn(ready)
        self._save(ready, "server ready")
        if need == "profiled" and not ready.has_profiler:
            raise ServerError(
                f"{ready.url} has no profiler (no /start_profile). Start that server with --profiler-config, or leave "
                "the profile phase out: python -m campaign skip profile"
            )
        return ready

    def _usable(self, spec: ServerSpec) -> ServerRecord | None:
        """The recorded server where it runs and fits; one that does not fit is stopped."""
        record = self.record()
        if record is None or record.state in ("stopped", "failed"):
            return None
        if record.kind == "attached" and spec.kind == "attached":
            return record
        adopted = adopt(record, spec)
        if adopted is not None:
            if adopted.state != "ready":
                self._reporter.say(f"server: pid {adopted.pid} is still loading: adopted")
            return adopted
        self.stop()
        return None

    def _launch(self, spec: ServerSpec) -> ServerRecord:
        if spec.kind != "attached":
            what = "with the profiler" if spec.profile_dir else "without a profiler"
            self._reporter.say(f"server: starting {spec.engine} {what} on {spec.base_url}")
        log = self._campaign.store.state_folder / "server.log"
        return launch(spec, log, lambda record: self._save(record, "server"))

    def _failed(self, record: ServerRecord, spec: ServerSpec, error: ServerError) -> None:
        """Clean up after a server that will not get ready, so that nothing holds its port or its memory."""
        known = self.record() or record
        if known.kind == "attached":
            self._save(msgspec.structs.replace(known, state="failed", failure=str(error)), "server failed")
            return
        presence, found = find(known)
        if presence in ("loading", "ready", "orphans"):
            found = stop(found, spec)
        self._save(msgspec.structs.replace(found, state="failed", failure=str(error)), "server failed")

    def _before_retry(self, call: tenacity.RetryCallState) -> None:
        failure = call.outcome.exception() if call.outcome else None
        wait_s = call.next_action.sleep if call.next_action else 0.0
        self._reporter.say(f"server: {failure} Start {call.attempt_number + 1} of {MAX_LAUNCHES} in {wait_s:.0f} s")

    def _show(self, progress: LoadProgress) -> None:
        share = f" {progress.progress * 100:.0f} %" if progress.progress is not None else ""
        eta = f", about {progress.eta_s:.0f} s to go" if progress.eta_s is not None else ""
        text = f"loading: {progress.load_phase}{share}, {progress.elapsed_s:.0f} s since its start{eta}"
        total_s = progress.elapsed_s + progress.eta_s if progress.eta_s is not None else 0.0
        self._reporter.progress("server", progress.elapsed_s, total_s, text)
        record = self.record()
        if record is not None and time.monotonic() - self._saved_s >= SAVE_EVERY_S:
            self._saved_s = time.monotonic()
            seen = msgspec.structs.replace(record, load_phase=progress.load_phase, progress=progress.progress)
            if seen != record:
                self._save(seen, "server loads")

    # What is remembered

    def _access(self, record: ServerRecord, need: ServerNeed) -> ServerAccess:
        return ServerAccess(
            url=record.url,
            model=record.served_name,
            api_key_env=self._campaign.config.server.api_key_env,
            profile_dir=(record.profile_dir or self._campaign.config.server.profile_dir) if need == "profiled" else "",
            world_size=self._campaign.config.target.tensor_parallel * self._campaign.config.target.pipeline_parallel,
        )

    def _earlier_loads(self) -> list[PastLoad]:
        return [msgspec.convert(load, PastLoad) for load in self._state().loads]

    def _learn(self, record: ServerRecord) -> None:
        load = past_load(record)
        if load is not None:
            loads = (*self._state().loads, schema.builtins(load))[-KEPT_LOADS:]
            self._save_state(msgspec.structs.replace(self._state(), loads=loads), "load learnt")

    def _save(self, record: ServerRecord, what: str) -> None:
        self._save_state(msgspec.structs.replace(self._state(), server=schema.builtins(record)), what)


def server_spec(campaign: OpenCampaign, *, is_profiled: bool = False) -> ServerSpec:
    """The server that campaign.toml describes."""
    config: Config = campaign.config
    table, target = config.server, config.target
    world_size = target.tensor_parallel * target.pipeline_parallel
    if not table.manage:
        return attached_spec(table.url, api_key_env=table.api_key_env, world_size=world_size)
    folder = campaign.store.folder
    profile_dir: Path | None = None
    if is_profiled or table.profile_ready:
        profile_dir = campaign.store.state_folder / "profiles"
    timeout_s = duration_s(table.ready_timeout) or 3600.0
    if table.command:
        return command_spec(
            table.command, stop_command=table.stop_command, url=table.url, campaign_dir=folder, env=table.env,
            model=target.model, tensor_parallel=target.tensor_parallel, profile_dir=profile_dir,
            ready_timeout_s=timeout_s,
        )  # fmt: skip
    host, port = split_url(table.url)
    return vllm_spec(
        target.model, port=port, host=host, campaign_dir=folder, tensor_parallel=target.tensor_parallel,
        pipeline_parallel=target.pipeline_parallel, device=campaign.device.kind, args=table.args, env=table.env,
        profile_dir=profile_dir, ready_timeout_s=timeout_s,
    )  # fmt: skip
