"""A trace with device events → `RankSteps`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from campaign.trace import exposure
from campaign.trace import steps as step_finder
from campaign.trace.categories import CATEGORIES, COMMUNICATION, Table
from campaign.trace.events import CollectiveArguments, Flags, Ints, Spans, Trace
from campaign.trace.idle import host_work, idle_by_reason
from campaign.trace.launching import by_launching_op
from campaign.trace.layer import layer_of, median_step
from campaign.trace.neighbours import compiled_kernels, placed
from campaign.trace.ranked import IDLE_REASONS, NO_WALL, CollectiveCalls, RankSteps
from campaign.trace.result import LayerKernel
from campaign.trace.steps import StepTable

_COPY: Final = CATEGORIES.index("copy")
_COMMUNICATION: Final = tuple(CATEGORIES.index(name) for name in COMMUNICATION)


@dataclass(frozen=True)
class _Placed:
    """Device events with the number of their name, category and step."""

    device: Spans
    name: Ints
    step: Ints
    names: tuple[str, ...]
    category_of_name: Ints

    @property
    def category(self) -> Ints:
        return self.category_of_name[self.name]

    @property
    def is_inside(self) -> Flags:
        return self.step >= 0


def analyze_device(trace: Trace, table: Table, step_regex: str | None) -> RankSteps:
    """Steps, categories, exposure, idle reasons and collectives of one rank with device events."""
    found = step_finder.find_steps(trace, step_regex)
    order, first = _order(trace.device, found)
    steps = tuple(found.steps[i] for i in order)
    used, events = _placed(trace, found, order, table)
    sums = _sums(events, len(steps))
    wall = _walls(first, steps)
    exposed, idle = _windows(trace, found, events, first)
    host = host_work(trace, found, order)
    layer, repeats = _layer(events, median_step(steps, wall))
    category, device = events.category, trace.device
    outside = ~events.is_inside
    whole_ns = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(whole_ns, category, device.duration_ns)
    return RankSteps(
        path=trace.path, rank=trace.rank, world_size=trace.world_size, device_name=trace.device_name, device="gpu",
        events=trace.events, steps=steps, first_ns=first, wall_ns=wall, busy_ns=sums[0], calls=sums[1],
        exposed_ns=exposed, idle_ns=idle, names=events.names, category_of_name=events.category_of_name,
        kernel_ns=sums[2], kernel_calls=sums[3], collectives=_collectives(trace.base_ns, events, len(steps)),
        collective_arguments=_renamed(trace, used), launches=host[0], graph_launches=host[1], launch_ns=host[2],
        sync_ns=host[3], found_by=found.found_by, outside=int(np.count_nonzero(outside)),
        outside_ns=int(device.duration_ns[outside].sum()), problems=trace.problems,
        notes=(*trace.notes, *found.notes),
        compiled=compiled_kernels(
            events.names, events.category_of_name, device, events.name, step=events.step, steps=len(steps)
        ),
        device_number=trace.device_number, layer=layer, layer_repeats=repeats, whole_ns=whole_ns,
        whole_calls=np.bincount(category, minlength=len(CATEGORIES)),
        whole_span_ns=int(device.end_ns.max() - device.start_ns.min()) if len(device) else 0,
    )  # fmt: skip


def _placed(trace: Trace, found: StepTable, order: Ints, table: Table) -> tuple[Ints, _Placed]:
    used, dense = np.unique(trace.device.name, return_inverse=True)
    names = tuple(trace.names[i] for i in used)
    by_name = np.array([table.category(name) for name in names], np.int64)
    category = placed(names, by_name, trace.device, dense, table)[dense]
    category = by_launching_op(trace, found.launch_of_event, category, table)
    # A name whose calls serve several categories is several names from here on.
    pairs, pair = np.unique(dense * len(CATEGORIES) + category, return_inverse=True)
    used, names = used[pairs // len(CATEGORIES)], tuple(names[i] for i in (pairs // len(CATEGORIES)).tolist())
    number = np.full(len(found.steps) + 1, step_finder.OUTSIDE, np.int64)
    number[order] = np.arange(len(order))
    return used, _Placed(trace.device, pair, number[found.of_event], names, pairs % len(CATEGORIES))


def _windows(trace: Trace, found: StepTable, events: _Placed, first: Ints) -> tuple[Ints, Ints]:
    """Exposed ns by category and idle ns by reason, a row a step; a step's window ends where the next begins."""
    if not len(first):
        return np.zeros((0, len(CATEGORIES)), np.int64), np.zeros((0, len(IDLE_REASONS)), np.int64)
    device, category = trace.device, events.category
    edges = np.append(first, int(device.end_ns[events.is_inside].max()))
    exposed = exposure.exposed(
        device.start_ns, device.end_ns, group=category, rank=_ranks(category), edges=edges, groups=len(CATEGORIES)
    )
    return exposed, idle_by_reason(trace, found, edges)


def _layer(events: _Placed, chosen: int | None) -> tuple[tuple[LayerKernel, ...], int]:
    if chosen is None:
        return (), 0
    mine = events.step == chosen
    return layer_of(events.device.take(mine), events.name[mine], events.names, events.category_of_name)


def _order(device: Spans, found: StepTable) -> tuple[Ints, Ints]:
    """Steps in the order of their first device event, and that event's start."""
    inside = found.of_event >= 0
    first = np.full(len(found.steps), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, found.of_event[inside], device.start_ns[inside])
    order = np.argsort(first, kind="stable")
    return order, first[order]


def _walls(first: Ints, steps: tuple[step_finder.Step, ...]) -> Ints:
    wall = np.full(len(first), NO_WALL, np.int64)
    if len(first) > 1:
        wall[:-1] = np.diff(first)
    wall[[i for i, step in enumerate(steps) if step.is_before_empty]] = NO_WALL
    return wall


def _ranks(category: Ints) -> Ints:
    """0 compute, 1 communication, 2 copies."""
    rank = np.isin(category, _COMMUNICATION).astype(np.int64)
    rank[category == _COPY] = 2
    return rank


def _sums(events: _Placed, steps: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Busy ns and calls, steps × categories and steps × names."""
    inside, names = events.is_inside, len(events.names)
    cell = events.step[inside] * names + events.name[inside]
    kernel_ns = np.zeros(steps * names, np.int64)
    np.add.at(kernel_ns, cell, events.device.duration_ns[inside])
    by_name = kernel_ns.reshape(steps, names)
    calls = np.bincount(cell, minlength=steps * names).reshape(steps, names)
    to_category = np.zeros((names, len(CATEGORIES)), np.int64)
    to_category[np.arange(names), events.category_of_name] = 1
    return by_name @ to_category, calls @ to_category, by_name, calls


def _collectives(base_ns: int, events: _Placed, steps: int) -> tuple[CollectiveCalls, ...]:
    index = np.flatnonzero(np.isin(events.category, _COMMUNICATION) & events.is_inside)
    index = index[np.argsort(events.step[index], kind="stable")]
    bounds = np.searchsorted(events.step[index], np.arange(steps + 1))
    device = events.device
    return tuple(
        CollectiveCalls(device.start_ns[part] + base_ns, device.duration_ns[part], events.name[part])
        for part in (index[a:b] for a, b in pairwise(bounds))
    )


def _renamed(trace: Trace, used: Ints) -> tuple[CollectiveArguments, ...]:
    number = {int(old): new for new, old in enumerate(used)}
    return tuple(
        CollectiveArguments(number[c.kernel], c.message_bytes, c.group_size, c.dtype)
        for c in trace.collectives
        if c.kernel in number
    )
