"""Which step each device event belongs to.

By the launch its correlation names and the annotation that launch falls in; what is launched after an annotation's
end (sampling) belongs to the step before. Never by comparing a kernel's time with host annotations: with
asynchronous scheduling a kernel runs when the next step has already begun on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from campaign.trace import sequence
from campaign.trace.annotations import Announcement, StepKind, announcements
from campaign.trace.events import NO_ID, Flags, Ints, Spans, Trace

#: A device event that belongs to no step.
OUTSIDE: Final = -1
_UNKNOWN: Final = -2


@dataclass(frozen=True)
class Step:
    """One step of the engine."""

    kind: StepKind
    batch: int | None
    host_start_ns: int | None
    """Start of its annotation; None where steps come from the device's side."""
    host_duration_ns: int | None
    is_before_empty: bool = False
    """An empty step follows: the engine had no work, so the time to the next step is no step's length."""


@dataclass(frozen=True)
class StepTable:
    """The steps of one rank and the step of each device event."""

    steps: tuple[Step, ...]
    of_event: Ints
    """Index of the step of each device event, `OUTSIDE` for none."""
    found_by: str
    """annotations, device annotations, graph launches, repeating kernels, or none."""
    launch_of_event: Ints
    """Index into the launches, -1 for none."""
    notes: tuple[str, ...] = ()


def find_steps(trace: Trace, step_regex: str | None) -> StepTable:
    """Steps of a trace with device events, by the best evidence that it holds."""
    launch = launches_of(trace)
    known = announcements(trace.names, step_regex)
    for spans, found_by in ((trace.annotations, "annotations"), (trace.device_annotations, "device annotations")):
        chosen = spans.take(np.isin(spans.name, list(known)))
        if not len(chosen):
            continue
        if found_by == "annotations" and np.count_nonzero(launch >= 0) * 2 > len(launch):
            return _by_annotations(trace, chosen, known, launch)
        if found_by == "device annotations":
            return _by_device_annotations(trace, chosen, known, launch)
    return _by_sequence(trace, launch)


def launches_of(trace: Trace) -> Ints:
    """Index of the launch of each device event; -1 where none was recorded."""
    launches, device = trace.launches, trace.device
    if not len(launches) or not len(device):
        return np.full(len(device), -1, np.int64)
    order = np.argsort(launches.correlation, kind="stable")
    ids = launches.correlation[order]
    at = np.minimum(np.searchsorted(ids, device.correlation), len(ids) - 1)
    is_found = (ids[at] == device.correlation) & (device.correlation != NO_ID)
    return np.where(is_found, order[at], -1)


def _by_annotations(trace: Trace, chosen: Spans, known: dict[int, Announcement], launch: Ints) -> StepTable:
    steps = [_step(known[n], s, d) for n, s, d in _rows(chosen)]
    at = trace.launches.start_ns[np.maximum(launch, 0)]
    step = np.searchsorted(chosen.start_ns, at, side="right") - 1
    step = np.where(launch >= 0, np.maximum(step, OUTSIDE), _UNKNOWN)
    step = _fill(trace, step, steps, known)
    return _without_empty(steps, step, "annotations", launch)


def _fill(trace: Trace, step: Ints, steps: Sequence[Step], known: dict[int, Announcement]) -> Ints:
    """Events without a launch: by the device-side annotation they lie in, else with the event before them."""
    is_unknown = step == _UNKNOWN
    if not is_unknown.any():
        return step
    spans = trace.device_annotations
    groups = _merged(spans.take(np.isin(spans.name, list(known))))
    full = np.array([i for i, s in enumerate(steps) if s.kind != "empty"], np.int64)
    filled = step.copy()
    if len(groups) == len(full) and len(full):
        inside = np.searchsorted(groups.start_ns, trace.device.start_ns, side="right") - 1
        is_in = (inside >= 0) & (trace.device.end_ns <= groups.end_ns[np.maximum(inside, 0)])
        chosen = is_unknown & is_in
        filled[chosen] = full[inside[chosen]]
    last = np.maximum.accumulate(np.where(filled != _UNKNOWN, np.arange(len(filled)), -1))
    return np.where(last >= 0, filled[np.maximum(last, 0)], OUTSIDE)


def _by_device_annotations(trace: Trace, chosen: Spans, known: dict[int, Announcement], launch: Ints) -> StepTable:
    groups = _merged(chosen)
    steps = [Step(known[n].kind, known[n].batch, None, None) for n, _, _ in _rows(groups)]
    step = np.searchsorted(groups.start_ns, trace.device.start_ns, side="right") - 1
    table = _without_empty(steps, np.maximum(step, OUTSIDE), "device annotations", launch)
    note = "the host's annotations or launches are missing: steps are the device-side copies of the annotations"
    return StepTable(table.steps, table.of_event, table.found_by, launch, (note,))


def _by_sequence(trace: Trace, launch: Ints) -> StepTable:
    found = sequence.split(trace, launch)
    if found is None:
        return StepTable((), np.full(len(trace.device), OUTSIDE, np.int64), "none", launch)
    kinds: list[StepKind] = ["decode" if is_usual else "mixed" for is_usual in found.is_usual]
    steps = tuple(Step(kind, None, None, None) for kind in kinds)
    note = f"no step annotations: steps are {found.found_by}; those of another length than the usual count as mixed"
    return StepTable(steps, found.step, found.found_by, launch, (note,))


def _without_empty(steps: Sequence[Step], of_event: Ints, found_by: str, launch: Ints) -> StepTable:
    """Number anew without the steps that ran nothing; events of empty annotations are outside."""
    count = np.bincount(of_event[of_event >= 0], minlength=len(steps))
    is_kept: Flags = np.array([s.kind != "empty" for s in steps], bool) & (count > 0)
    number = np.where(is_kept, np.cumsum(is_kept) - 1, OUTSIDE)
    renamed = np.where(of_event >= 0, number[np.maximum(of_event, 0)], OUTSIDE)
    bare = sum(1 for i, s in enumerate(steps) if s.kind != "empty" and count[i] == 0)
    notes = (f"{bare} announced steps have no device events and are left out",) if bare else ()
    kept = tuple(_marked(steps, i) for i in np.flatnonzero(is_kept).tolist())
    return StepTable(kept, renamed, found_by, launch, notes)


def _marked(steps: Sequence[Step], index: int) -> Step:
    is_before_empty = index + 1 < len(steps) and steps[index + 1].kind == "empty"
    return replace(steps[index], is_before_empty=is_before_empty)


def _rows(spans: Spans) -> list[tuple[int, int, int]]:
    return list(zip(spans.name.tolist(), spans.start_ns.tolist(), spans.duration_ns.tolist(), strict=True))


def _step(known: Announcement, start: int, duration: int) -> Step:
    return Step(known.kind, known.batch, start, duration)


def _merged(spans: Spans) -> Spans:
    """Device-side annotations of one step on several streams as one: they overlap."""
    if not len(spans):
        return spans
    reach = np.maximum.accumulate(spans.end_ns)
    is_first = np.ones(len(spans), bool)
    is_first[1:] = (spans.start_ns[1:] >= reach[:-1]) | (spans.name[1:] != spans.name[:-1])
    first = np.flatnonzero(is_first)
    merged = spans.take(first)
    end = np.maximum.reduceat(spans.end_ns, first)
    return replace(merged, duration_ns=end - merged.start_ns)
