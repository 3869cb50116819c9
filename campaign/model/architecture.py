"""What a model is made of, as far as its arithmetic needs it: attention, experts, layers, number formats."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign.model.quantization import Quantization


class Grouped(msgspec.Struct, frozen=True, kw_only=True, tag="grouped"):
    """Attention with one query head or more to a key-value head (MHA, MQA, GQA)."""

    heads: int
    """Query heads of the whole model."""
    kv_heads: int
    """Key-value heads of the whole model."""
    head_dim: int
    """Elements of one head."""
    has_norm_over_ranks: bool = False
    """Whether queries and keys are normalised over all heads at once, which costs an all-reduce a layer."""
    has_gate: bool = False
    """Whether the query projection carries an output gate of the same width (Qwen3-Next and its kin)."""


class Latent(msgspec.Struct, frozen=True, kw_only=True, tag="latent"):
    """Multi-head latent attention (MLA) of DeepSeek-V2 and its kin."""

    heads: int
    """Query heads of the whole model."""
    q_lora_rank: int | None
    """Width of the compressed query; None = queries are projected directly."""
    kv_lora_rank: int
    """Width of the compressed key-value."""
    qk_nope_head_dim: int
    """Elements of a head without position."""
    qk_rope_head_dim: int
    """Elements of a head that carry the rotary position."""
    v_head_dim: int
    """Elements of a value head."""
    index_heads: int | None = None
    """Heads of the sparse-attention indexer; None = dense attention."""
    index_head_dim: int | None = None
    """Elements of one indexer head."""
    index_topk: int | None = None
    """Tokens that the indexer chooses and attention reads; None = all."""
    index_layers: tuple[int, ...] = ()
    """Layers that have an indexer of their own."""


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The routed and shared experts of a MoE layer."""

    count: int
    """Routed experts."""
    active: int
    """Routed experts a token goes through."""
    width: int
    """Intermediate width of one routed expert."""
    shared_width: int = 0
    """Intermediate width of all shared experts together; 0 = none."""
    has_shared_gate: bool = False
    """Whether the shared expert's output is gated by a one-column linear."""
    router_dtype: str | None = None
    """Weight format of the router where it differs from the model's."""
    is_router_quantized: bool = False
    """Whether the engine quantizes the router like any other linear, unless the checkpoint leaves it out."""
    splits_tokens: bool = False
    """Whether each tensor-parallel rank takes its part of the tokens where tensor, expert and data parallelism meet."""
    activation: str = "silu"
    """What stands between gate_up and down, as vLLM names it; its gate doubles gate_up's width."""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """How the checkpoint calls its modules, for the ignore lists of quantization."""

    attention: str = "self_attn"
    """The attention module."""
    mlp: str = "mlp"
    """The dense MLP, and the MoE block."""
    experts: str = "mlp.experts"
    """The routed experts."""
    shared: str = "mlp.shared_experts"
    """The shared experts."""
    expert_parts: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    """The three matrices of a routed expert."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder's dimensions, read from its config.json."""

    architecture: str
    """Name of the architecture in config.json (of the language model where it is nested)."""
    model_type: str = ""
    """`model_type` in the same place."""
    family: Literal["deepseek", "gqa", "generic"]
    """Which reading was used; `generic` = the architecture is not known here."""
    hidden_size: int
    """Elements of the residual stream."""
    layers: int
    """Decoder layers that run in a step (multi-token-prediction layers are not among them)."""
    moe_layers: tuple[int, ...] = ()
    """Indices of the layers that have routed experts."""
    dense_width: int = 0
    """Intermediate width of the dense MLP."""
    is_gated: bool = True
    """Whether the MLP has gate and up matrices (SwiGLU and its kin)."""
    attention: Grouped | Latent
    """The attention of every layer."""
    experts: Experts | None = None
    """The experts; None = a dense model."""
    vocabulary: int
    """Rows of the vocabulary."""
    dtype: str = "bf16"
    """Format of weights that are not quantized, and of activations: bf16, fp16, fp32."""
    quantization: Quantization = Quantization()
    """How weights are quantized, and which are not."""
    names: Names = Names()
    """How the checkpoint calls its modules."""
    sliding_window: int | None = None
    """Tokens that windowed layers look back; None = all layers see everything."""
    windowed_layers: int = 0
    """How many layers are windowed."""
    mtp_layers: int = 0
    """Multi-token-prediction layers in the checkpoint, which a plain decode step does not run."""
    unknown: tuple[str, ...] = ()
    """What config.json did not tell or this package does not know; empty = the arithmetic is exact."""

    @property
    def dense_layers(self) -> int:
        """Layers with a dense MLP."""
        return self.layers - len(self.moe_layers)
