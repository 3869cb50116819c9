"""One median decode step as a small trace file that Perfetto (ui.perfetto.dev) opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from campaign import files
from campaign.errors import TraceError
from campaign.trace import categories, events, steps
from campaign.trace.events import Spans, Trace
from campaign.trace.layer import median_step
from campaign.trace.ranked import NO_WALL
from campaign.trace.read import read_json

_KINDS: Final = {events.KERNEL: "kernel", events.MEMCPY: "gpu_memcpy", events.MEMSET: "gpu_memset"}


def export_step(source: Path, target: Path, *, step_regex: str | None = None) -> int:
    """Write the device events of the median decode step of one rank's trace; returns how many.

    Times are microseconds from the step's first event. Raises `TraceError` where the trace has no such step.
    """
    trace = read_json(source)
    found = steps.find_steps(trace, step_regex)
    inside = found.of_event >= 0
    first = np.full(len(found.steps), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, found.of_event[inside], trace.device.start_ns[inside])
    order = np.argsort(first, kind="stable")
    wall = np.full(len(first), NO_WALL, np.int64)
    wall[order[:-1]] = np.diff(first[order])
    chosen = median_step(found.steps, wall)
    if chosen is None:
        raise TraceError(f"{source}: no decode step of known length. Give a trace with two decode steps or more.")
    mine = trace.device.take(found.of_event == chosen)
    document = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "traceEvents": [*_metadata(mine), *_rows(trace, mine, int(first[chosen]))],
        "traceName": f"median decode step of {source.name}",
    }
    files.write_atomic(target, msgspec.json.encode(document))
    return len(mine)


def _metadata(spans: Spans) -> list[dict[str, Any]]:
    lanes = np.unique(spans.lane).tolist()
    names = [{"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "device"}}]
    return names + [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": lane, "args": {"name": f"stream {lane}"}} for lane in lanes
    ]


def _rows(trace: Trace, spans: Spans, origin_ns: int) -> list[dict[str, Any]]:
    table = categories.table()
    columns = zip(
        spans.start_ns.tolist(), spans.duration_ns.tolist(), spans.name.tolist(), spans.lane.tolist(),
        spans.code.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            "ph": "X",
            "cat": _KINDS[code],
            "name": trace.names[name],
            "pid": 0,
            "tid": lane,
            "ts": (start - origin_ns) / 1000,
            "dur": duration / 1000,
            "args": {"category": categories.CATEGORIES[table.category(trace.names[name])]},
        }
        for start, duration, name, lane, code in columns
    ]
