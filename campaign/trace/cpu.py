"""A trace without device events → `RankSteps`: self time of ops on the annotations' thread, the rest is the host's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from campaign.trace import composites
from campaign.trace.annotations import announcements
from campaign.trace.categories import CATEGORIES, COMMUNICATION, OTHER, Table
from campaign.trace.events import Ints, Spans, Trace
from campaign.trace.ranked import IDLE_REASONS, NO_WALL, CollectiveCalls, RankSteps
from campaign.trace.steps import Step

#: An op of the host alone: it moves no data and stands in no op that does.
_HOSTS: Final = -1
_COPY: Final = CATEGORIES.index("copy")
_COMMUNICATION: Final = tuple(CATEGORIES.index(name) for name in COMMUNICATION)


@dataclass(frozen=True)
class Ops:
    """Ops of one thread with what nesting says about them."""

    spans: Spans
    self_ns: Ints
    category: Ints
    """−1 for an op of the host alone."""
    is_call: Ints
    """1 where the op is a call of its category: the outermost of it, and no wait."""
    parent: Ints
    """The op that called it; −1 for none."""


@dataclass(frozen=True)
class HostSteps:
    """Announced steps of the thread that announces most."""

    lane: int
    steps: tuple[Step, ...]
    """Without the empty ones."""
    first_ns: Ints
    wall_ns: Ints
    """To the next annotation; `NO_WALL` where that is not known or empty."""
    edges_ns: Ints
    """Starts of all annotations, the empty ones too."""
    number: Ints
    """Per annotation the index into `steps`, −1 for an empty one; the last −1 is for what comes before the first."""


def host_steps(trace: Trace, step_regex: str | None) -> HostSteps | None:
    """Steps of a trace without device events; None where it has no step annotations."""
    known = announcements(trace.names, step_regex)
    chosen = trace.annotations.take(np.isin(trace.annotations.name, list(known)))
    if not len(chosen):
        return None
    lanes, count = np.unique(chosen.lane, return_counts=True)
    lane = int(lanes[count.argmax()])
    chosen = chosen.take(chosen.lane == lane)
    kinds = [known[n] for n in chosen.name.tolist()]
    rows = list(zip(kinds, chosen.start_ns.tolist(), chosen.duration_ns.tolist(), strict=True))
    announced = [Step(k.kind, k.batch, start, length) for k, start, length in rows]
    kept = [i for i, step in enumerate(announced) if step.kind != "empty"]
    wall = np.full(len(kept), NO_WALL, np.int64)
    for row, index in enumerate(kept):
        if index + 1 < len(announced) and announced[index + 1].kind != "empty":
            wall[row] = int(chosen.start_ns[index + 1] - chosen.start_ns[index])
    number = np.full(len(announced) + 1, -1, np.int64)
    number[kept] = np.arange(len(kept))
    steps = tuple(announced[i] for i in kept)
    return HostSteps(lane, steps, chosen.start_ns[kept], wall, chosen.start_ns, number)


def analyze_host(trace: Trace, table: Table, step_regex: str | None) -> RankSteps | None:
    """Steps and categories of a CPU-only trace; None where it has no step annotations (an API server's trace)."""
    found = host_steps(trace, step_regex)
    if found is None:
        return None
    ops = nested(trace.ops.take(trace.ops.lane == found.lane), trace.names, table)
    step = found.number[np.searchsorted(found.edges_ns, ops.spans.start_ns, side="right") - 1]
    return _tables(trace, ops, step, steps=found.steps, first=found.first_ns, wall=found.wall_ns)


def nested(spans: Spans, names: Sequence[str], table: Table) -> Ops:
    """Self times and categories; an op of no category takes that of the op around it, or of its row of siblings."""
    known = {i: table.category(names[i]) for i in np.unique(spans.name).tolist()}
    is_host = {i: table.host_ops.search(names[i]) is not None for i in known}
    is_counted = {i: table.is_counted(names[i]) for i in known}
    starts, ends = spans.start_ns.tolist(), spans.end_ns.tolist()
    own, name_of = spans.duration_ns.copy(), spans.name.tolist()
    category, is_call, parents = [_HOSTS] * len(spans), [0] * len(spans), [-1] * len(spans)
    stack: list[int] = []
    for index, name in enumerate(name_of):
        while stack and ends[stack[-1]] <= starts[index]:
            stack.pop()
        around = category[stack[-1]] if stack else _HOSTS
        if stack:
            parents[index] = stack[-1]
            own[stack[-1]] -= min(ends[index], ends[stack[-1]]) - starts[index]
        mine = _HOSTS if is_host[name] else known[name]
        if mine in (_HOSTS, OTHER) and around not in (_HOSTS, OTHER):
            mine = around
        category[index] = mine
        is_call[index] = int(mine != _HOSTS and mine == known[name] and mine != around and is_counted[name])
        stack.append(index)
    words = {
        index: text
        for index, name in enumerate(name_of)
        if (text := composites.word(names[name], None if category[index] == _HOSTS else category[index])) is not None
    }
    _take_composites(parents, words, category, is_call=is_call, table=table)
    return Ops(spans, own, np.array(category, np.int64), np.array(is_call, np.int64), np.array(parents, np.int64))


def _take_composites(
    parents: Sequence[int], words: dict[int, str], category: list[int], *, is_call: list[int], table: Table
) -> None:
    """Give the ops of each composite, with the general ops below them, its category; a composite is one call."""
    is_open = [one in (_HOSTS, OTHER) for one in category]
    taken: dict[int, int] = {}
    for parent, siblings in composites.families(parents).items():
        if parent in taken:
            for index in siblings:
                if category[index] in (_HOSTS, OTHER, _COPY):
                    category[index], is_call[index], taken[index] = taken[parent], 0, taken[parent]
        elif parent < 0 or is_open[parent]:
            for mine, members in composites.find(siblings, words, table):
                for turn, index in enumerate(members):
                    category[index], is_call[index], taken[index] = mine, int(turn == 0), mine


def _tables(trace: Trace, ops: Ops, step: Ints, *, steps: tuple[Step, ...], first: Ints, wall: Ints) -> RankSteps:
    worked = ops.category != _HOSTS
    inside = worked & (step >= 0)
    key = ops.spans.name * len(CATEGORIES) + ops.category
    used, dense = np.unique(key[worked], return_inverse=True)
    pair = np.zeros(len(key), np.int64)
    pair[worked] = dense
    names, category = tuple(trace.names[i // len(CATEGORIES)] for i in used.tolist()), used % len(CATEGORIES)
    count, width = len(steps), len(used)
    cell = step[inside] * width + pair[inside]
    kernel_ns = np.zeros(count * width, np.int64)
    np.add.at(kernel_ns, cell, ops.self_ns[inside])
    kernel_calls = np.bincount(cell, minlength=count * width)
    busy, calls = np.zeros((count, len(CATEGORIES)), np.int64), np.zeros((count, len(CATEGORIES)), np.int64)
    np.add.at(busy, (step[inside], ops.category[inside]), ops.self_ns[inside])
    np.add.at(calls, (step[inside], ops.category[inside]), ops.is_call[inside])
    idle = np.zeros((count, len(IDLE_REASONS)), np.int64)
    idle[:, 0] = np.where(wall == NO_WALL, 0, wall - busy.sum(axis=1))
    whole_ns, whole_calls = np.zeros(len(CATEGORIES), np.int64), np.zeros(len(CATEGORIES), np.int64)
    np.add.at(whole_ns, ops.category[worked], ops.self_ns[worked])
    np.add.at(whole_calls, ops.category[worked], ops.is_call[worked])
    nothing = np.zeros(count, np.int64)
    return RankSteps(
        path=trace.path, rank=trace.rank, world_size=trace.world_size, device_name="cpu", device="cpu",
        events=trace.events, steps=steps, first_ns=first, wall_ns=wall, busy_ns=busy, calls=calls, exposed_ns=busy,
        idle_ns=idle, names=names, category_of_name=category,
        kernel_ns=kernel_ns.reshape(count, width), kernel_calls=kernel_calls.reshape(count, width),
        collectives=_collectives(trace, ops, pair, step, count), collective_arguments=(),
        launches=nothing, graph_launches=nothing, launch_ns=nothing, sync_ns=nothing,
        found_by="annotations", outside=int(np.count_nonzero(worked & (step < 0))),
        outside_ns=int(ops.self_ns[worked & (step < 0)].sum()), problems=trace.problems, notes=trace.notes,
        whole_ns=whole_ns, whole_calls=whole_calls,
        whole_span_ns=int(ops.spans.end_ns.max() - ops.spans.start_ns.min()) if len(ops.spans) else 0,
    )  # fmt: skip


def _collectives(trace: Trace, ops: Ops, pair: Ints, step: Ints, count: int) -> tuple[CollectiveCalls, ...]:
    """Calls with the wait that follows them: a call starts with its op and lasts as long as op and wait together."""
    calls = []
    is_comm = np.isin(ops.category, _COMMUNICATION)
    for number in range(count):
        mine = np.flatnonzero(is_comm & (step == number))
        head = np.flatnonzero(ops.is_call[mine])
        owner = np.searchsorted(head, np.arange(len(mine)), side="right") - 1
        length = np.zeros(len(head), np.int64)
        np.add.at(length, owner[owner >= 0], ops.self_ns[mine[owner >= 0]])
        at = mine[head]
        calls.append(CollectiveCalls(ops.spans.start_ns[at] + trace.base_ns, length, pair[at]))
    return tuple(calls)
