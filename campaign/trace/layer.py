"""One layer: the sequence of kernels that repeats inside a median decode step, with times and gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from campaign.trace.categories import CATEGORIES
from campaign.trace.events import Ints, Spans
from campaign.trace.ranked import NO_WALL
from campaign.trace.result import LayerKernel
from campaign.trace.sequence import period
from campaign.trace.steps import Step


def median_step(steps: Sequence[Step], wall_ns: Ints) -> int | None:
    """The decode step of median length, of the batch size that has the most; None where no decode step has a length."""
    batch = Counter(step.batch for step in steps if step.kind == "decode").most_common(1)
    if not batch:
        return None
    chosen = [i for i, s in enumerate(steps) if s.kind == "decode" and s.batch == batch[0][0] and wall_ns[i] != NO_WALL]
    if not chosen:
        return None
    ordered = sorted(chosen, key=lambda i: int(wall_ns[i]))
    return ordered[len(ordered) // 2]


def layer_of(device: Spans, name: Ints, names: Sequence[str], category: Ints) -> tuple[tuple[LayerKernel, ...], int]:
    """The layer's kernels in order and how often they repeat in a row; nothing where no sequence repeats.

    device: the kernels of one step. Only the stream with most kernels is looked at; others run beside it.
    """
    if not len(device):
        return (), 0
    lanes, count = np.unique(device.lane, return_counts=True)
    mine = np.flatnonzero(device.lane == lanes[np.argmax(count)])
    mine = mine[np.argsort(device.start_ns[mine], kind="stable")]
    line = name[mine]
    found = period(line)
    if found is None:
        return (), 0
    start, length, repeats = found
    begin, end = device.start_ns[mine], device.end_ns[mine]
    gap = np.zeros(len(mine), np.int64)
    gap[1:] = begin[1:] - end[:-1]
    block = slice(start, start + length * repeats)
    duration = (end - begin)[block].reshape(repeats, length).mean(axis=0)
    before = gap[block].reshape(repeats, length)
    before = (before[1:] if start == 0 else before).mean(axis=0)
    kernels = tuple(
        LayerKernel(
            name=names[line[start + i]],
            category=CATEGORIES[int(category[line[start + i]])],
            us=float(duration[i]) / 1e3,
            gap_us=float(before[i]) / 1e3,
        )
        for i in range(length)
    )
    return kernels, repeats
