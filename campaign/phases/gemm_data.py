"""What the gemm script is given and what it writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign.host import Reading
from campaign.model import Device, Linear

#: The fused experts of a layer: gate_up, activation and down in one kernel call, as an engine runs them.
EXPERTS = "experts"


class GemmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The script's parameters."""

    device: Literal["cuda", "cpu"] = "cpu"
    """Where to measure."""
    linears: tuple[Linear, ...]
    """The matrix products."""
    batch: tuple[int, ...]
    """Tokens a step (M)."""
    dtype: str = "bf16"
    """Format of activations."""
    samples: int = 20
    """Samples a round."""
    memory_limit_gb: float = 1.0
    """Most memory for rotated buffers of one point."""
    ranks: int = 1
    """Ranks that share this machine's CPUs: a rank has its part of the cores."""
    seed: int = 0
    """Seed of data and routing."""
    quantization: str = ""
    """The model's quantization_config as JSON, from which the engine chooses kernels; empty = none."""
    model_type: str = ""
    """`model_type` of config.json, which some of its choices depend on."""
    activation: str = "silu"
    """Activation of the experts, as the engine names it."""
    linear_backend: str = "auto"
    """The engine's `--linear-backend`."""
    moe_backend: str = "auto"
    """The engine's `--moe-backend`."""


class Peaks(msgspec.Struct, frozen=True, kw_only=True):
    """What the device can do, and how that is known."""

    device: Device
    """Peaks."""
    is_measured: bool
    """Whether they were measured here (a CPU) and are thus no physical limit."""
    cache_bytes: int
    """Last-level cache."""


class GemmPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One matrix product at one M."""

    kind: str
    """Layer kind, or `experts`."""
    m: int
    """Tokens."""
    kernel: str
    """The kernel that ran."""
    dtype: str
    """Format of the weights it read."""
    bytes_per_weight: float
    """Their bytes, with the share of scales."""
    cold_us: tuple[tuple[float, ...], ...] = ()
    """Samples a round, rotated buffers, µs a call."""
    hot_us: tuple[tuple[float, ...], ...] = ()
    """The same, one buffer again and again."""
    eager_us: tuple[tuple[float, ...], ...] = ()
    """Cold, launched one by one rather than in a CUDA graph; GPU only."""
    relative_error: float | None = None
    """Largest difference from the float32 reference, over the largest reference value."""
    is_correct: bool = False
    """Whether that is within the format's tolerance."""
    buffers: int = 0
    """Distinct weight buffers rotated over."""
    rotated_bytes: float = 0.0
    """Their bytes together."""
    distinct_experts: float | None = None
    """Mean distinct experts a call, as routed."""
    cpu_share: float | None = None
    """CPU time that this process got, over its threads' wall time; CPU only, below 1 = disturbed by others."""
    notes: tuple[str, ...] = ()
    """Why this is not the engine's kernel, or what was cut."""
    before: Reading | None = None
    """Device state after warm-up."""
    after: Reading | None = None
    """Device state after the last sample."""


class GemmData(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    peaks: Peaks
    """The device."""
    points: tuple[GemmPoint, ...]
    """One a kind and M."""


def point_key(kind: str, m: int) -> str:
    """The key of a point."""
    return f"{kind}@b{m}"


def fused_pair(config: GemmConfig) -> tuple[Linear, Linear] | None:
    """gate_up and down of the routed experts, which a GPU runs as one kernel call; None on a CPU."""
    pair = [linear for linear in config.linears if linear.category == "moe_gemm"]
    return (pair[0], pair[1]) if len(pair) == 2 and config.device == "cuda" else None


def singles_of(config: GemmConfig) -> tuple[Linear, ...]:
    """The products measured one by one."""
    pair = fused_pair(config)
    return tuple(linear for linear in config.linears if pair is None or linear not in pair)
