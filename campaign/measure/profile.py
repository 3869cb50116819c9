"""Profiles decode steps of the running server, batch by batch, and analyses every rank's trace."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from campaign import host
from campaign.errors import PhaseError, ServerError
from campaign.load.bench import Bench, Outcome
from campaign.load.endpoint import endpoint_of
from campaign.load.prompts import RandomIds
from campaign.load.workload import Load
from campaign.measurement import Measurement, run_script
from campaign.model import find_device, read_model, shard
from campaign.phases.profile import KIND
from campaign.phases.profile_data import Capture, Config, Data
from campaign.server import ServerRecord, ServerSpec, capture_profile
from campaign.server.capture import CaptureProgress
from campaign.trace import analyze

#: Uncompressed and read again and again, a trace folder is never cheap: moved, not copied.
TRACES = "traces"


class Session:
    """One run of the script: the server, and the requests that make its batch."""

    def __init__(self, measurement: Measurement[Config]) -> None:
        self._measurement = measurement
        self._config = measurement.config
        server = self._config.server
        self._record = ServerRecord(
            state="ready", kind="attached", url=server.url, served_name=server.model, world_size=server.world_size,
            has_profiler=True, profile_dir=server.profile_dir, api_key_env=server.api_key_env,
        )  # fmt: skip
        self._bench = Bench(
            endpoint_of(server.url, api_key_env=server.api_key_env), server.model, RandomIds, say=measurement.say
        )
        self._last_step = ""

    def capture(self, batch: int) -> Capture:
        """Warm up, measure without the profiler, then the same requests under it."""
        load = Load(
            requests=batch,
            input_tokens=self._config.input_tokens,
            output_tokens=self._config.steps + 1,
            concurrency=batch,
        )
        unprofiled = self._complete(self._bench.run_cell(load, repeat=1))
        begun = time.monotonic()
        files = capture_profile(
            self._record,
            ServerSpec(kind="attached", url=self._config.server.url),
            lambda: self._drive(load),
            self._show,
        )
        stop_s = time.monotonic() - begun
        kept = self._keep(batch, files)
        self._measurement.say(f"batch {batch}: analysing {len(kept)} trace files")
        analysis = analyze(
            kept,
            step_regex=self._config.step_regex or None,
            extra_categories=[(category, pattern) for pattern, category in self._config.categories.items()],
        )
        if analysis.decode is None:
            problems = "; ".join(analysis.problems) or "no step annotation was recognised"
            raise PhaseError(f"no decode step was found in {kept[0].parent}: {problems}. Try step_regex.")
        floor_ms, weight_bytes = self._floors(batch)
        return Capture(
            batch=batch,
            traces=tuple(str(path) for path in kept),
            trace_bytes=sum(path.stat().st_size for path in kept),
            unprofiled_tpot_ms=unprofiled.cell.tpot_ms.mean,
            stop_s=stop_s,
            analysis=analysis,
            floor_ms=floor_ms,
            weight_bytes=weight_bytes,
        )

    def _complete(self, outcome: Outcome) -> Outcome:
        if outcome.cell.failed:
            raise PhaseError(f"{outcome.cell.failed} requests failed: {outcome.cell.errors}. Look at the server's log.")
        return outcome

    def _drive(self, load: Load) -> None:
        self._complete(self._bench.run_cell(load, repeat=2))

    def _show(self, progress: CaptureProgress) -> None:
        if progress.step != self._last_step:
            self._last_step = progress.step
            self._measurement.say(f"profiler: {progress.step}, {progress.bytes_written / 1e6:.1f} MB written")

    def _keep(self, batch: int, files: Sequence[Path]) -> list[Path]:
        folder = self._measurement.out.parent / TRACES / f"batch-{batch}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return [Path(shutil.move(path, folder / path.name)) for path in files]

    def _floors(self, batch: int) -> tuple[dict[str, float], float | None]:
        target = self._config.target
        if not target.config_path:
            return {}, None
        shards = shard(
            read_model(host.read_model_config(target.config_path)), target.tensor_parallel, target.expert_parallel
        )
        device = find_device(host.read_host(target.device).device) if target.device == "cuda" else None
        context = self._config.input_tokens + self._config.steps // 2
        floors = shards.floor_ms(device, batch, context) if device else {}
        return floors, shards.weight_bytes_per_step(batch)


def main(argv: Sequence[str]) -> None:
    """Measure one point a batch size."""
    measurement = Measurement(KIND.name, KIND.script_version, Config, argv)
    config = measurement.config
    if not config.server.profile_dir:
        raise ServerError("the server's profile folder is not known: write server.profile_dir in campaign.toml.")
    session = Session(measurement)
    for batch in config.batch:
        measurement.measure_point(f"batch {batch}", lambda batch=batch: session.capture(batch))  # type: ignore[misc]
    captures = {point.key: msgspec.json.decode(point.data, type=Capture) for point in measurement.points()}
    data = Data(captures=tuple(captures[f"batch {batch}"] for batch in config.batch))
    measurement.write(data, host=host.read_host(config.target.device), versions=host.read_versions())


if __name__ == "__main__":
    run_script(main)
