"""A layer's routed experts as one call: routing, gate_up, activation, down, weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from campaign.measure.matrices import CACHE_MULTIPLE, Pool, Prepared, copies_for, relative_error
from campaign.model import Linear

#: Routings to go round, so that one batch of experts is not read from the cache again.
ROUTINGS = 64
#: Quantizing every expert takes minutes; weights of these are repeated, at addresses of their own.
DISTINCT = 8


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Dimensions of the experts on one rank."""

    experts: int
    """Experts held."""
    active: int
    """Experts a token goes through here."""
    hidden: int
    """Width of the residual stream."""
    width: int
    """Intermediate width of one expert on this rank."""
    m: int
    """Tokens."""


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Which experts each token goes to, and with which weight."""

    ids: torch.Tensor
    """(tokens, active) int32."""
    weights: torch.Tensor
    """(tokens, active) float32, rows sum to 1."""


Kernel = Callable[[torch.Tensor, int, Routing], torch.Tensor]


def layer_of(pair: tuple[Linear, Linear], m: int, memory_bytes: float) -> Layer:
    """Dimensions from gate_up and down; fewer experts where they would not fit the memory."""
    up, down = pair
    fits = int(memory_bytes // (up.n * up.k * up.bytes_per_weight + down.n * down.k * down.bytes_per_weight))
    if fits < 1:
        raise ValueError("not one expert fits the memory limit")
    held = min(up.matrices, fits)
    active = min(held, max(1, round(up.active or 1)))
    return Layer(experts=held, active=active, hidden=up.k, width=down.k, m=m)


def routings_of(layer: Layer, pool: Pool) -> list[Routing]:
    """Uniform routings: each token to distinct experts; for one token one after another round all experts."""
    found = []
    order = torch.randperm(layer.experts, generator=pool.generator, device=pool.device)
    for i in range(ROUTINGS):
        if layer.m == 1:
            start = i * layer.active % layer.experts
            ids = order.roll(-start)[: layer.active].unsqueeze(0)
        else:
            scores = torch.rand(layer.m, layer.experts, generator=pool.generator, device=pool.device)
            ids = scores.topk(layer.active, dim=1).indices
        weights = torch.rand(layer.m, layer.active, generator=pool.generator, device=pool.device) + 0.5
        found.append(Routing(ids=ids.int().contiguous(), weights=weights / weights.sum(1, keepdim=True)))
    return found


def distinct_of(routings: list[Routing]) -> float:
    """Mean distinct experts a call."""
    return sum(int(r.ids.unique().numel()) for r in routings) / len(routings)


def activate(both: torch.Tensor, activation: str) -> torch.Tensor:
    """Gate and value (…, 2·width) → (…, width), by the engine's name of the activation.

    `swigluoai` is gpt-oss's: gate and value alternate, both are cut at 7, value + 1, sigmoid of 1.702 × gate.
    """
    if activation == "swigluoai":
        gate, value = both[..., ::2].clamp(max=7.0), both[..., 1::2].clamp(-7.0, 7.0)
        return (value + 1) * gate * torch.sigmoid(gate * 1.702)
    gate, value = both.chunk(2, dim=-1)
    return functional.silu(gate) * value


def reference(
    x: torch.Tensor,
    weights_of: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
    routing: Routing,
    activation: str = "silu",
) -> torch.Tensor:
    """The layer in float32; `weights_of(expert)` gives (2·width, hidden) and (hidden, width)."""
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in routing.ids.unique().tolist():
        rows, slots = (routing.ids == expert).nonzero(as_tuple=True)
        up, down = weights_of(expert)
        made = activate(x[rows].float() @ up.float().T, activation) @ down.float().T
        out.index_add_(0, rows, made * routing.weights[rows, slots].unsqueeze(1))
    return out


def prepare(
    layer: Layer,
    pool: Pool,
    cache_bytes: int,
    *,
    kernel: Kernel,
    name: str,
    dtype: str,
    bytes_per_weight: float,
    copies: int,
    weights_of: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
    activation: str = "silu",
) -> Prepared:
    """Calls of `kernel(x, copy, routing)` over routings and copies of the layer."""
    routings = routings_of(layer, pool)
    x = pool.random(layer.m, layer.hidden) / math.sqrt(layer.hidden)
    layer_bytes = layer.experts * 3 * layer.width * layer.hidden * bytes_per_weight
    notes = []
    if layer_bytes * copies < CACHE_MULTIPLE * cache_bytes:
        notes.append(f"{layer_bytes * copies / 2**20:.0f} MiB of experts: less than {CACHE_MULTIPLE} caches")
    return Prepared(
        kernel=name,
        dtype=dtype,
        bytes_per_weight=bytes_per_weight,
        cold=[_call(kernel, x, i % copies, routing) for i, routing in enumerate(routings)],
        hot=_call(kernel, x, 0, routings[0]),
        error=lambda: relative_error(kernel(x, 0, routings[0]), reference(x, weights_of, routings[0], activation)),
        rotated_bytes=layer_bytes * copies,
        buffers=copies,
        distinct_experts=distinct_of(routings),
        notes=notes,
    )


def _call(kernel: Kernel, x: torch.Tensor, copy: int, routing: Routing) -> Callable[[], object]:
    return lambda: kernel(x, copy, routing)


def copies_of(layer: Layer, bytes_per_weight: float, cache_bytes: int, memory_bytes: float) -> int:
    """Copies of the whole layer so that a round is larger than three caches, within the memory limit."""
    layer_bytes = layer.experts * 3 * layer.width * layer.hidden * bytes_per_weight
    wanted = copies_for(layer_bytes, cache_bytes) if layer_bytes < CACHE_MULTIPLE * cache_bytes else 1
    return max(1, min(wanted, int(memory_bytes // max(1.0, layer_bytes))))


def prepare_torch(pair: tuple[Linear, Linear], m: int, pool: Pool, cache_bytes: int, memory_bytes: float) -> Prepared:
    """The layer by torch, an expert after another: what is left where no engine's kernel loads."""
    element = pool.data.element_size()
    plain = tuple(_as_plain(linear, pool.dtype, element) for linear in pair)
    layer = layer_of((plain[0], plain[1]), m, min(memory_bytes, pool.elements * element) / 2)
    ups = pool.cut(2 * layer.width, layer.hidden, layer.experts, 1)[0]
    downs = pool.random(layer.experts, layer.hidden, layer.width)
    groups: dict[int, list[tuple[int, torch.Tensor, torch.Tensor]]] = {}

    def run(x: torch.Tensor, _copy: int, routing: Routing) -> torch.Tensor:
        # Where tokens go is settled before timing: torch must ask the GPU for it, an engine's kernel does not.
        if id(routing) not in groups:
            found = [(e, *(routing.ids == e).nonzero(as_tuple=True)) for e in routing.ids.unique().tolist()]
            groups[id(routing)] = [(e, rows, routing.weights[rows, slots].unsqueeze(1)) for e, rows, slots in found]
        out = torch.zeros_like(x)
        for expert, rows, weights in groups[id(routing)]:
            gate, value = functional.linear(x[rows], ups[expert]).chunk(2, dim=1)
            made = functional.linear(functional.silu(gate) * value, downs[expert])
            out.index_add_(0, rows, (made * weights).to(x.dtype))
        return out

    return prepare(
        layer,
        pool,
        cache_bytes,
        kernel=run,
        name=f"torch linear {pool.dtype}, one an expert",
        dtype=pool.dtype,
        bytes_per_weight=element,
        copies=1,
        weights_of=lambda expert: (ups[expert], downs[expert]),
    )


def _as_plain(linear: Linear, dtype: str, element_bytes: int) -> Linear:
    import msgspec

    return msgspec.structs.replace(linear, dtype=dtype, bytes_per_weight=float(element_bytes))
