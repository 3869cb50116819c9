"""Repeats in the order of kernels: steps where no annotation names them, and the layer inside a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from campaign.trace.events import Flags, Ints, Trace

_FEWEST_STEPS: Final = 3
_KERNELS_A_FULL_GRAPH: Final = 50
_REGULAR_SHARE: Final = 0.6


@dataclass(frozen=True)
class Split:
    """Device events cut into steps."""

    step: Ints
    is_usual: Flags
    """Per step: it has the length that most have."""
    found_by: str


def split(trace: Trace, launch: Ints) -> Split | None:
    """Cut by whole-model graph launches, else by a kernel that comes back at regular distance; else None."""
    if not len(trace.device):
        return None
    by_graph = _by_graphs(trace, launch)
    return by_graph if by_graph is not None else _by_marker(trace)


def _by_graphs(trace: Trace, launch: Ints) -> Split | None:
    is_graph = np.array(["GraphLaunch" in name for name in trace.names], bool)
    if not is_graph.any() or not len(trace.launches):
        return None
    of_graph = np.where(launch >= 0, is_graph[trace.launches.name[np.maximum(launch, 0)]], False)
    graphs, sizes = np.unique(launch[of_graph], return_counts=True)
    if len(graphs) < _FEWEST_STEPS or np.median(sizes) < _KERNELS_A_FULL_GRAPH:
        return None
    first = np.array([trace.device.start_ns[launch == graph].min() for graph in graphs], np.int64)
    return _cut(trace, first, "graph launches")


def _by_marker(trace: Trace) -> Split | None:
    """The rarest kernel that comes at least three times at a constant distance marks the step."""
    name = trace.device.name
    best: tuple[int, Ints] | None = None
    for value, count in zip(*np.unique(name, return_counts=True), strict=True):
        if count < _FEWEST_STEPS:
            continue
        at = np.flatnonzero(name == value)
        gap = np.diff(at)
        usual = int(np.median(gap))
        is_regular = np.count_nonzero(gap == usual) >= _REGULAR_SHARE * len(gap)
        covers = usual * count >= _REGULAR_SHARE * len(name)
        if is_regular and covers and (best is None or usual > best[0]):
            best = (usual, at)
    if best is None or best[0] < 2:
        return None
    usual, at = best
    return _cut(trace, trace.device.start_ns[at - _offset(trace, at, usual)], "repeating kernels")


def _offset(trace: Trace, at: Ints, usual: int) -> int:
    """How many kernels before the marker a step begins: after the longest gap within the period (the host's)."""
    whole = at[at >= usual]
    if not len(whole):
        return 0
    device = trace.device
    reach = np.maximum.accumulate(device.end_ns)
    gap = np.zeros(len(device), np.int64)
    gap[1:] = np.maximum(device.start_ns[1:] - reach[:-1], 0)
    back = np.arange(usual)
    mean = np.array([np.median(gap[whole - k]) for k in back])
    return min(int(np.argmax(mean)), int(at[0]))


def _cut(trace: Trace, first_ns: Ints, found_by: str) -> Split:
    first_ns = np.unique(first_ns)  # of two steps that start at one instant the first would be empty
    step = np.searchsorted(first_ns, trace.device.start_ns, side="right") - 1
    size = np.bincount(step[step >= 0], minlength=len(first_ns))
    return Split(step, np.abs(size - np.median(size)) <= 0.1 * np.median(size), found_by)


def period(names: Ints) -> tuple[int, int, int] | None:
    """(start, length, repeats) of the run of equal blocks that covers most of the sequence; None below two repeats.

    The shortest block wins among those that cover at least nine tenths of what the best covers.
    """
    size = len(names)
    found: list[tuple[int, int, int]] = []
    for length in range(3, size // 2 + 1):
        is_same = names[length:] == names[:-length]
        start, run = _longest_run(is_same)
        repeats = run // length + 1
        if repeats >= 2:
            found.append((start, length, repeats))
    if not found:
        return None
    most = max(length * repeats for _, length, repeats in found)
    return next(f for f in found if f[1] * f[2] >= 0.9 * most)


def _longest_run(flags: Flags) -> tuple[int, int]:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    if not len(edges):
        return 0, 0
    starts, stops = edges[::2], edges[1::2]
    longest = int(np.argmax(stops - starts))
    return int(starts[longest]), int(stops[longest] - starts[longest])
