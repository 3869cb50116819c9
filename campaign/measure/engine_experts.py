"""A layer's routed experts as vLLM itself builds them from the model's quantization_config."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from campaign.measure import experts, stored_weights
from campaign.measure.engine_layers import Engine, bits_of, building, call_known, kernel_name, quantization_of
from campaign.measure.matrices import DTYPES, Prepared, Room
from campaign.model import Linear

#: Below every weight that a router gives.
NOT_CHOSEN = -1e4


def prepare_experts(pair: tuple[Linear, Linear], m: int, room: Room, engine: Engine) -> Prepared:
    """The routed experts as vLLM builds them; raises whatever it raises."""
    # While weights are rearranged they are held twice.
    pool, memory_bytes, per_weight = room.pool, room.memory_bytes / 2, pair[0].bytes_per_weight
    layer = experts.layer_of(pair, m, memory_bytes)
    copies = experts.copies_of(layer, per_weight, room.cache_bytes, memory_bytes)
    prefix = pair[0].module.rsplit(".experts.", 1)[0] + ".experts"
    stored: stored_weights.Stored = {}
    layers = []
    with building(engine, pool.device) as config:
        for _ in range(copies):
            made = _routed(layer, prefix, engine, config)
            deviation = {"w13_": 1.0, "w2_": layer.width**-0.5}
            content = stored_weights.fill(made, deviation, pool, bits_of(pair[0]))
            stored = stored or content
            made.quant_method.process_weights_after_loading(made)
            layers.append(made)
    width, hidden = layers[0].intermediate_size_per_partition, layers[0].hidden_size

    def weights_of(expert: int) -> tuple[torch.Tensor, torch.Tensor]:
        up = stored_weights.dequantize(stored, "w13_", 2 * width, hidden, expert)
        down = stored_weights.dequantize(stored, "w2_", hidden, width, expert)
        return up[:, : layer.hidden], down[: layer.hidden]

    prepared = experts.prepare(
        layer,
        pool,
        room.cache_bytes,
        kernel=_call_of(layers, layer.hidden),
        name=f"vLLM {kernel_name(layers[0])}",
        dtype=pair[0].dtype,
        bytes_per_weight=per_weight,
        copies=copies,
        weights_of=weights_of,
        activation=engine.activation,
    )
    if layer.experts < pair[0].matrices:
        prepared.notes.append(f"{layer.experts} of {pair[0].matrices} experts held: the memory limit")
    if (width, hidden) != (layer.width, layer.hidden):
        prepared.notes.append(f"the kernel's weights are padded to width {width} and hidden size {hidden}")
    return prepared


def _routed(layer: experts.Layer, prefix: str, engine: Engine, config: Any) -> Any:
    """One RoutedExperts module with the dimensions of one rank, alone in its group."""
    from vllm.model_executor.layers.fused_moe import config as moe
    from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    from vllm.model_executor.layers.fused_moe.expert_map_manager import ExpertMapManager
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts

    alone, tokens = moe.FusedMoEParallelConfig.make_no_parallel(), max(8192, layer.m)
    counts = dict.fromkeys(("num_experts", "num_local_experts", "num_logical_experts"), layer.experts)
    described = call_known(
        moe.FusedMoEConfig,
        **counts,
        experts_per_token=layer.active,
        hidden_dim=layer.hidden,
        intermediate_size=layer.width,
        activation=MoEActivation.from_str(engine.activation),
        device=torch.get_default_device(),
        routing_method=moe.RoutingMethodType.Renormalize,
        moe_parallel_config=alone,
        in_dtype=DTYPES[engine.dtype],
        moe_backend=engine.moe_backend,
        max_num_tokens=tokens,
        max_capture_size=config.compilation_config.max_cudagraph_capture_size or 0,
    )
    placed = call_known(
        ExpertMapManager,
        max_num_batched_tokens=tokens,
        top_k=layer.active,
        global_num_experts=layer.experts,
        num_redundant_experts=0,
        num_expert_group=None,
        moe_parallel_config=alone,
        placement_strategy="linear",
        enable_eplb=False,
    )
    return call_known(
        RoutedExperts,
        layer_name=prefix,
        params_dtype=DTYPES[engine.dtype],
        moe_config=described,
        quant_config=quantization_of(engine),
        expert_map_manager=placed,
    )


def _call_of(layers: list[Any], hidden: int) -> experts.Kernel:
    """`kernel(x, copy, routing)`; what only routing decides is made once, as an engine's router makes it."""
    routed: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}
    widened: dict[int, torch.Tensor] = {}
    asked = inspect.signature(layers[0].quant_method.apply).parameters
    shared = {name: None for name in ("shared_experts", "shared_experts_input") if name in asked}

    def run(x: torch.Tensor, copy: int, routing: experts.Routing) -> torch.Tensor:
        layer = layers[copy]
        method = layer.quant_method
        if id(routing) not in routed:
            ids = routing.ids.to(method.topk_indices_dtype or torch.int32)
            routed[id(routing)] = (ids, routing.weights.float(), _logits(routing, layer, x.dtype))
        if id(x) not in widened:
            widened[id(x)] = nn.functional.pad(x, (0, layer.hidden_size - x.shape[1]))
        ids, weights, logits = routed[id(routing)]
        if method.is_monolithic:
            made: torch.Tensor = method.apply_monolithic(layer=layer, x=widened[id(x)], router_logits=logits)
        else:
            made = method.apply(layer=layer, x=widened[id(x)], topk_weights=weights, topk_ids=ids, **shared)
        return made[:, :hidden]

    return run


def _logits(routing: experts.Routing, layer: Any, dtype: torch.dtype) -> torch.Tensor:
    """Router output from which a kernel that routes by itself finds the same experts and weights."""
    shape = (routing.ids.shape[0], layer.global_num_experts)
    logits = torch.full(shape, NOT_CHOSEN, dtype=dtype, device=routing.ids.device)
    return logits.scatter_(1, routing.ids.long(), routing.weights.log().to(dtype))
