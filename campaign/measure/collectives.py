"""Measures collectives over all ranks: `python -m campaign.measure.collectives --config IN --out OUT`."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from campaign import gpus, host, links
from campaign.errors import PhaseError
from campaign.measure import nccl_log
from campaign.measure.ranks import Group, rank_folder
from campaign.measurement import Measurement, now_utc, run_script
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
#: Larger messages are not asked about: NCCL's choice changes below this.
ASKED_AT_MOST_BYTES = 64 << 20
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
    notes = _measure(run, todo, environment)
    if run.config.device == "cuda":
        environment, why = _ask_nccl(run, environment)
        notes += [why] if why else []
    _write(run, environment, notes)


def _measure(run: Run, todo: list[CollectivePoint], environment: Environment) -> list[str]:
    """Measure all; a path beside torch's own on which a rank dies or hangs is left out, and the rest goes on.

    Returns what to note of the whole run.
    """
    left = todo
    while left:
        try:
            return _measure_together(run, left, environment)
        except PhaseError as error:
            left = [point for point in left if not run.is_done(key_of(point))]
            failed = left[0].backend if left else "torch"
            if failed == "torch":
                raise
            run.say(f"{error} Going on without {failed}.")
            _give_up(run, [point for point in left if point.backend == failed], str(error))
            left = [point for point in left if point.backend != failed]
    return []


def _give_up(run: Run, points: list[CollectivePoint], why: str) -> None:
    ranks = tuple(RankSamples(rank=rank, note=why) for rank in range(run.config.ranks))
    for point in points:
        kept = _with_samples(point, ranks, None, None)
        run.keep_point(key_of(point), kept, started_at=now_utc(), duration_s=0.0)


@contextlib.contextmanager
def _started(
    config: CollectivesConfig, todo: list[CollectivePoint], folder: Path, variables: dict[str, str]
) -> Iterator[Group]:
    """The ranks while the block runs; none of them outlives it."""
    todo_path = folder / "todo.json"
    todo_path.write_bytes(encode({"config": config, "todo": todo}))
    group = Group(RANK_MODULE, config.ranks, todo_path, folder, _rank_environment(config) | variables)
    try:
        yield group
    finally:
        group.kill()


def _measure_together(run: Run, todo: list[CollectivePoint], environment: Environment) -> list[str]:
    with rank_folder() as folder, _started(run.config, todo, folder, {}) as group:
        _collect(run, todo, group)
        # Written before the tear-down, which may hang.
        _write(run, environment, ())
        hung = group.end()
    if not hung:
        return []
    return [f"ranks {', '.join(map(str, hung))} hung in tear-down after everything was measured; they were ended"]


def _rank_environment(config: CollectivesConfig) -> dict[str, str]:
    threads = max(1, host.usable_cpus() // config.ranks)
    return {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}


def _collect(run: Run, todo: list[CollectivePoint], group: Group) -> None:
    """Keep a point as soon as every rank has reported it."""
    waiting = {key_of(point): point for point in todo}
    got: dict[str, dict[int, RankSamples]] = {}
    started_at, start = now_utc(), time.monotonic()
    before: host.Reading | None = None
    run.say(f"{group.ranks} ranks: {', '.join(f'{r}={p.pid}' for r, p in enumerate(group.processes))}")

    def during() -> str:
        return next(iter(waiting), "the last point")

    for rank, message in group.messages(run.config.timeout_s, during):
        if message["event"] != "done":
            continue
        # Read at work for the first time here: idle clocks and a GPU without our ranks compare with nothing.
        before = before or host.read_state()
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
    point: CollectivePoint, ranks: tuple[RankSamples, ...], before: host.Reading | None, after: host.Reading | None
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
    linked = links.read_links()
    return Environment(
        library=f"NCCL {version}",
        variables=variables,
        topology=gpus.read_topology(),
        link=links.link_of(linked, name),
        device_name=name,
        gpus=linked,
    )


def _ask_nccl(run: Run, environment: Environment) -> tuple[Environment, str]:
    """Which algorithm NCCL takes for the sizes here, and why that is not known."""
    config = run.config
    sizes = sorted({config.burst_bytes, *config.sizes_bytes})
    asked = [
        CollectivePoint(backend="torch", operation="all_reduce", size_bytes=size, calls=1)
        for size in sizes
        if size <= ASKED_AT_MOST_BYTES
    ]
    short = msgspec.structs.replace(config, samples=1)
    with rank_folder() as folder:
        more = nccl_log.variables(folder)
        try:
            with _started(short, asked, folder, more) as group:
                for _ in group.messages(config.timeout_s, lambda: "NCCL's own account of its choices"):
                    pass
        except PhaseError as error:
            return environment, f"NCCL's choices are not known: {error}"
        choices = nccl_log.read_choices(folder)
    why = "" if choices else "NCCL wrote nothing about its choices; the kernels' names tell algorithm and protocol"
    return msgspec.structs.replace(environment, nccl_choices=choices), why


if __name__ == "__main__":
    run_script(main)
