"""The matrices of each kind of layer at the size that one rank holds, before their weight format is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from campaign.model.architecture import Experts, Grouped, Latent, Model

#: vLLM's Marlin kernel pads the width of MXFP4 experts to a multiple of this.
MXFP4_PADDING = 128
Category = Literal["gemm", "moe_gemm"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A matrix before its weight format is known; `modules` are its names in the checkpoint, `{i}` for the layer."""

    name: str
    kind: str
    n: int
    k: int
    modules: tuple[str, ...] = ()
    category: Category = "gemm"
    matrices: int = 1
    active: float | None = None
    is_replicated: bool = False
    dtype: str | None = None
    """A format of its own, whatever the quantization says."""


def grouped_shapes(model: Model, attention: Grouped, tp: int, names: Callable[[str], str]) -> list[Shape]:
    """qkv and o of grouped attention; key-value heads are replicated where there are fewer than ranks."""
    heads, kv_heads = attention.heads // tp, max(1, attention.kv_heads // tp)
    query = heads * (2 if attention.has_gate else 1)
    module = model.names.attention
    return [
        Shape(
            name="self_attn.qkv_proj",
            kind="qkv",
            n=(query + 2 * kv_heads) * attention.head_dim,
            k=model.hidden_size,
            modules=(names(f"{module}.q_proj"), names(f"{module}.k_proj"), names(f"{module}.v_proj")),
        ),
        _output(model, heads * attention.head_dim, names),
    ]


def _output(model: Model, width: int, names: Callable[[str], str]) -> Shape:
    """The projection of all heads' outputs, `width` together, back to the hidden size."""
    module = names(f"{model.names.attention}.o_proj")
    return Shape(name="self_attn.o_proj", kind="o", n=model.hidden_size, k=width, modules=(module,))


def latent_shapes(model: Model, attention: Latent, tp: int, names: Callable[[str], str]) -> list[Shape]:
    """The decode path of MLA: projections, the two absorbed batched products, o."""
    heads = attention.heads // tp
    nope, rank, dtype = attention.qk_nope_head_dim, attention.kv_lora_rank, model.dtype
    return [
        *_latent_queries(model, attention, heads, names),
        Shape(name="self_attn.W_UK_T", kind="k_absorb", n=rank, k=nope, matrices=heads, dtype=dtype),
        Shape(name="self_attn.W_UV", kind="v_absorb", n=attention.v_head_dim, k=rank, matrices=heads, dtype=dtype),
        _output(model, heads * attention.v_head_dim, names),
    ]


def _latent_queries(model: Model, attention: Latent, heads: int, names: Callable[[str], str]) -> list[Shape]:
    compressed = attention.kv_lora_rank + attention.qk_rope_head_dim
    query_dim = heads * (attention.qk_nope_head_dim + attention.qk_rope_head_dim)
    module = model.names.attention
    if attention.q_lora_rank is None:
        return [
            Shape(
                name="self_attn.q_proj",
                kind="q",
                n=query_dim,
                k=model.hidden_size,
                modules=(names(f"{module}.q_proj"),),
            ),
            Shape(
                name="self_attn.kv_a_proj_with_mqa",
                kind="kv_a",
                n=compressed,
                k=model.hidden_size,
                modules=(names(f"{module}.kv_a_proj_with_mqa"),),
                is_replicated=True,
            ),
        ]
    return [
        Shape(
            name="self_attn.fused_qkv_a_proj",
            kind="qkv_a",
            n=attention.q_lora_rank + compressed,
            k=model.hidden_size,
            modules=(names(f"{module}.q_a_proj"), names(f"{module}.kv_a_proj_with_mqa")),
            is_replicated=True,
        ),
        Shape(
            name="self_attn.q_b_proj",
            kind="q_b",
            n=query_dim,
            k=attention.q_lora_rank,
            modules=(names(f"{module}.q_b_proj"),),
        ),
    ]


def indexer_shapes(model: Model, attention: Latent, names: Callable[[str], str]) -> list[Shape]:
    """The sparse-attention indexer, held whole by every rank."""
    if attention.index_heads is None or attention.index_head_dim is None or attention.q_lora_rank is None:
        return []
    return [
        Shape(
            name="self_attn.indexer.wq_b",
            kind="index_q",
            n=attention.index_heads * attention.index_head_dim,
            k=attention.q_lora_rank,
            modules=(names(f"{model.names.attention}.indexer.wq_b"),),
            is_replicated=True,
        ),
        Shape(
            name="self_attn.indexer.wk_weights_proj",
            kind="index_k_weights",
            n=attention.index_head_dim + attention.index_heads,
            k=model.hidden_size,
            is_replicated=True,
            dtype=model.dtype,
        ),
    ]


def mlp_shapes(
    model: Model, width: int, tp: int, *, prefix: str, kind: str, module: Callable[[str], str]
) -> list[Shape]:
    """gate_up and down of a dense MLP or of the shared experts."""
    first = "gate_proj" if model.is_gated else "up_proj"
    return [
        Shape(
            name=f"{prefix}.gate_up_proj",
            kind=f"{kind}gate_up",
            n=(2 if model.is_gated else 1) * width // tp,
            k=model.hidden_size,
            modules=(module(first), module("up_proj")),
        ),
        Shape(
            name=f"{prefix}.down_proj",
            kind=f"{kind}down",
            n=model.hidden_size,
            k=width // tp,
            modules=(module("down_proj"),),
        ),
    ]


def expert_shapes(model: Model, experts: Experts, tp: int, ep: int, names: Callable[[str], str]) -> list[Shape]:
    """Router and routed experts: sharded along the width, or whole experts a rank where `ep` > 1."""
    gate, _, down = model.names.expert_parts
    local = experts.count // ep
    width = padded_width(model, experts, 1 if ep > 1 else tp)
    return [
        Shape(
            name=f"{model.names.mlp}.gate",
            kind="router",
            n=experts.count,
            k=model.hidden_size,
            modules=(names(f"{model.names.mlp}.gate"),) if experts.is_router_quantized else (),
            is_replicated=True,
            dtype=None if experts.is_router_quantized else experts.router_dtype or model.dtype,
        ),
        Shape(
            name=f"{model.names.experts}.w13_weight",
            kind="moe_gate_up",
            category="moe_gemm",
            n=2 * width,
            k=model.hidden_size,
            modules=(names(f"{model.names.experts}.0.{gate}"),),
            matrices=local,
            active=experts.active / ep,
        ),
        Shape(
            name=f"{model.names.experts}.w2_weight",
            kind="moe_down",
            category="moe_gemm",
            n=model.hidden_size,
            k=width,
            modules=(names(f"{model.names.experts}.0.{down}"),),
            matrices=local,
            active=experts.active / ep,
        ),
    ]


def padded_width(model: Model, experts: Experts, tp: int) -> int:
    """Width of one expert on a rank; MXFP4 experts are cut by whole 32-blocks and padded as Marlin pads them."""
    if model.quantization.method != "mxfp4":
        return experts.width // tp
    blocks = -(-(experts.width // 32) // tp)
    return -(-blocks * 32 // MXFP4_PADDING) * MXFP4_PADDING
