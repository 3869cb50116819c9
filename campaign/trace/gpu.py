"""A trace with device events → `RankSteps`."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from campaign.trace import exposure
from campaign.trace import steps as step_finder
from campaign.trace.categories import CATEGORIES, COMMUNICATION, Table
from campaign.trace.events import CollectiveArguments, Flags, Ints, Spans, Trace
from campaign.trace.layer import layer_of, median_step
from campaign.trace.neighbours import compiled_kernels, placed
from campaign.trace.ranked import IDLE_REASONS, NO_WALL, CollectiveCalls, RankSteps
from campaign.trace.result import LayerKernel
from campaign.trace.steps import StepTable

_HOST, _SYNC, _LAUNCH, _GRAPH, _UNKNOWN = range(len(IDLE_REASONS))
_COPY: Final = CATEGORIES.index("copy")
_COMMUNICATION: Final = tuple(CATEGORIES.index(name) for name in COMMUNICATION)


def analyze_device(trace: Trace, table: Table, step_regex: str | None) -> RankSteps:
    """Steps, categories, exposure, idle reasons and collectives of one rank with device events."""
    found = step_finder.find_steps(trace, step_regex)
    used, dense = np.unique(trace.device.name, return_inverse=True)
    names = tuple(trace.names[i] for i in used)
    category = placed(names, np.array([table.category(name) for name in names], np.int64), trace.device, dense, table)
    order, first = _order(trace.device, found)
    steps = tuple(found.steps[i] for i in order)
    number = np.full(len(found.steps) + 1, step_finder.OUTSIDE, np.int64)
    number[order] = np.arange(len(order))
    step = number[found.of_event]
    inside = step >= 0
    sums = _sums(
        trace.device.take(inside), step[inside], dense[inside], category, step_count=len(steps), name_count=len(names)
    )
    wall = _walls(first, steps)
    of_event = category[dense]
    edges = np.append(first, _last_end(trace.device, inside)) if len(first) else first
    exposed = np.zeros((len(steps), len(CATEGORIES)), np.int64)
    idle = np.zeros((len(steps), len(IDLE_REASONS)), np.int64)
    if steps:
        exposed = exposure.exposed(
            trace.device.start_ns,
            trace.device.end_ns,
            group=of_event,
            rank=_ranks(of_event),
            edges=edges,
            groups=len(CATEGORIES),
        )
        idle = _idle(trace, found, edges)
    launches, graphs, launch_ns, sync_ns = _host(trace, found, order)
    is_call = np.isin(of_event, _COMMUNICATION) & inside
    layer, repeats = _layer(trace, step, dense, names=names, category=category, chosen=median_step(steps, wall))
    whole_ns = np.zeros(len(CATEGORIES), np.int64)
    np.add.at(whole_ns, of_event, trace.device.duration_ns)
    span = int(trace.device.end_ns.max() - trace.device.start_ns.min()) if len(trace.device) else 0
    return RankSteps(
        path=trace.path, rank=trace.rank, world_size=trace.world_size, device_name=trace.device_name, device="gpu",
        events=trace.events, steps=steps, first_ns=first, wall_ns=wall,
        busy_ns=sums[0], calls=sums[1], exposed_ns=exposed, idle_ns=idle,
        names=names, category_of_name=category, kernel_ns=sums[2], kernel_calls=sums[3],
        collectives=_collectives(trace, step, dense, is_call, len(steps)),
        collective_arguments=_renamed(trace, used),
        launches=launches, graph_launches=graphs, launch_ns=launch_ns, sync_ns=sync_ns,
        found_by=found.found_by, outside=int(np.count_nonzero(~inside)),
        outside_ns=int(trace.device.duration_ns[~inside].sum()),
        problems=trace.problems, notes=(*trace.notes, *found.notes),
        compiled=compiled_kernels(names, category, trace.device, dense, step=step, steps=len(steps)),
        layer=layer, layer_repeats=repeats, whole_ns=whole_ns, whole_calls=np.bincount(of_event, minlength=len(CATEGORIES)), whole_span_ns=span,
    )  # fmt: skip


def _layer(
    trace: Trace, step: Ints, name: Ints, *, names: tuple[str, ...], category: Ints, chosen: int | None
) -> tuple[tuple[LayerKernel, ...], int]:
    if chosen is None:
        return (), 0
    mine = step == chosen
    return layer_of(trace.device.take(mine), name[mine], names, category)


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


def _last_end(device: Spans, inside: Flags) -> int:
    return int(device.end_ns[inside].max()) if inside.any() else 0


def _ranks(category: Ints) -> Ints:
    """0 compute, 1 communication, 2 copies."""
    rank = np.isin(category, _COMMUNICATION).astype(np.int64)
    rank[category == _COPY] = 2
    return rank


def _sums(
    device: Spans, step: Ints, name: Ints, category: Ints, *, step_count: int, name_count: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Busy ns and calls, steps × categories and steps × names."""
    kernel_ns = np.zeros(step_count * name_count, np.int64)
    np.add.at(kernel_ns, step * name_count + name, device.duration_ns)
    kernel_calls = np.bincount(step * name_count + name, minlength=step_count * name_count)
    shape = step_count, name_count
    by_name, calls = kernel_ns.reshape(shape), kernel_calls.reshape(shape)
    to_category = np.zeros((name_count, len(CATEGORIES)), np.int64)
    to_category[np.arange(name_count), category] = 1
    return by_name @ to_category, calls @ to_category, by_name, calls


def _idle(trace: Trace, found: StepTable, edges: Ints) -> Ints:
    """Idle ns, steps × reasons: why the event that ends a gap did not start earlier."""
    device, launches = trace.device, trace.launches
    begin, end, window = exposure.gaps(device.start_ns, device.end_ns, edges)
    total = np.zeros((len(edges) - 1) * len(IDLE_REASONS), np.int64)
    if not len(begin):
        return total.reshape(-1, len(IDLE_REASONS))
    ender = np.minimum(np.searchsorted(device.start_ns, end, side="left"), len(device) - 1)
    launch = found.launch_of_event[ender]
    previous = found.launch_of_event[np.maximum(ender - 1, 0)]
    is_graph = np.array(["GraphLaunch" in name for name in trace.names], bool)
    at = np.where(launch >= 0, launches.start_ns[np.maximum(launch, 0)], begin) if len(launches) else begin
    late = np.clip(np.minimum(at, end) - begin, 0, None)
    synced = _sync_overlap(trace, begin, begin + late)
    is_same_graph = (launch >= 0) & (launch == previous)
    is_same_graph &= is_graph[launches.name[np.maximum(launch, 0)]] if len(launches) else False
    rest = np.where(launch < 0, _UNKNOWN, np.where(is_same_graph, _GRAPH, _LAUNCH))
    row = window * len(IDLE_REASONS)
    np.add.at(total, row + _SYNC, synced)
    np.add.at(total, row + _HOST, late - synced)
    np.add.at(total, row + rest, end - begin - late)
    return total.reshape(-1, len(IDLE_REASONS))


def _is_sync(trace: Trace) -> Flags:
    named = np.array(["Synchronize" in name for name in trace.names], bool)
    return named[trace.launches.name] if len(trace.launches) else np.zeros(0, bool)


def _sync_overlap(trace: Trace, begin: Ints, end: Ints) -> Ints:
    """How much of each span the host spent in a synchronising call."""
    calls = trace.launches.take(_is_sync(trace))
    union = exposure.cover(calls.start_ns, calls.end_ns)
    return union.length_until(end) - union.length_until(begin)


def _host(trace: Trace, found: StepTable, order: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Per step: launch calls, graph launches, time in launches, time in synchronising calls (by annotations)."""
    count = len(order)
    starts = np.array([found.steps[i].host_start_ns if found.steps[i].host_start_ns is not None else 0 for i in order])
    tables = tuple(np.zeros(count, np.int64) for _ in range(4))
    if not count or not len(trace.launches) or any(found.steps[i].host_start_ns is None for i in order):
        return tables[0], tables[1], tables[2], tables[3]
    by_host = np.argsort(starts, kind="stable")
    step = np.searchsorted(starts[by_host], trace.launches.start_ns, side="right") - 1
    named = trace.launches.name
    is_launch = np.array(["Launch" in name for name in trace.names], bool)[named]
    is_graph = np.array(["GraphLaunch" in name for name in trace.names], bool)[named]
    inside = step >= 0
    row = by_host[np.maximum(step, 0)]
    for table, chosen, is_time in (
        (tables[0], is_launch, False), (tables[1], is_graph, False), (tables[2], is_launch, True),
        (tables[3], _is_sync(trace), True),
    ):  # fmt: skip
        picked = chosen & inside
        np.add.at(table, row[picked], trace.launches.duration_ns[picked] if is_time else 1)
    return tables[0], tables[1], tables[2], tables[3]


def _collectives(trace: Trace, step: Ints, name: Ints, is_call: Flags, step_count: int) -> tuple[CollectiveCalls, ...]:
    index = np.flatnonzero(is_call)
    index = index[np.argsort(step[index], kind="stable")]
    bounds = np.searchsorted(step[index], np.arange(step_count + 1))
    device = trace.device
    return tuple(
        CollectiveCalls(device.start_ns[part] + trace.base_ns, device.duration_ns[part], name[part])
        for part in (index[a:b] for a, b in pairwise(bounds))
    )


def _renamed(trace: Trace, used: Ints) -> tuple[CollectiveArguments, ...]:
    number = {int(old): new for new, old in enumerate(used)}
    return tuple(
        CollectiveArguments(number[c.kernel], c.message_bytes, c.group_size, c.dtype)
        for c in trace.collectives
        if c.kernel in number
    )
