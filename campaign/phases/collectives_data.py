"""What the collectives script is given and what it writes."""

from __future__ import annotations

from typing import Literal

import msgspec

from campaign.host import Reading
from campaign.links import GpuLinks
from campaign.model import Link

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
#: torch = torch.distributed (gloo or NCCL); one_shot, two_shot = torch's symmetric memory; the others are the engine's
#: own paths; nccl = NCCL as another program called it (imported results).
Backend = Literal["torch", "pynccl", "custom", "symmetric", "one_shot", "two_shot", "flashinfer", "nccl"]


class CollectivesConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The script's parameters."""

    device: Literal["cuda", "cpu"] = "cpu"
    """Where to measure: NCCL on `cuda`, gloo on `cpu`."""
    ranks: int
    """Processes of the group."""
    dtype: str = "bf16"
    """Format of the elements."""
    backends: tuple[Backend, ...] = ("torch",)
    """Ways to communicate, the one an engine prefers first."""
    operations: tuple[Operation, ...]
    """What is measured over all sizes."""
    sizes_bytes: tuple[int, ...]
    """Message sizes S, by nccl-tests' convention."""
    burst_calls: int
    """All-reduces of one decode step."""
    burst_bytes: int
    """Message of each."""
    bytes_per_token: int = 0
    """Message of one token."""
    samples: int = 20
    """Samples a point."""
    timeout_s: float = 60.0
    """Longest time without any progress before all ranks are ended."""


class RankSamples(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank measured at one point."""

    rank: int
    """Its number."""
    us: tuple[float, ...] = ()
    """µs a call, a sample each (for the burst: µs of the whole burst)."""
    graph_us: tuple[float, ...] = ()
    """The same from one CUDA graph."""
    kernel_us: float | None = None
    """Mean time of the communication kernels a call, where a profiler sees them."""
    is_correct: bool = False
    """Whether this rank's result was right."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels that ran, where a profiler sees them."""
    note: str = ""
    """Why there are no samples."""


class CollectivePoint(msgspec.Struct, frozen=True, kw_only=True):
    """One operation at one size over all ranks."""

    backend: Backend
    """How it was sent."""
    operation: Operation
    """What the ranks did."""
    size_bytes: int
    """S."""
    calls: int
    """Calls a sample; for a burst all of them count as one."""
    is_burst: bool = False
    """Whether this is the burst of a decode step."""
    ranks: tuple[RankSamples, ...] = ()
    """What each rank measured."""
    before: Reading | None = None
    """Device state before."""
    after: Reading | None = None
    """Device state after."""


class NcclChoice(msgspec.Struct, frozen=True, kw_only=True):
    """How NCCL says that it sends an all-reduce of one size."""

    operation: str
    """As NCCL names it, e.g. `AllReduce`."""
    size_bytes: int
    """The message."""
    algorithm: str
    """Ring, Tree, NVLS, …"""
    protocol: str
    """LL, LL128, Simple."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What decides how ranks communicate."""

    library: str = ""
    """gloo, or NCCL with its version."""
    variables: dict[str, str] = {}
    """NCCL_*, GLOO_* and VLLM_* variables in force."""
    topology: str = ""
    """`nvidia-smi topo -m`, where there is one."""
    link: Link | None = None
    """The link that floors rest on; None = not known."""
    device_name: str = ""
    """The GPU, or `cpu`."""
    gpus: tuple[GpuLinks, ...] = ()
    """Links of each GPU, as NVML tells."""
    nccl_choices: tuple[NcclChoice, ...] = ()
    """Algorithm and protocol by size, from a short run of its own with NCCL's tuning log; empty = it did not tell."""


class CollectivesData(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    environment: Environment
    """Library, variables, topology."""
    points: tuple[CollectivePoint, ...]
    """One a backend, operation and size, then the bursts."""


def point_key(backend: str, operation: str, size_bytes: int) -> str:
    """The key of a point of the sweep."""
    return f"{backend}.{operation}@{size_bytes}"


def burst_key(backend: str) -> str:
    """The key of a backend's burst."""
    return f"{backend}.burst"


def operations_of(config: CollectivesConfig, backend: str) -> tuple[Operation, ...]:
    """Engines' own paths are all-reduces; torch.distributed does all."""
    return config.operations if backend == "torch" else tuple(op for op in config.operations if op == "all_reduce")


def planned(config: CollectivesConfig) -> tuple[CollectivePoint, ...]:
    """The points to measure, in order, without samples; the bursts first since they matter most."""
    bursts = [
        CollectivePoint(
            backend=backend,
            operation="all_reduce",
            size_bytes=config.burst_bytes,
            calls=config.burst_calls,
            is_burst=True,
        )
        for backend in config.backends
    ]
    sweep = [
        CollectivePoint(backend=backend, operation=operation, size_bytes=size, calls=calls_for(size, config.device))
        for backend in config.backends
        for operation in operations_of(config, backend)
        for size in config.sizes_bytes
    ]
    return (*bursts, *sweep)


def key_of(point: CollectivePoint) -> str:
    """The key of a planned point."""
    if point.is_burst:
        return burst_key(point.backend)
    return point_key(point.backend, point.operation, point.size_bytes)


def calls_for(size_bytes: int, device: str) -> int:
    """Calls a sample, fixed before: counts tuned by each rank on its own would deadlock."""
    budget = 1 << 22 if device == "cpu" else 1 << 26
    return max(1, min(20, budget // max(1, size_bytes)))
