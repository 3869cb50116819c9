"""Decode attention kernels over a KV cache: torch everywhere, vLLM's own on a GPU, a reason where one is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from campaign.measure.matrices import DTYPES, TOLERANCES, copies_for, relative_error
from campaign.measure.reasons import reason_of
from campaign.phases.attention_data import AttentionConfig, AttentionPoint

#: FP8 keeps 3 bits of mantissa; keys, values and queries are all rounded to it.
FP8_TOLERANCE = 0.1
PAGE = 64


@dataclass(kw_only=True)
class Prepared:
    """A kernel with its caches, ready to be timed."""

    kernel: str
    """Name of what runs."""
    call: Callable[[int], torch.Tensor]
    """Decode over cache number i; (batch, heads, v_dim)."""
    copies: int
    """Caches to go round."""
    kv_bytes: float
    """Bytes of one."""
    error: float
    """Difference from float32."""
    tolerance: float
    """What rounding explains."""


@dataclass(kw_only=True)
class Caches:
    """Random queries and KV caches of one point, (batch, context, kv heads, dim)."""

    q: torch.Tensor
    """(batch, heads, qk_dim)."""
    keys: list[torch.Tensor]
    """A copy each."""
    values: list[torch.Tensor]
    """A copy each; for MLA views of the keys."""
    kv_bytes: float
    """Bytes of one copy."""


def prepare(config: AttentionConfig, point: AttentionPoint, cache_bytes: int) -> Prepared | str:
    """The kernel of a point, run once and compared with float32; a reason where it cannot run."""
    form = "bf16" if point.kv_dtype == "fp8" else point.kv_dtype
    if point.kv_dtype == "fp8" and point.backend != "flash":
        return f"no FP8 cache through {point.backend} here"
    try:
        caches = _caches(config, point, form, cache_bytes)
    except (ValueError, torch.OutOfMemoryError) as error:
        return reason_of(error)
    try:
        kernel, call = _MAKERS[point.backend](config, point, caches)
        found = call(0)
    except Exception as error:
        # Other people's kernels: they import, compile and check in their own ways and raise anything. A kernel that
        # does not load or run is a reason in its row; the next one is measured.
        return reason_of(error)
    difference = relative_error(found, _reference(config, caches))
    tolerance = FP8_TOLERANCE if point.kv_dtype == "fp8" else TOLERANCES[form]
    size = caches.kv_bytes / (2 if point.kv_dtype == "fp8" else 1)
    return Prepared(
        kernel=kernel, call=call, copies=len(caches.keys), kv_bytes=size, error=difference, tolerance=tolerance
    )


def _caches(config: AttentionConfig, point: AttentionPoint, form: str, cache_bytes: int) -> Caches:
    dtype = DTYPES[form]
    generator = torch.Generator(config.device).manual_seed(config.seed)
    width = config.qk_dim if config.is_latent else config.qk_dim + config.v_dim
    element = torch.empty((), dtype=dtype).element_size()
    kv_bytes = float(point.batch * point.context_tokens * config.kv_heads * width * element)
    copies = min(copies_for(kv_bytes, cache_bytes), int(config.memory_limit_gb * 1e9 // kv_bytes))
    if copies < 1:
        raise ValueError(f"a cache of {kv_bytes / 1e9:.3g} GB is over the limit of {config.memory_limit_gb:g} GB")

    def random(*shape: int) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device=config.device).normal_(generator=generator)

    rows = (point.batch, point.context_tokens, config.kv_heads)
    keys = [random(*rows, config.qk_dim) for _ in range(copies)]
    values = [k[..., : config.v_dim] if config.is_latent else random(*rows, config.v_dim) for k in keys]
    return Caches(q=random(point.batch, config.heads, config.qk_dim), keys=keys, values=values, kv_bytes=kv_bytes)


def _attend(config: AttentionConfig, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The query heads that share a key-value head are its query rows: decode attention needs no mask."""
    grouped = q.view(q.shape[0], config.kv_heads, -1, config.qk_dim)
    out = functional.scaled_dot_product_attention(grouped, k.transpose(1, 2), v.transpose(1, 2))
    return out.reshape(q.shape[0], config.heads, config.v_dim)


def _reference(config: AttentionConfig, caches: Caches) -> torch.Tensor:
    """Sequence by sequence in float32, so that long contexts fit."""
    rows = [
        _attend(config, q.float()[None], k.float()[None], v.float()[None])
        for q, k, v in zip(caches.q, caches.keys[0], caches.values[0], strict=True)
    ]
    return torch.cat(rows)


Made = tuple[str, Callable[[int], torch.Tensor]]


def _make_torch(config: AttentionConfig, _point: AttentionPoint, caches: Caches) -> Made:
    def call(i: int) -> torch.Tensor:
        return _attend(config, caches.q, caches.keys[i], caches.values[i])

    return "torch scaled_dot_product_attention", call


def _tables(point: AttentionPoint, device: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """(block table, lengths, blocks a sequence) of caches whose pages lie one after another."""
    if point.context_tokens % PAGE:
        raise ValueError(f"context_tokens must be a multiple of {PAGE} for paged kernels")
    blocks = point.context_tokens // PAGE
    table = torch.arange(point.batch * blocks, dtype=torch.int32, device=device).view(point.batch, blocks)
    lengths = torch.full((point.batch,), point.context_tokens, dtype=torch.int32, device=device)
    return table, lengths, blocks


def _paged(cache: torch.Tensor) -> torch.Tensor:
    return cache.reshape(-1, PAGE, *cache.shape[2:])


def _make_flash(config: AttentionConfig, point: AttentionPoint, caches: Caches) -> Made:
    from vllm.vllm_flash_attn import flash_attn_interface as flash

    version = next((v for v in (3, 2, 4) if flash.is_fa_version_supported(v)), None)
    if version is None:
        raise RuntimeError("no FlashAttention is built for this device")
    table, lengths, _ = _tables(point, config.device)
    starts = torch.arange(point.batch + 1, dtype=torch.int32, device=config.device)
    kind = torch.float8_e4m3fn if point.kv_dtype == "fp8" else caches.q.dtype
    q = caches.q.to(kind)
    keys, values = ([_paged(c).to(kind) for c in part] for part in (caches.keys, caches.values))
    scales: dict[str, Any] = {}
    if point.kv_dtype == "fp8":
        one = torch.ones(point.batch, config.kv_heads, dtype=torch.float32, device=config.device)
        scales = {"q_descale": one, "k_descale": one, "v_descale": one}

    def call(i: int) -> torch.Tensor:
        found: torch.Tensor = flash.flash_attn_varlen_func(
            q=q,
            k=keys[i],
            v=values[i],
            max_seqlen_q=1,
            cu_seqlens_q=starts,
            max_seqlen_k=point.context_tokens,
            seqused_k=lengths,
            causal=True,
            block_table=table,
            fa_version=version,
            **scales,
        )
        return found

    return f"vLLM FlashAttention {version}, pages of {PAGE}", call


def _make_mla(config: AttentionConfig, point: AttentionPoint, caches: Caches) -> Made:
    from vllm.v1.attention.ops import flashmla

    is_supported, why = flashmla.is_flashmla_dense_supported()
    if not is_supported:
        raise RuntimeError(why or "FlashMLA is not supported here")
    table, lengths, _ = _tables(point, config.device)
    q, pages = caches.q.unsqueeze(1), [_paged(k) for k in caches.keys]
    metadata, splits = _mla_metadata(flashmla, lengths, config)

    def call(i: int) -> torch.Tensor:
        out, _ = flashmla.flash_mla_with_kvcache(
            q=q,
            k_cache=pages[i],
            block_table=table,
            cache_seqlens=lengths,
            head_dim_v=config.v_dim,
            tile_scheduler_metadata=metadata,
            num_splits=splits,
            softmax_scale=config.qk_dim**-0.5,
            causal=True,
        )
        found: torch.Tensor = out.view(point.batch, config.heads, config.v_dim)
        return found

    return f"vLLM FlashMLA, pages of {PAGE}", call


def _mla_metadata(flashmla: Any, lengths: torch.Tensor, config: AttentionConfig) -> tuple[Any, Any]:
    """Newer FlashMLA plans by itself at the first call; older ones want lengths and heads."""
    try:
        made = flashmla.get_mla_metadata()
    except TypeError:
        made = flashmla.get_mla_metadata(lengths, config.heads, 1)
    return made if isinstance(made, tuple) else (made, None)


def _make_triton(config: AttentionConfig, point: AttentionPoint, caches: Caches) -> Made:
    from vllm.v1.attention.ops.triton_decode_attention import decode_attention_fwd

    table, lengths, _ = _tables(point, config.device)
    splits = 4
    shape = (point.batch, config.heads)
    out = torch.empty(*shape, config.v_dim, dtype=caches.q.dtype, device=config.device)
    lse = torch.empty(*shape, dtype=caches.q.dtype, device=config.device)
    logits = torch.empty(*shape, splits, config.v_dim + 1, dtype=torch.float32, device=config.device)
    keys, values = ([_paged(c) for c in part] for part in (caches.keys, caches.keys))
    if not config.is_latent:
        values = [_paged(v) for v in caches.values]
    # Without scales it makes them on the host in each call, which no CUDA graph can capture; an engine passes its own.
    one = torch.ones((), dtype=torch.float32, device=config.device)
    extra = {"k_scale": one, "v_scale": one, "is_mla": config.is_latent}

    def call(i: int) -> torch.Tensor:
        v = values[i][..., : config.v_dim]
        arguments = (caches.q, keys[i], v, out, lse, table, lengths, logits, splits, config.qk_dim**-0.5, PAGE)
        decode_attention_fwd(*arguments, **extra)
        return out

    return f"vLLM Triton decode attention, pages of {PAGE}, {splits} splits", call


_MAKERS: dict[str, Callable[[AttentionConfig, AttentionPoint, Caches], Made]] = {
    "torch": _make_torch,
    "flash": _make_flash,
    "mla": _make_mla,
    "triton": _make_triton,
}


def calls_of(prepared: Prepared) -> list[Callable[[], object]]:
    """A call for each cache."""
    return [partial(prepared.call, i) for i in range(prepared.copies)]
