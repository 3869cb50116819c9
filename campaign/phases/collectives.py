"""The collectives phase: what ranks exchange in a decode step, at the model's sizes and over a sweep."""

from __future__ import annotations

import msgspec

from campaign import host
from campaign.errors import ConfigError
from campaign.links import describe_links
from campaign.model import allreduce_floor_us, read_model, shard
from campaign.phases.collectives_data import (
    Backend,
    CollectivesConfig,
    CollectivesData,
    Environment,
    Operation,
    key_of,
    planned,
)
from campaign.phases.collectives_table import (
    BurstRow,
    CollectiveRow,
    Fit,
    bursts_of,
    choices_of,
    drift_of,
    fit_of,
    rows_of,
    unmeasured_of,
)
from campaign.phases.kind import Analysis, Context
from campaign.phases.microbenchmark import REFUSED, check_counts, check_samples, findings_of, makers_of, microbenchmark
from campaign.schema import Finding, Quantity, Result, decode

#: 1 KiB to 256 MiB on GPUs; a CPU's sweep ends earlier so that a campaign stays short.
SWEEP = {"cuda": tuple(1 << bits for bits in range(10, 29, 2)), "cpu": (1 << 10, 1 << 14, 1 << 18, 1 << 22)}
EVERY: tuple[Operation, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
#: The order in which vLLM prefers them, then what it does not use; those that do not load are noted.
BACKENDS: dict[str, tuple[Backend, ...]] = {
    "cuda": ("custom", "symmetric", "pynccl", "torch", "one_shot", "two_shot", "flashinfer"),
    "cpu": ("torch",),
}


class CollectivesParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person may write under `[[phase]] kind = "collectives"`."""

    batch: tuple[int, ...] = (1, 16)
    """Tokens a step; the model's messages at these are among the sizes, the first is the burst's."""
    sizes_bytes: tuple[int, ...] | None = None
    """Sweep; null = 1 KiB to 256 MiB on GPUs, to 4 MiB on a CPU."""
    operations: tuple[Operation, ...] = EVERY
    """What is measured over all sizes."""
    backends: tuple[Backend, ...] | None = None
    """Ways to communicate; null = all that this device could have."""
    samples: int = 20
    """Samples a point."""
    timeout_s: float = 60.0
    """Longest time without progress before all ranks are ended."""


class CollectivesView(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the template."""

    rows: tuple[CollectiveRow, ...]
    """The sweep: what has a time, or was refused."""
    unmeasured: tuple[str, ...]
    """What has none and why, a line for each path and reason."""
    bursts: tuple[BurstRow, ...]
    """The decode burst by backend."""
    burst: BurstRow | None
    """The one that stands for the engine: the first backend that could be measured."""
    fits: tuple[Fit, ...]
    """α–β fit by backend."""
    ranks: int
    """Processes of the group."""
    device: str
    """GPU, or the CPU's name."""
    is_cpu: bool
    """Whether gloo on a CPU was measured: its times say nothing of a GPU."""
    environment: Environment
    """Library, variables, topology."""
    choices: tuple[str, ...]
    """NCCL's algorithm and protocol by stretches of sizes, as it tells itself."""
    links: str
    """The GPUs' links in words; empty = the driver tells nothing."""
    drift: tuple[str, ...]
    """What changed on the devices in between."""
    notes: tuple[str, ...]
    """Caveats of the whole measurement."""


def _configure(parameters: CollectivesParameters, context: Context) -> CollectivesConfig:
    target = context.target
    check_counts("batch", parameters.batch)
    check_samples(parameters.samples)
    if parameters.timeout_s <= 0:
        raise ConfigError(f"timeout_s = {parameters.timeout_s}: write seconds above 0, e.g. 60.")
    model = read_model(host.read_model_config(target.config_path))
    shards = shard(model, target.tensor_parallel, target.expert_parallel)
    sweep = SWEEP[target.device] if parameters.sizes_bytes is None else parameters.sizes_bytes
    if sweep:
        check_counts("sizes_bytes", sweep)
    sizes = sorted({*sweep, *(shards.message_bytes(m) for m in parameters.batch)})
    return CollectivesConfig(
        device=target.device,
        ranks=target.tensor_parallel,
        dtype=model.dtype,
        backends=parameters.backends or BACKENDS[target.device],
        operations=parameters.operations,
        sizes_bytes=tuple(sizes),
        burst_calls=max(1, shards.collectives_per_step),
        burst_bytes=shards.message_bytes(parameters.batch[0]),
        bytes_per_token=shards.message_bytes(1),
        samples=parameters.samples,
        timeout_s=parameters.timeout_s,
    )


def _points(config: CollectivesConfig) -> tuple[str, ...]:
    return tuple(key_of(point) for point in planned(config))


def _blocked_by(context: Context) -> str | None:
    if context.target.tensor_parallel == 1:
        return "TP 1 has no collectives: one rank holds the whole model."
    return None


def _analyze(result: Result, _context: Context) -> Analysis:
    config, data = decode(result.config, CollectivesConfig), decode(result.data, CollectivesData)
    rows, bursts = rows_of(data, config.ranks), bursts_of(data)
    measured = [burst for burst in bursts if burst.us_per_call is not None]
    fits = tuple(fit for backend in config.backends if (fit := fit_of(rows, backend)) is not None)
    view = CollectivesView(
        rows=tuple(row for row in rows if row.is_measured or row.note.startswith(REFUSED)),
        unmeasured=unmeasured_of(rows),
        bursts=bursts,
        burst=measured[0] if measured else None,
        fits=fits,
        ranks=config.ranks,
        device=result.host.cpu if config.device == "cpu" else result.host.device,
        is_cpu=config.device == "cpu",
        environment=data.environment,
        choices=choices_of(data.environment.nccl_choices, (*config.sizes_bytes, config.burst_bytes)),
        links=describe_links(data.environment.gpus),
        drift=tuple(dict.fromkeys(text for point in data.points for text in drift_of(point))),
        notes=() if result.imported else result.notes,
    )
    return Analysis(view=view, quantities=_quantities(view, config, result), findings=_findings(view))


def _quantities(view: CollectivesView, config: CollectivesConfig, result: Result) -> tuple[Quantity, ...]:
    burst = view.burst
    fit = next((fit for fit in view.fits if burst is None or fit.backend == burst.backend), None)
    note = "gloo on a CPU: says nothing of a GPU" if view.is_cpu else f"through {burst.backend}" if burst else ""
    measured, computed = makers_of("collectives", result)
    found = [
        measured("collectives.burst_ms", burst.ms if burst else None, "ms", note),
        measured("collectives.burst_graph_ms", burst.graph_ms if burst else None, "ms", note),
        computed("collectives.burst_calls", float(burst.calls if burst else config.burst_calls), "1"),
        measured("collectives.burst_us_per_call", burst.us_per_call if burst else None, "us", note),
        computed("collectives.message_bytes", float(config.burst_bytes), "B"),
        measured("collectives.alpha_us", fit.alpha_us if fit else None, "us", note),
        measured("collectives.beta_gb_s", fit.beta_gb_s if fit else None, "GB/s", note),
        computed("model.allreduces_per_step", float(config.burst_calls), "1"),
        computed("model.message_bytes", float(config.bytes_per_token), "B"),
    ]
    link = view.environment.link
    if link is not None:
        best_us = min(allreduce_floor_us(config.burst_bytes, config.ranks, link).values())
        found.append(computed("model.floor_ms.allreduce", config.burst_calls * best_us / 1e3, "ms"))
    return tuple(found)


def _findings(view: CollectivesView) -> tuple[Finding, ...]:
    rows = (
        (
            f"{row.backend}.{row.operation}.{row.size_bytes}",
            f"{row.operation} of {row.size_bytes} bytes through {row.backend}",
            row.note,
        )
        for row in view.rows
    )
    return findings_of("collectives", "the collectives", rows, view.drift)


KIND = microbenchmark(
    "collectives",
    "Collectives",
    parameters=CollectivesParameters,
    configure=_configure,
    points=_points,
    analyze=_analyze,
    blocked_by=_blocked_by,
)
