"""The attention phase: decode attention over batch, context, KV format and backend."""

from __future__ import annotations

import msgspec

from campaign import host
from campaign.model import Grouped, Latent, read_model, shard
from campaign.phases.attention_data import AttentionConfig, AttentionData, Backend, KvFormat, key_of, planned
from campaign.phases.attention_table import AttentionView, drift_of, row_of
from campaign.phases.kind import Analysis, Context
from campaign.phases.microbenchmark import check_counts, check_samples, findings_of, makers_of, microbenchmark
from campaign.schema import Finding, Result, decode


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


def _configure(parameters: AttentionParameters, context: Context) -> AttentionConfig:
    target = context.target
    check_counts("batch", parameters.batch)
    check_counts("context_tokens", parameters.context_tokens)
    check_samples(parameters.samples)
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


def _analyze(result: Result, _context: Context) -> Analysis:
    config, data = decode(result.config, AttentionConfig), decode(result.data, AttentionData)
    rows = tuple(row_of(point, config, data.peaks) for point in data.points)
    view = AttentionView(
        rows=rows,
        layers=config.layers,
        heads=config.heads,
        is_latent=config.is_latent,
        device=result.host.cpu if config.device == "cpu" else data.peaks.device.name,
        is_cpu=config.device == "cpu",
        peaks_are_measured=data.peaks.is_measured,
        memory_gb_s=data.peaks.device.memory_gb_s,
        drift=tuple(dict.fromkeys(text for point in data.points for text in drift_of(point))),
    )
    measured, _ = makers_of("attention", result)
    quantities = tuple(
        measured(
            f"attention.us.{row.backend}.{row.kv_dtype}.b{row.batch}.c{row.context_tokens}", row.us, "us", row.note
        )
        for row in rows
    )
    return Analysis(view=view, quantities=quantities, findings=_findings(view))


def _findings(view: AttentionView) -> tuple[Finding, ...]:
    rows = (
        (
            f"{row.backend}.{row.kv_dtype}.b{row.batch}.c{row.context_tokens}",
            f"Attention at batch {row.batch}, {row.context_tokens} tokens through {row.backend}",
            row.note,
        )
        for row in view.rows
    )
    return findings_of("attention", "the attention measurements", rows, view.drift)


KIND = microbenchmark(
    "attention",
    "Decode attention",
    parameters=AttentionParameters,
    configure=_configure,
    points=_points,
    analyze=_analyze,
    blocked_by=_blocked_by,
    script_version=2,  # 2: Triton's decode attention gets its scales, so that it runs in a CUDA graph
)
