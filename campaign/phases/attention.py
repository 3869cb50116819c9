"""The attention phase: decode attention over batch, context, KV format and backend."""

from __future__ import annotations

import msgspec

from campaign import host
from campaign.errors import ConfigError
from campaign.host import describe_drift
from campaign.model import Grouped, Latent, read_model, shard
from campaign.phases.attention_data import (
    AttentionConfig,
    AttentionData,
    AttentionPoint,
    Backend,
    KvFormat,
    key_of,
    planned,
)
from campaign.phases.gemm_data import Peaks
from campaign.phases.gemm_table import LEAST_CPU_SHARE, PEAK_TOLERANCE
from campaign.phases.kind import Analysis, Context, PhaseKind
from campaign.phases.samples import flatten, median, percentile, spread_of_rounds
from campaign.schema import Finding, Quantity, Result, Source, decode


class AttentionParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person may write under `[[phase]] kind = "attention"`."""

    batch: tuple[int, ...] = (1, 16)
    """Sequences."""
    context_tokens: tuple[int, ...] = (1024, 16384)
    """Tokens in the KV cache a sequence."""
    kv_dtype: tuple[KvFormat, ...] = ()
    """Formats of the cache; empty = the model's."""
    backends: tuple[Backend, ...] = ()
    """Kernels; empty = those of this device and kind of attention."""
    samples: int = 20
    """Samples a round; there are two rounds."""
    memory_limit_gb: float | None = None
    """Most memory for caches; null = 32 on a GPU, 1 on a CPU."""


class AttentionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; None = not known, shown as –."""

    backend: str
    """Kernel family."""
    kernel: str
    """What ran."""
    batch: int
    """Sequences."""
    context_tokens: int
    """Tokens a sequence."""
    kv_dtype: str
    """Format of the cache."""
    us: float | None
    """Median a call (one layer), cold."""
    p10_us: float | None
    """10th percentile."""
    p90_us: float | None
    """90th percentile."""
    gb_s: float | None
    """KV bytes over the time."""
    floor_fraction: float | None
    """KV bytes over bandwidth, over the time."""
    spread: float | None
    """Difference of the two rounds' medians over their mean."""
    step_ms: float | None
    """Times the layers."""
    note: str
    """Refusal or caveat."""


class AttentionView(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the template."""

    rows: tuple[AttentionRow, ...]
    """One a point."""
    layers: int
    """Calls a decode step."""
    heads: int
    """Query heads of a rank."""
    is_latent: bool
    """MLA."""
    device: str
    """Device name."""
    is_cpu: bool
    """Whether a CPU was measured: its times say nothing of a GPU."""
    peaks_are_measured: bool
    """Whether floors rest on a bandwidth measured here."""
    memory_gb_s: float | None
    """Bandwidth that floors rest on."""
    drift: tuple[str, ...]
    """What changed on the device in between."""


def _configure(parameters: AttentionParameters, context: Context) -> AttentionConfig:
    target = context.target
    if not parameters.batch or not parameters.context_tokens or min(*parameters.batch, *parameters.context_tokens) < 1:
        raise ConfigError("batch and context_tokens: write one or more whole numbers above 0.")
    if parameters.samples < 3:
        raise ConfigError(f"samples = {parameters.samples}: write 3 or more.")
    model = read_model(host.read_model_config(target.config_path))
    shard(model, target.tensor_parallel, target.expert_parallel)
    attention, tp = model.attention, target.tensor_parallel
    latent_dims = (
        (attention.kv_lora_rank + attention.qk_rope_head_dim, attention.kv_lora_rank)
        if isinstance(attention, Latent)
        else (attention.head_dim, attention.head_dim)
    )
    own = ("mla", "triton", "torch") if isinstance(attention, Latent) else ("flash", "triton", "torch")
    backends: tuple[Backend, ...] = own if target.device == "cuda" else ("torch",)  # type: ignore[assignment]
    return AttentionConfig(
        device=target.device,
        is_latent=isinstance(attention, Latent),
        heads=attention.heads // tp,
        kv_heads=max(1, attention.kv_heads // tp) if isinstance(attention, Grouped) else 1,
        qk_dim=latent_dims[0],
        v_dim=latent_dims[1],
        layers=model.layers,
        dtype=model.dtype,
        kv_dtype=parameters.kv_dtype or (model.dtype,),  # type: ignore[arg-type]
        batch=parameters.batch,
        context_tokens=parameters.context_tokens,
        backends=parameters.backends or backends,
        samples=parameters.samples,
        memory_limit_gb=parameters.memory_limit_gb or {"cuda": 32.0, "cpu": 1.0}[target.device],
        ranks=tp,
    )


def _blocked_by(context: Context) -> str | None:
    attention = read_model(host.read_model_config(context.target.config_path)).attention
    if isinstance(attention, Latent) and attention.index_topk is not None:
        return f"Sparse attention reads {attention.index_topk} chosen tokens; its kernels are not measured here."
    return None


def _points(config: AttentionConfig) -> tuple[str, ...]:
    return ("peaks", *(key_of(point) for point in planned(config)))


def _drift(point: AttentionPoint) -> tuple[str, ...]:
    if point.cpu_share is not None and point.cpu_share < LEAST_CPU_SHARE:
        return (f"other processes took {1 - point.cpu_share:.0%} of the CPU time",)
    return () if point.before is None or point.after is None else describe_drift(point.before, point.after)


def _refusal(point: AttentionPoint, gb_s: float | None, peaks: Peaks) -> str:
    if not point.cold_us:
        return f"not measured: {point.note or 'no samples'}"
    if not point.is_correct:
        return f"refused: wrong result (error {point.relative_error})"
    limit = peaks.device.memory_gb_s
    if not peaks.is_measured and gb_s is not None and limit is not None and gb_s > limit * PEAK_TOLERANCE:
        return f"refused: {gb_s:.0f} GB/s is above the memory's {limit:.0f}"
    return ""


def _row(point: AttentionPoint, config: AttentionConfig, peaks: Peaks) -> AttentionRow:
    samples = flatten(point.cold_us)
    us = median(samples)
    gb_s = point.kv_bytes / us / 1e3 if us else None
    refusal = _refusal(point, gb_s, peaks)
    limit = peaks.device.memory_gb_s
    is_usable = not refusal and us is not None and gb_s is not None
    return AttentionRow(
        backend=point.backend,
        kernel=point.kernel,
        batch=point.batch,
        context_tokens=point.context_tokens,
        kv_dtype=point.kv_dtype,
        us=us if is_usable else None,
        p10_us=percentile(samples, 10) if is_usable else None,
        p90_us=percentile(samples, 90) if is_usable else None,
        gb_s=gb_s if is_usable else None,
        floor_fraction=gb_s / limit if is_usable and limit and gb_s is not None else None,
        spread=spread_of_rounds(point.cold_us) if is_usable else None,
        step_ms=us * config.layers / 1e3 if is_usable and us is not None else None,
        note=refusal or "; ".join([*([point.note] if point.note else []), *_drift(point)]),
    )


def _analyze(result: Result, _context: Context) -> Analysis:
    config, data = decode(result.config, AttentionConfig), decode(result.data, AttentionData)
    rows = tuple(_row(point, config, data.peaks) for point in data.points)
    view = AttentionView(
        rows=rows,
        layers=config.layers,
        heads=config.heads,
        is_latent=config.is_latent,
        device=result.host.cpu if config.device == "cpu" else data.peaks.device.name,
        is_cpu=config.device == "cpu",
        peaks_are_measured=data.peaks.is_measured,
        memory_gb_s=data.peaks.device.memory_gb_s,
        drift=tuple(dict.fromkeys(text for point in data.points for text in _drift(point))),
    )
    source = Source(phase="attention", attempt=result.attempt, pointer="/points")
    quantities = []
    for row in rows:
        name = f"attention.us.{row.backend}.{row.kv_dtype}.b{row.batch}.c{row.context_tokens}"
        quantities.append(Quantity(name=name, value=row.us, unit="us", source=source, note=row.note))
    findings = tuple(
        Finding(
            id=f"attention.refused.{row.backend}.b{row.batch}.c{row.context_tokens}",
            text=f"Attention at batch {row.batch}, {row.context_tokens} tokens through {row.backend}: {row.note}.",
            severity="broken",
        )
        for row in rows
        if row.note.startswith("refused")
    )
    return Analysis(view=view, quantities=tuple(quantities), findings=findings)


KIND = PhaseKind(
    name="attention",
    title="Decode attention",
    parameters=AttentionParameters,
    script_version=1,
    server="none",
    configure=_configure,
    points=_points,
    analyze=_analyze,
    template="attention.md.j2",
    uses_device=True,
    blocked_by=_blocked_by,
)
