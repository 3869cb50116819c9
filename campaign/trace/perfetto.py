"""One median decode step as a small trace file that Perfetto (ui.perfetto.dev) opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from campaign import files
from campaign.errors import TraceError
from campaign.trace import categories, cpu, events, steps
from campaign.trace.categories import CATEGORIES, Table
from campaign.trace.devices import ranks_of
from campaign.trace.events import Ints, Spans, Trace
from campaign.trace.layer import median_step
from campaign.trace.neighbours import placed
from campaign.trace.ranked import NO_WALL
from campaign.trace.read import read_json
from campaign.trace.source import is_sqlite

_KINDS: Final = {
    events.KERNEL: "kernel", events.MEMCPY: "gpu_memcpy", events.MEMSET: "gpu_memset", events.OP: "cpu_op",
}  # fmt: skip


@dataclass(frozen=True)
class _Chosen:
    """The events of one step."""

    spans: Spans
    category: Ints
    origin_ns: int


def export_step(
    source: Path, target: Path, *, step_regex: str | None = None, extra_categories: Sequence[tuple[str, str]] = ()
) -> int:
    """Write the device events (on a CPU: the ops) of the median decode step of a file's first rank; returns how many.

    Times are microseconds from the step's first event. Raises `TraceError` where the trace has no such step.
    """
    if is_sqlite(source):
        from campaign.trace.nsys import read_sqlite

        trace = read_sqlite(source)
    else:
        trace = read_json(source)
    known = categories.table(extra_categories)
    if len(trace.device):
        trace = ranks_of(trace, step_regex)[0]
        chosen = _device_step(trace, known, step_regex)
    else:
        chosen = _host_step(trace, known, step_regex)
    if chosen is None:
        raise TraceError(f"{source}: no decode step of known length. Give a trace with two decode steps or more.")
    document = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "traceEvents": [*_metadata(chosen.spans, trace), *_rows(trace, chosen)],
        "traceName": f"median decode step of {source.name}",
    }
    files.write_atomic(target, msgspec.json.encode(document))
    return len(chosen.spans)


def _device_step(trace: Trace, known: Table, step_regex: str | None) -> _Chosen | None:
    found = steps.find_steps(trace, step_regex)
    inside = found.of_event >= 0
    first = np.full(len(found.steps), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, found.of_event[inside], trace.device.start_ns[inside])
    order = np.argsort(first, kind="stable")
    wall = np.full(len(first), NO_WALL, np.int64)
    wall[order[:-1]] = np.diff(first[order])
    number = median_step(found.steps, wall)
    if number is None:
        return None
    names = np.unique(trace.device.name)
    by_name = np.full(len(trace.names), categories.OTHER, np.int64)
    by_name[names] = [known.category(trace.names[name]) for name in names.tolist()]
    by_name = placed(trace.names, by_name, trace.device, trace.device.name, known)
    mine = trace.device.take(found.of_event == number)
    return _Chosen(mine, by_name[mine.name], int(first[number]))


def _host_step(trace: Trace, known: Table, step_regex: str | None) -> _Chosen | None:
    found = cpu.host_steps(trace, step_regex)
    number = median_step(found.steps, found.wall_ns) if found is not None else None
    if found is None or number is None:
        return None
    ops = cpu.nested(trace.ops.take(trace.ops.lane == found.lane), trace.names, known)
    begin = int(found.first_ns[number])
    inside = (ops.spans.start_ns >= begin) & (ops.spans.start_ns < begin + int(found.wall_ns[number]))
    mine = ops.spans.take(inside)
    return _Chosen(mine, ops.category[inside], int(mine.start_ns.min())) if len(mine) else None


def _metadata(spans: Spans, trace: Trace) -> list[dict[str, Any]]:
    lanes = np.unique(spans.lane).tolist()
    process, lane_name = ("device", "stream") if len(trace.device) else ("host", "thread")
    names = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": process}}]
    return names + [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": lane, "args": {"name": f"{lane_name} {lane}"}}
        for lane in lanes
    ]


def _rows(trace: Trace, chosen: _Chosen) -> list[dict[str, Any]]:
    spans = chosen.spans
    columns = zip(
        spans.start_ns.tolist(), spans.duration_ns.tolist(), spans.name.tolist(), spans.lane.tolist(),
        spans.code.tolist(), chosen.category.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            "ph": "X",
            "cat": _KINDS[code],
            "name": trace.names[name],
            "pid": 0,
            "tid": lane,
            "ts": (start - chosen.origin_ns) / 1000,
            "dur": duration / 1000,
            "args": {"category": CATEGORIES[category] if category >= 0 else "host"},
        }
        for start, duration, name, lane, code, category in columns
    ]
