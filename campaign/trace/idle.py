"""Why nothing ran, and what the host did in the meantime."""

from __future__ import annotations

import numpy as np

from campaign.trace import exposure
from campaign.trace.events import Flags, Ints, Trace
from campaign.trace.ranked import IDLE_REASONS
from campaign.trace.steps import StepTable

_HOST, _SYNC, _LAUNCH, _GRAPH, _UNKNOWN = range(len(IDLE_REASONS))


def idle_by_reason(trace: Trace, found: StepTable, edges: Ints) -> Ints:
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


def host_work(trace: Trace, found: StepTable, order: Ints) -> tuple[Ints, Ints, Ints, Ints]:
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
