"""One rank's steps as tables: per step and category, per step and kernel; what everything later is computed from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from campaign.trace.events import CollectiveArguments, Floats, Ints
from campaign.trace.result import CompiledKernel, LayerKernel
from campaign.trace.steps import Step

#: Why nothing ran, in the order of the columns of `RankSteps.idle_ns`.
IDLE_REASONS = ("host", "sync", "launch", "graph", "unknown")
NO_WALL = -1


@dataclass(frozen=True)
class CollectiveCalls:
    """The collectives of one step of one rank in order of start."""

    start_ns: Ints
    """On the wall clock (the trace's base added)."""
    duration_ns: Ints
    name: Ints


@dataclass(frozen=True)
class RankSteps:
    """Everything the summary needs of one rank, in integer nanoseconds."""

    path: str
    rank: int | None
    world_size: int | None
    device_name: str
    device: str
    """gpu or cpu."""
    events: int
    steps: tuple[Step, ...]
    first_ns: Ints
    wall_ns: Ints
    """Per step; -1 where the next step is not known."""
    busy_ns: Ints
    """Steps × categories: sum of durations."""
    calls: Ints
    exposed_ns: Ints
    idle_ns: Ints
    """Steps × `IDLE_REASONS`."""
    names: tuple[str, ...]
    """Names of kernels (or ops) that occur."""
    category_of_name: Ints
    kernel_ns: Ints
    """Steps × names."""
    kernel_calls: Ints
    collectives: tuple[CollectiveCalls, ...]
    collective_arguments: tuple[CollectiveArguments, ...]
    launches: Ints
    """Per step: launch calls."""
    graph_launches: Ints
    launch_ns: Ints
    sync_ns: Ints
    """Per step: time in synchronising calls."""
    found_by: str
    outside: int
    """Device events that belong to no step."""
    outside_ns: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compiled: tuple[CompiledKernel, ...] = ()
    layer: tuple[LayerKernel, ...] = ()
    layer_repeats: int = 0
    device_number: int | None = None
    """Which device of a file of several."""
    whole_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Per category, over the whole trace (also where no steps were found)."""
    whole_calls: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    whole_span_ns: int = 0


def milliseconds(value_ns: Ints) -> Floats:
    """Nanoseconds → milliseconds."""
    return value_ns.astype(np.float64) / 1e6
