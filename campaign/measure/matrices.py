"""Random matrices and the torch kernels that multiply them: cold over rotated buffers, hot over one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from campaign.model import Linear

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
#: Rotated buffers are at least this many times the last-level cache together.
CACHE_MULTIPLE = 3
#: Largest difference from the float32 reference, over its largest value, by format of the activations.
TOLERANCES = {"bf16": 2e-2, "fp16": 4e-3, "fp32": 1e-4}
#: Start of a buffer, in elements, so that vector loads stay aligned.
ALIGNMENT = 256
#: A CUDA graph has a call for each buffer; more than this take long to capture.
COPIES_AT_MOST = 16384


@dataclass(kw_only=True)
class Prepared:
    """A kernel with its data, ready to be timed."""

    kernel: str
    """Name of what runs."""
    dtype: str
    """Format of the weights that are read."""
    bytes_per_weight: float
    """Their bytes, a share of scales with them."""
    cold: list[Callable[[], object]]
    """Calls that read different buffers one after another."""
    hot: Callable[[], object]
    """A call that reads the same buffer always."""
    error: Callable[[], float]
    """Largest difference from the float32 reference, over its largest value."""
    rotated_bytes: float
    """Weight bytes that a round of `cold` reads."""
    buffers: int
    """Distinct buffers among them."""
    distinct_experts: float | None = None
    """Mean distinct experts a call."""
    tolerance: float | None = None
    """Largest error that rounding explains; None = the activations' format decides."""
    notes: list[str] = field(default_factory=list)
    """What was cut or replaced."""


class Pool:
    """One stretch of random numbers that all weights are cut from: random once, distinct addresses for each."""

    def __init__(self, size_bytes: int, dtype: str, device: str, seed: int) -> None:
        self.dtype = dtype
        self.device = device
        self.generator = torch.Generator(device).manual_seed(seed)
        element_bytes = torch.empty((), dtype=DTYPES[dtype]).element_size()
        self.elements = size_bytes // element_bytes
        self.data = torch.empty(self.elements, dtype=DTYPES[dtype], device=device)
        piece = 1 << 24
        for start in range(0, self.elements, piece):
            self.data[start : start + piece].normal_(generator=self.generator)

    def cut(self, rows: int, columns: int, matrices: int, copies: int) -> list[torch.Tensor]:
        """At most `copies` disjoint weights of (matrices, rows, columns); at least one, or ValueError."""
        size = matrices * rows * columns
        stride = -(-size // ALIGNMENT) * ALIGNMENT
        fits = min(copies, self.elements // stride if self.elements >= stride else int(self.elements >= size))
        if fits < 1:
            raise ValueError(f"{size} elements do not fit a pool of {self.elements}")
        return [self.data[i * stride : i * stride + size].view(matrices, rows, columns) for i in range(fits)]

    def random(self, *shape: int) -> torch.Tensor:
        """Fresh random activations."""
        made = torch.empty(*shape, dtype=DTYPES[self.dtype], device=self.device)
        return made.normal_(generator=self.generator)


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a kernel's weights are made from, and how much of them there may be."""

    pool: Pool
    """Random numbers on the device."""
    cache_bytes: int
    """Last-level cache, which rotated weights must exceed."""
    memory_bytes: float
    """Most bytes of weights."""

    def copies(self, weight_bytes: float) -> int:
        """Buffers of this size to go round, within the memory; at least one."""
        fits = int(self.memory_bytes // max(1.0, weight_bytes))
        return max(1, min(copies_for(weight_bytes, self.cache_bytes), fits))


def copies_for(weight_bytes: float, cache_bytes: int) -> int:
    """How many buffers make the rotation larger than three caches."""
    return min(COPIES_AT_MOST, max(2, math.ceil(CACHE_MULTIPLE * cache_bytes / max(1.0, weight_bytes)) + 1))


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest expected value; infinite where something is not finite."""
    difference = (found.float() - expected.float()).abs().max()
    scale = expected.float().abs().max().clamp_min(1e-30)
    ratio = float(difference / scale)
    return ratio if math.isfinite(ratio) else math.inf


def prepare_torch(linear: Linear, m: int, pool: Pool, cache_bytes: int) -> Prepared:
    """The product of `linear` at M = `m` by torch, in the pool's format."""
    if linear.active is not None:
        prepared = _prepare_experts(linear, m, pool, cache_bytes)
    elif linear.matrices > 1:
        prepared = _prepare_batched(linear, m, pool, cache_bytes)
    else:
        prepared = _prepare_dense(linear, m, pool, cache_bytes)
    if linear.dtype != pool.dtype:
        prepared.notes.append(f"{linear.label} weights measured as {pool.dtype}")
    return prepared


def _prepare_dense(linear: Linear, m: int, pool: Pool, cache_bytes: int) -> Prepared:
    element = pool.data.element_size()
    size = linear.n * linear.k * element
    weights = [w[0] for w in pool.cut(linear.n, linear.k, 1, copies_for(size, cache_bytes))]
    x = pool.random(m, linear.k)
    calls = [_bind(functional.linear, x, w) for w in weights]
    return Prepared(
        kernel=f"torch linear {pool.dtype}",
        dtype=pool.dtype,
        bytes_per_weight=element,
        cold=calls,
        hot=calls[0],
        error=lambda: relative_error(functional.linear(x, weights[0]), x.float() @ weights[0].float().T),
        rotated_bytes=size * len(weights),
        buffers=len(weights),
        notes=_cut_note(len(weights) * size, cache_bytes),
    )


def _prepare_batched(linear: Linear, m: int, pool: Pool, cache_bytes: int) -> Prepared:
    element = pool.data.element_size()
    size = linear.n * linear.k * linear.matrices * element
    weights = pool.cut(linear.k, linear.n, linear.matrices, copies_for(size, cache_bytes))
    x = pool.random(linear.matrices, m, linear.k)
    calls = [_bind(torch.bmm, x, w) for w in weights]
    return Prepared(
        kernel=f"torch bmm {pool.dtype}",
        dtype=pool.dtype,
        bytes_per_weight=element,
        cold=calls,
        hot=calls[0],
        error=lambda: relative_error(torch.bmm(x, weights[0]), torch.bmm(x.float(), weights[0].float())),
        rotated_bytes=size * len(weights),
        buffers=len(weights),
        notes=_cut_note(len(weights) * size, cache_bytes),
    )


def _prepare_experts(linear: Linear, m: int, pool: Pool, cache_bytes: int) -> Prepared:
    """Routed experts, one product an expert that tokens were sent to."""
    element = pool.data.element_size()
    each = linear.n * linear.k * element
    fits = pool.elements // (linear.n * linear.k)
    held = min(linear.matrices, fits)
    if held < 1:
        raise ValueError(f"an expert of {each} bytes does not fit the buffers")
    copies = pool.cut(linear.n, linear.k, held, copies_for(each * held, cache_bytes))
    routings = [route(m, held, _active(linear), pool) for _ in range(max(8, len(copies)))]
    x = pool.random(max(1, m), linear.k)
    groups = [[(e, x[rows]) for e, rows in routing] for routing in routings]
    calls = [_bind(_run_experts, group, copies[i % len(copies)]) for i, group in enumerate(groups)]
    distinct = sum(len(routing) for routing in routings) / len(routings)
    notes = _cut_note(len(copies) * held * each, cache_bytes)
    if held < linear.matrices:
        notes.append(f"{held} of {linear.matrices} experts held: the memory limit")
    return Prepared(
        kernel=f"torch linear {pool.dtype}, one an expert",
        dtype=pool.dtype,
        bytes_per_weight=element,
        cold=calls,
        hot=calls[0],
        error=lambda: _experts_error(groups[0], copies[0]),
        rotated_bytes=len(copies) * held * each,
        buffers=len(copies),
        distinct_experts=distinct,
        notes=notes,
    )


def _active(linear: Linear) -> int:
    return max(1, round(linear.active or 1))


def route(tokens: int, experts: int, active: int, pool: Pool) -> list[tuple[int, torch.Tensor]]:
    """Uniform routing: each token to `active` distinct experts; (expert, its tokens) where there are any."""
    scores = torch.rand(tokens, experts, generator=pool.generator, device=pool.device)
    chosen = scores.topk(min(active, experts), dim=1).indices
    return [(int(e), (chosen == e).any(dim=1).nonzero().flatten()) for e in chosen.unique()]


def _run_experts(groups: list[tuple[int, torch.Tensor]], weights: torch.Tensor) -> list[torch.Tensor]:
    return [functional.linear(rows, weights[expert]) for expert, rows in groups]


def _experts_error(groups: list[tuple[int, torch.Tensor]], weights: torch.Tensor) -> float:
    found = _run_experts(groups, weights)
    expected = [rows.float() @ weights[expert].float().T for expert, rows in groups]
    return max(relative_error(f, e) for f, e in zip(found, expected, strict=True))


def _bind(function: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: function(*arguments)


def _cut_note(rotated_bytes: float, cache_bytes: int) -> list[str]:
    if rotated_bytes >= CACHE_MULTIPLE * cache_bytes:
        return []
    return [f"rotated buffers of {rotated_bytes / 2**20:.0f} MiB: less than {CACHE_MULTIPLE} caches, not quite cold"]
