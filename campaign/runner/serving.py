"""The server that phases need: reused where it fits, adopted where it runs, started where it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from campaign import schema
from campaign.config import Config, duration_s
from campaign.errors import ServerError
from campaign.phases.kind import ServerAccess, ServerNeed
from campaign.runner.ledger import Ledger
from campaign.runner.opening import OpenCampaign
from campaign.runner.reporting import Reporter, StopRequest
from campaign.server import (
    LivenessWatch,
    LoadProgress,
    PastLoad,
    ServerRecord,
    ServerSpec,
    attached_spec,
    check_process,
    command_spec,
    ensure_ready,
    past_load,
    satisfies,
    stop,
    vllm_spec,
)
from campaign.server.vllm import split_url

#: So many past loads teach the ETA.
KEPT_LOADS = 10


class ServerKeeper:
    """One campaign's server."""

    def __init__(
        self,
        campaign: OpenCampaign,
        reporter: Reporter,
        stop_request: StopRequest,
        ledger: Ledger,
    ) -> None:
        self._campaign = campaign
        self._reporter = reporter
        self._stop_request = stop_request
        self._ledger = ledger

    # What phases ask for

    def ensure(self, need: ServerNeed) -> ServerAccess:
        """A ready server for a phase; raises `ServerError` with the cause from its log where there is none."""
        spec = server_spec(self._campaign, is_profiled=need == "profiled")
        known = self.record()
        if known is not None and known.state in ("starting", "loading"):
            self._reporter.say(f"server: an earlier start (pid {known.pid}) is looked for")
        elif spec.kind != "attached" and (known is None or known.state != "ready"):
            what = "with the profiler" if spec.profile_dir else "without a profiler"
            self._reporter.say(f"server: starting {spec.engine} {what} on {spec.base_url}")
        try:
            record = ensure_ready(
                known,
                spec,
                log_path=self._campaign.store.state_folder / "server.log",
                save=lambda one: self._save(one, "server"),
                on_progress=self._show,
                should_stop=lambda: bool(self._stop_request),
                earlier=self._earlier_loads(),
            )
        finally:
            self._reporter.end("server")
        if known is None or known.token != record.token or known.state != "ready":
            self._reporter.say(f"server: ready after {record.ready_s or 0:.0f} s at {record.url}")
            self._learn(record)
        if need == "profiled" and not record.has_profiler:
            raise ServerError(
                f"{record.url} has no profiler (no /start_profile). Start that server with --profiler-config, or leave "
                "the profile phase out: python -m campaign skip profile"
            )
        return self._access(record, need)

    @contextlib.contextmanager
    def watched(self, need: ServerNeed) -> Iterator[Callable[[], str | None]]:
        """While a phase runs: what to ask for a reason why its server can no longer be measured.

        While a profile is exported a healthy server answers nothing for minutes: there only its death counts, and
        the script's own deadlines.
        """
        record = self.record() if need != "none" else None
        if record is None:
            yield lambda: None
            return
        with LivenessWatch(record, check=check_process if need == "profiled" else None) as watch:
            yield lambda: str(watch.error) if watch.error else None

    def serves(self, need: ServerNeed) -> bool:
        """Whether the server that runs now is what such a phase needs, without another load."""
        record = self.record()
        if need == "none" or record is None or record.kind == "attached" or record.state != "ready":
            return False
        return satisfies(record, server_spec(self._campaign, is_profiled=need == "profiled"))

    def free_device(self) -> None:
        """Stop the server that we started, so that the device is measured undisturbed."""
        record = self.record()
        if record is not None and record.kind != "attached":
            self.stop()

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
        known = self._ledger.state.server
        return msgspec.convert(known, ServerRecord) if known else None

    # What is shown and remembered

    def _show(self, progress: LoadProgress) -> None:
        share = f" {progress.progress * 100:.0f} %" if progress.progress is not None else ""
        eta = f", about {progress.eta_s:.0f} s to go" if progress.eta_s is not None else ""
        doing = f"loading: {progress.load_phase}{share}"
        if progress.load_phase == "answering":  # a loaded server is asked too, before each further phase
            doing = "waiting for its answer"
        text = f"{doing}, {progress.elapsed_s:.0f} s since its start{eta}"
        total_s = progress.elapsed_s + progress.eta_s if progress.eta_s is not None else 0.0
        self._reporter.progress("server", progress.elapsed_s, total_s, text)

    def _access(self, record: ServerRecord, need: ServerNeed) -> ServerAccess:
        return ServerAccess(
            url=record.url,
            model=record.served_name,
            api_key_env=self._campaign.config.server.api_key_env,
            profile_dir=(record.profile_dir or self._campaign.config.server.profile_dir) if need == "profiled" else "",
            world_size=self._campaign.config.target.tensor_parallel * self._campaign.config.target.pipeline_parallel,
        )

    def _earlier_loads(self) -> list[PastLoad]:
        return [msgspec.convert(load, PastLoad) for load in self._ledger.state.loads]

    def _learn(self, record: ServerRecord) -> None:
        load = past_load(record)
        if load is not None:
            loads = (*self._ledger.state.loads, schema.builtins(load))[-KEPT_LOADS:]
            self._ledger.save(msgspec.structs.replace(self._ledger.state, loads=loads), "load learnt")

    def _save(self, record: ServerRecord, what: str) -> None:
        self._ledger.save(msgspec.structs.replace(self._ledger.state, server=schema.builtins(record)), what)


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
