"""Measures collectives over all ranks: `python -m campaign.measure.collectives --config IN --out OUT`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

from campaign import host
from campaign.errors import PhaseError
from campaign.measure.ranks import Group, rank_folder
from campaign.measurement import Measurement, now_utc, run_script
from campaign.model import find_device
from campaign.phases.collectives import KIND
from campaign.phases.collectives_data import (
    CollectivePoint,
    CollectivesConfig,
    CollectivesData,
    Environment,
    RankSamples,
    key_of,
    planned,
)
from campaign.schema import decode, encode

Run = Measurement[CollectivesConfig]
RANK_MODULE = "campaign.measure.collectives_rank"


def main(argv: Sequence[str]) -> None:
    """Start the ranks, keep each point when all have it, write the result, then tear down."""
    run: Run = Measurement("collectives", KIND.script_version, CollectivesConfig, argv)
    if run.config.device == "cuda":
        occupants = host.describe_occupants()
        if occupants is not None:
            raise PhaseError(occupants)
    todo = [point for point in planned(run.config) if not run.is_done(key_of(point))]
    environment = read_environment(run.config)
    if todo:
        _measure(run, todo, environment)
    else:
        _write(run, environment, ())


def _measure(run: Run, todo: list[CollectivePoint], environment: Environment) -> None:
    with rank_folder() as folder:
        todo_path = folder / "todo.json"
        todo_path.write_bytes(encode({"config": run.config, "todo": todo}))
        group = Group(RANK_MODULE, run.config.ranks, todo_path, folder, _rank_environment(run.config))
        try:
            _collect(run, todo, group)
            _write(run, environment, ())
            hung = group.end()
        finally:
            group.kill()
        if hung:
            note = f"ranks {', '.join(map(str, hung))} hung in tear-down after everything was measured; they were ended"
            _write(run, environment, (note,))


def _rank_environment(config: CollectivesConfig) -> dict[str, str]:
    threads = max(1, host.usable_cpus() // config.ranks)
    return {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}


def _collect(run: Run, todo: list[CollectivePoint], group: Group) -> None:
    """Keep a point as soon as every rank has reported it."""
    waiting = {key_of(point): point for point in todo}
    got: dict[str, dict[int, RankSamples]] = {}
    started_at, start, before = now_utc(), time.monotonic(), host.read_state()
    run.say(f"{group.ranks} ranks: {', '.join(f'{r}={p.pid}' for r, p in enumerate(group.processes))}")

    def during() -> str:
        return next(iter(waiting), "the last point")

    for rank, message in group.messages(run.config.timeout_s, during):
        if message["event"] != "done":
            continue
        key = message["key"]
        samples = got.setdefault(key, {})
        samples[rank] = decode(encode(message["samples"]), RankSamples)
        if len(samples) < group.ranks:
            continue
        point = waiting.pop(key)
        ordered = tuple(samples[r] for r in sorted(samples))
        after = host.read_state()
        kept = _with_samples(point, ordered, before, after)
        run.keep_point(key, kept, started_at=started_at, duration_s=time.monotonic() - start)
        run.say(f"{key} done, {len(waiting)} to go")
        started_at, start, before = now_utc(), time.monotonic(), after


def _with_samples(
    point: CollectivePoint, ranks: tuple[RankSamples, ...], before: host.Reading, after: host.Reading
) -> CollectivePoint:
    return CollectivePoint(
        backend=point.backend,
        operation=point.operation,
        size_bytes=point.size_bytes,
        calls=point.calls,
        is_burst=point.is_burst,
        ranks=ranks,
        before=before,
        after=after,
    )


def _write(run: Run, environment: Environment, notes: Sequence[str]) -> None:
    wanted = KIND.points(run.config)
    points = tuple(decode(p.data, CollectivePoint) for p in run.points() if p.key in wanted)
    data = CollectivesData(environment=environment, points=points)
    run.write(data, host=host.read_host(run.config.device), versions=host.read_versions(), notes=notes)


def read_environment(config: CollectivesConfig) -> Environment:
    """Library, variables and topology; nothing is loaded here that would hold a GPU."""
    names = ("NCCL_", "GLOO_", "VLLM_", "CUDA_VISIBLE_DEVICES")
    variables = {k: v for k, v in sorted(os.environ.items()) if k.startswith(names) and "KEY" not in k}
    if config.device == "cpu":
        return Environment(library="gloo", variables=variables, device_name="cpu")
    import torch

    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    name = host.read_host("cuda").device
    known = find_device(name)
    return Environment(
        library=f"NCCL {version}",
        variables=variables,
        topology=_topology(),
        link=known.link if known else None,
        device_name=name,
    )


def _topology() -> str:
    try:
        found = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip()


if __name__ == "__main__":
    run_script(main)
