"""The gemm phase: every matrix product of a decode step at its sharded shape, and how far it is from its floor."""

from __future__ import annotations

import msgspec

from campaign import host
from campaign.errors import ConfigError
from campaign.model import quantization_config_of, read_model, shard
from campaign.phases.gemm_data import EXPERTS, GemmConfig, GemmData, Peaks, fused_pair, point_key, singles_of
from campaign.phases.gemm_table import (
    GemmRow,
    GemmView,
    drift_of,
    floors_ms_of,
    other_peaks_of,
    rows_of,
    step_ms_of,
)
from campaign.phases.kind import Analysis, Context
from campaign.phases.microbenchmark import check_counts, check_samples, findings_of, makers_of, microbenchmark
from campaign.schema import Finding, Quantity, Result, decode, encode

MEMORY_LIMIT_GB = {"cuda": 16.0, "cpu": 1.0}


class GemmParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person may write under `[[phase]] kind = "gemm"`."""

    batch: tuple[int, ...] = (1, 16)
    """Tokens a step (M)."""
    samples: int = 20
    """Samples a round; there are two rounds, so that their difference shows the spread."""
    memory_limit_gb: float | None = None
    """Most memory for rotated buffers of one point; null = 16 on a GPU, 1 on a CPU."""
    kinds: tuple[str, ...] = ()
    """Layer kinds to measure, e.g. `["qkv", "o"]`; empty = all."""
    linear_backend: str = "auto"
    """Kernels of dense linears, as vLLM's `--linear-backend` names them; auto = its own choice."""
    moe_backend: str = "auto"
    """Kernels of routed experts, as vLLM's `--moe-backend` names them; auto = its own choice."""


def _configure(parameters: GemmParameters, context: Context) -> GemmConfig:
    target = context.target
    check_counts("batch", parameters.batch)
    check_samples(parameters.samples)
    config_json = host.read_model_config(target.config_path)
    model, quantization = read_model(config_json), quantization_config_of(config_json)
    linears = shard(model, target.tensor_parallel, target.expert_parallel).linears
    strangers = set(parameters.kinds) - {linear.kind for linear in linears}
    if strangers:
        known = ", ".join(linear.kind for linear in linears)
        raise ConfigError(f"kinds: {', '.join(sorted(strangers))} is no layer kind of this model; it has {known}.")
    chosen = [linear for linear in linears if not parameters.kinds or linear.kind in parameters.kinds]
    return GemmConfig(
        device=target.device,
        linears=tuple(chosen),
        batch=parameters.batch,
        dtype=model.dtype,
        samples=parameters.samples,
        memory_limit_gb=parameters.memory_limit_gb or MEMORY_LIMIT_GB[target.device],
        ranks=target.tensor_parallel,
        quantization=encode(quantization).decode() if quantization else "",
        model_type=model.model_type,
        activation=model.experts.activation if model.experts is not None else "silu",
        linear_backend=parameters.linear_backend,
        moe_backend=parameters.moe_backend,
    )


def _points(config: GemmConfig) -> tuple[str, ...]:
    kinds = [linear.kind for linear in singles_of(config)] + ([EXPERTS] if fused_pair(config) else [])
    return ("peaks", *(point_key(kind, m) for m in config.batch for kind in kinds))


def _analyze(result: Result, context: Context) -> Analysis:
    config, data = decode(result.config, GemmConfig), decode(result.data, GemmData)
    rows = rows_of(config, data)
    view = GemmView(
        rows=rows,
        batches=config.batch,
        step_ms={str(m): step_ms_of(rows, m) for m in config.batch},
        device=result.host.cpu if config.device == "cpu" else data.peaks.device.name,
        is_cpu=config.device == "cpu",
        peaks_are_measured=data.peaks.is_measured,
        memory_gb_s=data.peaks.device.memory_gb_s,
        peak_tflops=data.peaks.device.peak_tflops(config.dtype),
        other_peaks_tflops=other_peaks_of(config, data),
        tensor_parallel=context.target.tensor_parallel,
        cache_mb=data.peaks.cache_bytes / 2**20,
        drift=drift_of(data),
        notes=tuple(dict.fromkeys(note for point in data.points for note in point.notes)),
    )
    return Analysis(view=view, quantities=_quantities(rows, config, data.peaks, result), findings=_findings(view))


def _floor_note(peaks: Peaks) -> str:
    return "peaks measured here, no physical limit" if peaks.is_measured else f"peaks: {peaks.device.source}"


def _quantities(rows: tuple[GemmRow, ...], config: GemmConfig, peaks: Peaks, result: Result) -> tuple[Quantity, ...]:
    found: list[Quantity] = []
    measured, computed = makers_of("gemm", result)
    for position, m in enumerate(config.batch):
        suffix = "" if position == 0 else f"@b{m}"
        found.append(measured(f"gemm.step_ms{suffix}", step_ms_of(rows, m), "ms"))
        found += [
            measured(f"gemm.step_ms.{category}{suffix}", step_ms_of(rows, m, category), "ms")
            for category in dict.fromkeys(row.category for row in rows)
        ]
        weights = sum(linear.calls * linear.bytes_read(m) for linear in config.linears)
        found.append(computed(f"model.weight_bytes_per_step{suffix}", weights, "B"))
        found += [
            computed(f"model.floor_ms.{category}{suffix}", floor_ms, "ms", _floor_note(peaks))
            for category, floor_ms in floors_ms_of(config, peaks, m).items()
        ]
        for row in (row for row in rows if row.m == m):
            found.append(measured(f"gemm.us.{row.kind}{suffix}", row.cold_us, "us", row.note))
            found.append(measured(f"gemm.floor_fraction.{row.kind}{suffix}", row.floor_fraction, "1"))
    return tuple(found)


def _findings(view: GemmView) -> tuple[Finding, ...]:
    rows = ((f"{row.kind}.b{row.m}", f"GEMM {row.kind} at M = {row.m}", row.note) for row in view.rows)
    return findings_of("gemm", "the GEMM measurements", rows, view.drift)


KIND = microbenchmark(
    "gemm",
    "GEMM at this model's shapes",
    parameters=GemmParameters,
    configure=_configure,
    points=_points,
    analyze=_analyze,
)
