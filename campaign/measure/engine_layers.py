"""Layers as vLLM itself builds them from the model's quantization_config: it chooses the kernel, as in serving."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from campaign.measure import experts, stored_weights
from campaign.measure.matrices import DTYPES, Pool, Prepared, Room, relative_error
from campaign.model import Linear

#: Quantization methods that take over a checkpoint of another name, in the order in which vLLM asks them.
OVERRIDES = ("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "mxfp4", "gpt_oss_mxfp4")
#: Methods whose stored form `stored_weights` knows; the others run through `engine_kernels` alone.
KNOWN = ("", "fp8", "compressed-tensors", "mxfp4", "gpt_oss_mxfp4", "modelopt", "modelopt_fp4")
#: Below every weight that a router gives.
NOT_CHOSEN = -1e4


@dataclass(frozen=True, kw_only=True)
class Engine:
    """What the engine is told, beside the shapes."""

    quantization: dict[str, Any]
    """The model's quantization_config; empty = none."""
    model_type: str = ""
    """`model_type` of config.json, which some choices depend on."""
    dtype: str = "bf16"
    """Format of activations."""
    activation: str = "silu"
    """Activation of the experts, as the engine names it."""
    linear_backend: str = "auto"
    """The engine's `--linear-backend`."""
    moe_backend: str = "auto"
    """The engine's `--moe-backend`."""


def call_known(function: Callable[..., Any], **given: Any) -> Any:
    """Call with those arguments that this version of the engine knows."""
    known = inspect.signature(function).parameters
    return function(**{name: value for name, value in given.items() if name in known})


@contextlib.contextmanager
def building(engine: Engine, device: str) -> Iterator[Any]:
    """The surroundings in which vLLM builds layers; gives its configuration."""
    from vllm.config import CompilationConfig, KernelConfig, VllmConfig, set_current_vllm_config

    kernels = call_known(KernelConfig, linear_backend=engine.linear_backend, moe_backend=engine.moe_backend)
    # Without its compiler the engine's own kernels quantize activations, not torch's operators one by one.
    config = VllmConfig(kernel_config=kernels, compilation_config=CompilationConfig(custom_ops=["all"]))
    text, dtype, before = SimpleNamespace(model_type=engine.model_type), DTYPES[engine.dtype], torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with set_current_vllm_config(config):
            _stand_alone(device)
            # Layers ask a model for its format and type only; a whole ModelConfig would want a tokenizer and weights.
            config.model_config = SimpleNamespace(
                dtype=dtype, hf_config=text, hf_text_config=text, enforce_eager=False, quantization_config=None
            )
            with torch.device(device):
                yield config
    finally:
        torch.set_default_dtype(before)


def _stand_alone(device: str) -> None:
    """What layers ask for while they are built: groups of this process alone, and the kernels' scratch memory."""
    from vllm.distributed import parallel_state
    from vllm.v1.worker import workspace

    if not parallel_state.model_parallel_is_initialized():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = Path(tempfile.mkdtemp(prefix="campaign-alone-")) / "meeting"
        call_known(
            parallel_state.init_distributed_environment,
            world_size=1,
            rank=0,
            distributed_init_method=f"file://{meeting}",
            local_rank=0,
            backend="gloo",
        )
        parallel_state.initialize_model_parallel(backend="gloo")
    if not workspace.is_workspace_manager_initialized():
        workspace.init_workspace_manager(torch.device(device))


def quantization_of(engine: Engine) -> Any:
    """vLLM's quantization configuration, by the method that it would take; None where nothing is quantized.

    Raises `ValueError` for a method whose stored weights are not known here.
    """
    from vllm.model_executor.layers import quantization

    raw = engine.quantization
    if not raw:
        return None
    method = str(raw.get("quant_method") or "modelopt")
    model = SimpleNamespace(model_type=engine.model_type)
    for name in OVERRIDES:
        if name in quantization.QUANTIZATION_METHODS:
            taken = quantization.get_quantization_config(name).override_quantization_method(raw, None, hf_config=model)
            method = taken or method
    if method not in KNOWN:
        raise ValueError(f"stored weights of {method} are not known here")
    return quantization.get_quantization_config(method).from_config(raw)


def prepare_dense(linear: Linear, m: int, room: Room, engine: Engine) -> Prepared:
    """A quantized dense linear as vLLM builds it; raises whatever it raises."""
    copies, pool = room.copies(linear.weight_bytes), room.pool
    with building(engine, pool.device):
        stored, layers = _dense_layers(linear, copies, pool, engine)
    x = pool.random(m, linear.k)

    def run(i: int) -> torch.Tensor:
        made: torch.Tensor = layers[i].quant_method.apply(layers[i], x)
        return made

    def error() -> float:
        exact = stored_weights.dequantize(stored, "", linear.n, linear.k)
        return relative_error(run(0), x.float() @ exact.T)

    return Prepared(
        kernel=f"vLLM {kernel_name(layers[0])}",
        dtype=linear.dtype,
        bytes_per_weight=linear.bytes_per_weight,
        cold=[partial(run, i) for i in range(copies)],
        hot=partial(run, 0),
        error=error,
        rotated_bytes=copies * linear.weight_bytes,
        buffers=copies,
    )


def _dense_layers(linear: Linear, copies: int, pool: Pool, engine: Engine) -> tuple[stored_weights.Stored, list[Any]]:
    """(what the first one stores, all of them, ready to run)."""
    from vllm.model_executor.layers.linear import ReplicatedLinear, UnquantizedLinearMethod

    config = quantization_of(engine)
    stored: stored_weights.Stored = {}
    layers = []
    for _ in range(copies):
        layer = call_known(
            ReplicatedLinear,
            input_size=linear.k,
            output_size=linear.n,
            bias=False,
            params_dtype=DTYPES[engine.dtype],
            quant_config=config,
            prefix=linear.module,
            disable_tp=True,
        )
        if isinstance(layer.quant_method, UnquantizedLinearMethod):
            raise ValueError(f"vLLM does not quantize {linear.module} under {engine.quantization.get('quant_method')}")
        made = stored_weights.fill(layer, {"": linear.k**-0.5}, pool, bits_of(linear))
        stored = stored or made
        layer.quant_method.process_weights_after_loading(layer)
        layers.append(layer)
    return stored, layers


def bits_of(linear: Linear) -> int | None:
    """Bits of a weight where it is packed; None for whole formats."""
    return {"int4": 4, "int8": 8, "nvfp4": 4, "mxfp4": 4}.get(linear.dtype)


def kernel_name(layer: Any) -> str:
    """The kernel that the engine chose, as its class or backend is called."""
    method = layer.quant_method
    owners = [method, getattr(layer, "scheme", None)]
    for owner in owners:
        for attribute in ("fp8_linear", "kernel"):
            found = getattr(owner, attribute, None)
            if found is not None:
                return type(found).__name__
    backends = [value for name, value in vars(method).items() if name.endswith("_backend") and value is not None]
    chosen = str(getattr(backends[0], "value", backends[0])) if backends else type(method).__name__
    made = getattr(method, "experts_cls", None)
    return f"{chosen} ({made.__name__})" if made is not None else chosen


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
