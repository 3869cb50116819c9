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

from campaign.measure import stored_weights
from campaign.measure.matrices import DTYPES, Pool, Prepared, Room, relative_error
from campaign.model import Linear

#: Quantization methods that take over a checkpoint of another name, in the order in which vLLM asks them.
OVERRIDES = ("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed", "mxfp4", "gpt_oss_mxfp4")
#: Methods whose stored form `stored_weights` knows; the others run through `engine_kernels` alone.
KNOWN = ("", "fp8", "compressed-tensors", "mxfp4", "gpt_oss_mxfp4", "modelopt", "modelopt_fp4")


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
