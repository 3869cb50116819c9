"""What the attention script is given and what it writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign.host import Reading
from campaign.phases.gemm_data import Peaks

#: torch = scaled_dot_product_attention; flash = FlashAttention, mla = FlashMLA, triton = vLLM's Triton decode kernel.
Backend = Literal["torch", "flash", "mla", "triton"]
KvFormat = Literal["bf16", "fp16", "fp32", "fp8"]


class AttentionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The script's parameters."""

    device: Literal["cuda", "cpu"] = "cpu"
    """Where to measure."""
    is_latent: bool
    """MLA: one latent head that all query heads read."""
    heads: int
    """Query heads of this rank."""
    kv_heads: int
    """Key-value heads of this rank (1 for MLA)."""
    qk_dim: int
    """Elements of a query or key (latent + rope for MLA)."""
    v_dim: int
    """Elements of a value (the latent for MLA)."""
    layers: int
    """Calls a decode step."""
    dtype: str = "bf16"
    """Format of queries."""
    kv_dtype: tuple[KvFormat, ...]
    """Formats of the cache."""
    batch: tuple[int, ...]
    """Sequences."""
    context_tokens: tuple[int, ...]
    """Tokens a sequence."""
    backends: tuple[Backend, ...]
    """Kernels."""
    samples: int = 20
    """Samples a round."""
    memory_limit_gb: float = 1.0
    """Most memory for caches."""
    ranks: int = 1
    """Ranks that share this machine's CPUs."""
    seed: int = 0
    """Seed of the data."""


class AttentionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One batch, context, format and backend."""

    backend: Backend
    """Kernel family asked for."""
    kernel: str = ""
    """What ran."""
    batch: int
    """Sequences."""
    context_tokens: int
    """Tokens a sequence."""
    kv_dtype: KvFormat
    """Format of the cache."""
    cold_us: tuple[tuple[float, ...], ...] = ()
    """Samples a round over rotated caches, µs a call."""
    relative_error: float | None = None
    """Largest difference from float32, over its largest value."""
    is_correct: bool = False
    """Whether rounding explains that."""
    kv_bytes: float = 0.0
    """Bytes of one cache."""
    buffers: int = 0
    """Caches rotated over."""
    cpu_share: float | None = None
    """CPU time that this process got over its threads' wall time; CPU only."""
    note: str = ""
    """Why there are no samples, or what was cut."""
    before: Reading | None = None
    """Device state before."""
    after: Reading | None = None
    """Device state after."""


class AttentionData(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    peaks: Peaks
    """The device."""
    points: tuple[AttentionPoint, ...]
    """In the order of measurement."""


def point_key(backend: str, kv_dtype: str, batch: int, context_tokens: int) -> str:
    """The key of a point."""
    return f"{backend}.{kv_dtype}@b{batch}.c{context_tokens}"


def planned(config: AttentionConfig) -> tuple[AttentionPoint, ...]:
    """The points to measure, in order, without samples."""
    return tuple(
        AttentionPoint(backend=backend, batch=batch, context_tokens=context, kv_dtype=kv_dtype)
        for backend in config.backends
        for kv_dtype in config.kv_dtype
        for batch in config.batch
        for context in config.context_tokens
    )


def key_of(point: AttentionPoint) -> str:
    """The key of a planned point."""
    return point_key(point.backend, point.kv_dtype, point.batch, point.context_tokens)
