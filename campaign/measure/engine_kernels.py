"""Which kernel stands for the engine's at a layer's shape: its own choice first, then others that run."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch

from campaign.measure import direct_kernels, engine_experts, engine_layers
from campaign.measure.engine_layers import Engine
from campaign.measure.matrices import TOLERANCES, Prepared, Room
from campaign.measure.reasons import reason_of
from campaign.model import Linear

Make = Callable[[], Prepared]
Direct = Callable[[Linear, int, Room], Prepared]
DirectExperts = Callable[[tuple[Linear, Linear], int, Room], Prepared]

#: Backends to ask for, by weight format, where the engine's own choice does not run here (`auto` = its choice).
DENSE_BACKENDS = {
    "fp8": ("auto", "cutlass", "marlin", "triton"),
    "nvfp4": ("auto", "marlin"),
    "mxfp4": ("auto", "marlin"),
    "int4": ("auto",),
    "int8": ("auto",),
}
EXPERT_BACKENDS = {
    "fp8": ("auto", "triton", "marlin"),
    "nvfp4": ("auto", "marlin"),
    "mxfp4": ("auto", "marlin"),
    "int4": ("auto",),
    "bf16": ("auto",),
    "fp16": ("auto",),
}
DIRECT: dict[str, Direct] = {
    "int4": direct_kernels.marlin_dense,
    "int8": direct_kernels.marlin_dense,
    "fp8": direct_kernels.triton_fp8_dense,
}
DIRECT_EXPERTS: dict[str, DirectExperts] = {
    "int4": direct_kernels.marlin_experts,
    "bf16": direct_kernels.triton_experts,
    "fp16": direct_kernels.triton_experts,
    "fp8": direct_kernels.triton_experts_fp8,
}
#: Rounding of activations that kernels of this weight format may do: FP8 keeps 3 bits of mantissa, FP4 one.
ROUNDED = {"fp8": direct_kernels.FP8_TOLERANCE, "int8": 0.05, "nvfp4": 0.3}
#: Compute capability from which a GPU multiplies numbers of this format.
MULTIPLIES_FROM = {"fp8": (8, 9), "nvfp4": (10, 0), "mxfp4": (10, 0)}


def prepare_dense(linear: Linear, m: int, room: Room, engine: Engine) -> Prepared | str:
    """The engine's kernel for a quantized dense linear, or why there is none."""
    makers: list[tuple[str, Make]] = [
        (
            backend,
            partial(engine_layers.prepare_dense, linear, m, room, replace(engine, linear_backend=backend)),
        )
        for backend in _asked(engine.linear_backend, DENSE_BACKENDS.get(linear.dtype, ()))
    ]
    if linear.dtype in DIRECT and engine.linear_backend == "auto":
        makers.append(("direct", partial(DIRECT[linear.dtype], linear, m, room)))
    return _first_right(makers, linear, room.pool.dtype)


def prepare_experts(pair: tuple[Linear, Linear], m: int, room: Room, engine: Engine) -> Prepared | str:
    """The engine's fused experts, or why they cannot run here."""
    form = pair[0].dtype
    makers: list[tuple[str, Make]] = [
        (backend, partial(engine_experts.prepare_experts, pair, m, room, replace(engine, moe_backend=backend)))
        for backend in _asked(engine.moe_backend, EXPERT_BACKENDS.get(form, ()))
    ]
    if form in DIRECT_EXPERTS and engine.moe_backend == "auto":
        makers.append(("direct", partial(DIRECT_EXPERTS[form], pair, m, room)))
    return _first_right(makers, pair[0], room.pool.dtype)


def _asked(backend: str, backends: tuple[str, ...]) -> tuple[str, ...]:
    """A backend that a person named is the only one."""
    return backends if backend == "auto" else (backend,)


def _first_right(makers: list[tuple[str, Make]], linear: Linear, activations: str) -> Prepared | str:
    """The first that runs and agrees with float32; else a wrong one, to be refused; else all reasons."""
    # Layers refer to themselves in circles; what an earlier point held is freed first.
    gc.collect()
    torch.cuda.empty_cache()
    reasons: list[str] = []
    wrong: Prepared | None = None
    for name, make in makers:
        made = _attempt(make)
        if isinstance(made, str):
            reasons.append(f"{name}: {made}")
            continue
        _set_tolerance(made, linear, activations)
        error = made.error()
        if error <= (made.tolerance or 0.0):
            made.notes += [f"not run: {reason}" for reason in reasons] + _lacks(linear)
            return made
        reasons.append(f"{name}: wrong result of {made.kernel} (error {error:.2g})")
        wrong = wrong or made
        del made
        torch.cuda.empty_cache()
    if wrong is not None:
        wrong.notes += reasons
        return wrong
    return "; ".join(reasons) or f"no engine kernel is known here for {linear.label}"


def _attempt(make: Make) -> Prepared | str:
    """Make and run once: a kernel that does not load, compile or fit is a reason, not a failure."""
    try:
        made = make()
        made.hot()
        torch.cuda.synchronize()
    except Exception as error:
        # The engine's constructors, compilers and kernels raise anything, from AssertionError to their own classes.
        torch.cuda.empty_cache()
        return reason_of(error)
    return made


def _set_tolerance(made: Prepared, linear: Linear, activations: str) -> None:
    """Weights alone are exact in the reference; kernels that round activations too may differ more."""
    if made.tolerance is None:
        widens = "marlin" in made.kernel.lower()
        made.tolerance = TOLERANCES[activations] if widens else ROUNDED.get(linear.dtype, TOLERANCES[activations])


def _lacks(linear: Linear) -> list[str]:
    """That this GPU has no unit for the weights' format, so that they are widened before they are multiplied."""
    needed = MULTIPLIES_FROM.get(linear.dtype)
    if needed is None or torch.cuda.get_device_capability() >= needed:
        return []
    return [f"this GPU does not multiply {linear.dtype}: weights are widened in the kernel"]
