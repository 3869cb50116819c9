"""A model on its ranks: shapes, bytes and collectives of one decode step, and the least time it can take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from campaign.errors import ConfigError
from campaign.model.architecture import Experts, Grouped, Latent, Model
from campaign.model.devices import Device, allreduce_floor_us
from campaign.model.linears import Linear, linears_of
from campaign.model.shapes import (
    MXFP4_PADDING,
    Shape,
    expert_shapes,
    grouped_shapes,
    indexer_shapes,
    latent_shapes,
    mlp_shapes,
)

#: vLLM pads the vocabulary to a multiple of this before it is cut over ranks.
VOCABULARY_PADDING = 64
#: Elements of an indexer's key that share a scale in vLLM's cache.
INDEX_BLOCK = 128
ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1}

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]


class Collective(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of collective of a decode step."""

    operation: Operation
    """What the ranks do."""
    what: str
    """What is sent: attention output, MLP output, embedding, logits, norm of queries and keys."""
    calls: int
    """Calls a step."""
    bytes_per_token: int
    """Bytes of the message for one token, on one rank."""


class Shards(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's part of a model under tensor and expert parallelism."""

    model: Model
    """The model."""
    tp: int
    """Ranks that share each dense layer."""
    ep: int
    """Ranks that share the routed experts whole; 1 = experts are sharded like dense layers."""
    dp: int
    """Groups of `tp` ranks that each hold all of attention."""
    linears: tuple[Linear, ...]
    """Matrix products of a decode step, in the order of a layer."""
    prefill_linears: tuple[Linear, ...]
    """Matrices that only prefill multiplies (MLA's kv_b)."""
    collectives: tuple[Collective, ...]
    """Collectives of a decode step."""
    kv_bytes_per_token: int
    """Bytes of KV cache a token costs on this rank, over all layers."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What could not be told, of the model and of its cut; empty = the arithmetic is exact."""
        found = list(self.model.unknown)
        if self.model.quantization.method == "mxfp4":
            found.append(
                "MXFP4 experts: kernels pad them each in its own way; counted with the width padded to "
                f"{MXFP4_PADDING} and the hidden size as it is"
            )
        if self.dp > 1 and self.model.moe_layers:
            found.append(
                "data parallelism: how tokens reach experts depends on the engine's version and all-to-all kernels; "
                "counted as all-gather and reduce-scatter"
            )
        return tuple(found)

    @property
    def collectives_per_step(self) -> int:
        """All-reduces of the model's layers and embedding that a decode step makes (messages of `message_bytes`)."""
        return sum(c.calls for c in self.collectives if c.operation == "all_reduce" and c.what != NORM)

    @property
    def layer_allreduces(self) -> int:
        """The same without the embedding's."""
        return sum(c.calls for c in self.collectives if c.operation == "all_reduce" and c.what not in (NORM, EMBEDDING))

    def message_bytes(self, tokens: int) -> int:
        """Bytes of one hidden-state all-reduce at `tokens` tokens."""
        return tokens * self.model.hidden_size * ELEMENT_BYTES[self.model.dtype]

    def weight_bytes_per_step(self, batch: int) -> float:
        """Weight bytes that this rank reads in a decode step of `batch` tokens; experts: the mean distinct ones."""
        return sum(linear.calls * linear.bytes_read(self._tokens_at(linear, batch)) for linear in self.linears)

    def _tokens_at(self, linear: Linear, batch: int) -> int:
        """Tokens that reach a matrix: the experts' come from all data-parallel groups, each with `batch`."""
        return batch * self.dp if linear.category == "moe_gemm" else batch

    def weight_bytes_held(self) -> float:
        """Bytes of all matrices that this rank holds (norms, biases and the embedding not counted)."""
        return sum(linear.calls * linear.weight_bytes for linear in self.linears)

    def kv_bytes_read(self, batch: int, context: int) -> int:
        """KV bytes that this rank reads in a decode step: `context` tokens a sequence, less in windowed layers.

        Sparse attention reads the keys of its indexer at every token and the cache at those that it chose.
        """
        layers, window, attention = self.model.layers, self.model.sliding_window, self.model.attention
        if isinstance(attention, Latent) and attention.index_topk is not None:
            keys = _index_bytes(attention)
            chosen = min(context, attention.index_topk)
            return batch * (context * keys + chosen * (self.kv_bytes_per_token - keys))
        per_layer = self.kv_bytes_per_token / layers
        windowed = self.model.windowed_layers if window is not None else 0
        tokens = (layers - windowed) * context + windowed * min(context, window or context)
        return round(batch * tokens * per_layer)

    def floor_ms(self, device: Device, batch: int, context: int = 0) -> dict[str, float]:
        """Least time of a decode step by category, ms; a category whose peak is not known is left out.

        max(2·M·N·K/peak, bytes/bandwidth) a matrix product; KV bytes over bandwidth for attention; the best of
        one-shot, two-shot and ring for all-reduces.
        """
        floors: dict[str, float] = {}
        for linear in self.linears:
            each_us = linear_floor_us(linear, device, self._tokens_at(linear, batch))
            if each_us is not None:
                floors[linear.category] = floors.get(linear.category, 0.0) + linear.calls * each_us / 1e3
        if device.memory_gb_s is not None and context > 0:
            floors["attention"] = self.kv_bytes_read(batch, context) / (device.memory_gb_s * 1e6)
        if device.link is not None and self.tp > 1:
            best_us = min(allreduce_floor_us(self.message_bytes(batch), self.tp, device.link).values())
            floors["allreduce"] = self.collectives_per_step * best_us / 1e3
        return floors


def linear_floor_us(linear: Linear, device: Device, tokens: int) -> float | None:
    """Least time of one call, µs: max(FLOPs/peak, bytes/bandwidth); None where no peak is known."""
    peak, bandwidth = device.peak_tflops(linear.dtype), device.memory_gb_s
    compute_us = None if peak is None else linear.flops(tokens) / (peak * 1e6)
    memory_us = None if bandwidth is None else linear.bytes_moved(tokens) / (bandwidth * 1e3)
    known = [floor for floor in (compute_us, memory_us) if floor is not None]
    return max(known) if known else None


EMBEDDING = "embedding"
NORM = "norm of queries and keys"


def shard(model: Model, tp: int, ep: int = 1, dp: int = 1, kv_dtype: str | None = None) -> Shards:
    """One rank's part of `model` over `tp` ranks, with experts whole on `ep` ranks (1, or tp × dp as in vLLM).

    Raises `ConfigError` where the model cannot be cut this way.
    """
    _check(model, tp, ep, dp)
    every = tuple(range(model.layers))
    dense = tuple(i for i in every if i not in set(model.moe_layers))
    shapes = [(shape, every) for shape in _attention_shapes(model, tp)]
    if isinstance(model.attention, Latent):
        index_layers = model.attention.index_layers
        shapes += [(shape, index_layers) for shape in indexer_shapes(model, model.attention, _in_layer(""))]
    if dense:
        mlp = mlp_shapes(model, model.dense_width, tp, prefix="mlp", kind="", module=_in_layer("mlp."))
        shapes += [(shape, dense) for shape in mlp]
    if model.experts is not None:
        shapes += [(shape, model.moe_layers) for shape in _moe_shapes(model, model.experts, tp, ep, dp)]
    shapes.append((_head(model, tp), (0,)))
    return Shards(
        model=model,
        tp=tp,
        ep=ep,
        dp=dp,
        linears=linears_of(model, shapes),
        prefill_linears=linears_of(model, [(shape, every) for shape in _prefill_shapes(model, tp)]),
        collectives=_collectives(model, tp, ep, dp),
        kv_bytes_per_token=_kv_bytes(model, tp, kv_dtype or model.dtype),
    )


def _check(model: Model, tp: int, ep: int, dp: int) -> None:
    if min(tp, ep, dp) < 1:
        raise ConfigError(f"tensor, expert and data parallelism must be 1 or more, not {tp}, {ep}, {dp}.")
    heads = model.attention.heads
    if heads % tp:
        raise ConfigError(f"tensor_parallel = {tp}: {heads} attention heads cannot be cut over {tp} ranks.")
    if isinstance(model.attention, Grouped):
        kv_heads = model.attention.kv_heads
        if max(kv_heads, tp) % min(kv_heads, tp):
            raise ConfigError(f"tensor_parallel = {tp}: {kv_heads} key-value heads neither divide it nor are divided.")
    if model.dense_layers and model.dense_width % tp:
        raise ConfigError(f"tensor_parallel = {tp}: the MLP's width {model.dense_width} is no multiple of it.")
    _check_experts(model, tp, ep, dp)


def _check_experts(model: Model, tp: int, ep: int, dp: int) -> None:
    if model.experts is None:
        if ep > 1:
            raise ConfigError(f"expert_parallel = {ep}: {model.architecture} has no experts; leave it at 1.")
        return
    if ep not in (1, tp * dp):
        raise ConfigError(
            f"expert_parallel = {ep}: vLLM spreads experts over all {tp * dp} ranks; write 1 or {tp * dp}."
        )
    if ep > 1 and model.experts.count % ep:
        raise ConfigError(f"expert_parallel = {ep}: {model.experts.count} experts are no multiple of it.")
    if ep == 1 and model.experts.width % (tp * dp) and model.quantization.method != "mxfp4":
        raise ConfigError(f"tensor_parallel = {tp}: an expert's width {model.experts.width} is no multiple of it.")


def _in_layer(module: str) -> Callable[[str], str]:
    return lambda name: f"model.layers.{{i}}.{module}{name}"


def _attention_shapes(model: Model, tp: int) -> list[Shape]:
    if isinstance(model.attention, Latent):
        return latent_shapes(model, model.attention, tp, _in_layer(""))
    return grouped_shapes(model, model.attention, tp, _in_layer(""))


def _moe_shapes(model: Model, experts: Experts, tp: int, ep: int, dp: int) -> list[Shape]:
    # Without expert parallelism vLLM cuts experts over the ranks of all data-parallel groups.
    shapes = expert_shapes(model, experts, tp * dp, ep, _in_layer(""))
    if experts.shared_width:
        names = model.names.shared
        module = _in_layer(f"{names}.")
        is_whole = _splits_tokens(model, tp, ep, dp)
        cut = 1 if is_whole else tp
        shared = mlp_shapes(model, experts.shared_width, cut, prefix=names, kind="shared_", module=module)
        shapes += [msgspec.structs.replace(shape, is_replicated=is_whole) for shape in shared]
    if experts.has_shared_gate:
        name = f"{model.names.mlp}.shared_expert_gate"
        gate = Shape(name=name, kind="shared_gate", n=1, k=model.hidden_size, dtype=model.dtype, is_replicated=True)
        shapes.append(gate)
    return shapes


def _splits_tokens(model: Model, tp: int, ep: int, dp: int) -> bool:
    """Whether each rank runs the MoE block whole on its part of the tokens, rather than its part on all of them."""
    return min(tp, ep, dp) > 1 and model.experts is not None and model.experts.splits_tokens


def _head(model: Model, tp: int) -> Shape:
    padded = -(-model.vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING
    return Shape(name="lm_head", kind="lm_head", n=padded // tp, k=model.hidden_size, modules=("lm_head",))


def _prefill_shapes(model: Model, tp: int) -> list[Shape]:
    attention = model.attention
    if not isinstance(attention, Latent):
        return []
    module = _in_layer("")(f"{model.names.attention}.kv_b_proj")
    n = attention.heads // tp * (attention.qk_nope_head_dim + attention.v_head_dim)
    return [Shape(name="self_attn.kv_b_proj", kind="kv_b", n=n, k=attention.kv_lora_rank, modules=(module,))]


def _collectives(model: Model, tp: int, ep: int, dp: int) -> tuple[Collective, ...]:
    element = ELEMENT_BYTES[model.dtype]
    hidden = model.hidden_size * element
    moe, found, is_split = len(model.moe_layers), [], _splits_tokens(model, tp, ep, dp)
    if tp > 1:
        mlp_calls = model.dense_layers if is_split else model.layers
        found += [
            Collective(operation="all_reduce", what=EMBEDDING, calls=1, bytes_per_token=hidden),
            Collective(operation="all_reduce", what="attention output", calls=model.layers, bytes_per_token=hidden),
            Collective(operation="all_reduce", what="MLP output", calls=mlp_calls, bytes_per_token=hidden),
        ]
        if isinstance(model.attention, Grouped) and model.attention.has_norm_over_ranks:
            found.append(Collective(operation="all_reduce", what=NORM, calls=model.layers, bytes_per_token=8))
        logits = -(-model.vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING // tp * element
        found.append(Collective(operation="all_gather", what="logits", calls=1, bytes_per_token=logits))
    if dp > 1 and moe:
        # Without all-to-all kernels vLLM gathers all groups' tokens and scatters the sums back.
        part = hidden // tp if is_split else hidden
        found += [
            Collective(operation="all_gather", what="tokens to experts", calls=moe, bytes_per_token=part),
            Collective(operation="reduce_scatter", what="expert output", calls=moe, bytes_per_token=part),
        ]
        if is_split:
            found.append(Collective(operation="all_gather", what="MLP output", calls=moe, bytes_per_token=part))
    return tuple(c for c in found if c.calls)


def _kv_bytes(model: Model, tp: int, kv_dtype: str) -> int:
    element = ELEMENT_BYTES[kv_dtype]
    attention = model.attention
    if isinstance(attention, Latent):
        return model.layers * (attention.kv_lora_rank + attention.qk_rope_head_dim) * element + _index_bytes(attention)
    return model.layers * 2 * max(1, attention.kv_heads // tp) * attention.head_dim * element


def _index_bytes(attention: Latent) -> int:
    """Bytes a token of the indexers' keys over all layers: FP8 with a 4-byte scale to each block of 128."""
    each = attention.index_head_dim or 0
    return len(attention.index_layers) * (each + each // INDEX_BLOCK * 4)
