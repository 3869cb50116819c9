"""Kept steps as plain tables, of one rank or the mean over ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from campaign.trace.events import Floats, Ints
from campaign.trace.ranked import NO_WALL, RankSteps
from campaign.trace.statistics import unsteady

#: A step this many times the median, with no step like it after it, ends in a pause of the engine.
_PAUSE: Final = 3.0


@dataclass(frozen=True)
class Selection:
    """Which steps of a rank are kept for one batch size."""

    index: Ints
    trimmed: int
    without_wall: int


@dataclass(frozen=True)
class StepRows:
    """Kept steps in nanoseconds; rows are steps."""

    wall: Floats
    busy: Floats
    calls: Floats
    exposed: Floats
    idle: Floats
    kernels: dict[tuple[str, int], tuple[Floats, Floats]]
    """(name, category) → nanoseconds and calls by step."""
    host: Floats
    """Steps × (annotation, launches, graph launches, launch time, sync time); NaN where unknown."""


def batches(ranks: Sequence[RankSteps]) -> list[int | None]:
    """Batch sizes of decode steps, the one with the most steps first (of equals the larger)."""
    count = Counter(step.batch for step in ranks[0].steps if step.kind == "decode")
    return sorted(count, key=lambda batch: (-count[batch], -(batch or 0)))


def candidates(rank: RankSteps, batch: int | None) -> Ints:
    """Decode steps of a batch size."""
    chosen = [i for i, step in enumerate(rank.steps) if step.kind == "decode" and step.batch == batch]
    return np.array(chosen, np.int64)


def has_wall(rank: RankSteps, index: Ints) -> list[bool]:
    """Per step of `index`: its length is known and holds no pause of the engine."""
    wall = rank.wall_ns[index]
    known = wall[wall != NO_WALL]
    limit = _PAUSE * float(np.median(known)) if len(known) else 0.0
    members = set(index.tolist())
    return [
        bool(w != NO_WALL and (w <= limit or i + 1 in members))
        for i, w in zip(index.tolist(), wall.tolist(), strict=True)
    ]


def select(ranks: Sequence[RankSteps], batch: int | None, trim: int | None) -> list[Selection]:
    """Kept steps of every rank, trimmed alike; `trim` None = as many as are unsteady on the rank that needs most."""
    found, walled = [], []
    for rank in ranks:
        index = candidates(rank, batch)
        found.append(index)
        walled.append(np.array(has_wall(rank, index), bool))
    if trim is None:
        trim = max(
            unsteady(rank.wall_ns[index[flags]].astype(np.float64))
            for rank, index, flags in zip(ranks, found, walled, strict=True)
        )
    selections = []
    for index, flags in zip(found, walled, strict=True):
        left, kept_flags = index[trim:], flags[trim:]
        trimmed = min(trim, len(index))
        selections.append(Selection(left[kept_flags], trimmed, int(np.count_nonzero(~kept_flags))))
    return selections


def rows(rank: RankSteps, index: Ints) -> StepRows:
    """The kept steps of one rank."""
    kernels = {}
    used = np.flatnonzero(rank.kernel_calls[index].sum(axis=0))
    for column in used.tolist():
        key = (rank.names[column], int(rank.category_of_name[column]))
        pair = rank.kernel_ns[index, column].astype(np.float64), rank.kernel_calls[index, column].astype(np.float64)
        kernels[key] = pair
    annotation = np.array(
        [np.nan if (d := rank.steps[i].host_duration_ns) is None else d for i in index.tolist()], np.float64
    )
    host = [annotation, rank.launches[index], rank.graph_launches[index], rank.launch_ns[index], rank.sync_ns[index]]
    return StepRows(
        wall=rank.wall_ns[index].astype(np.float64),
        busy=rank.busy_ns[index].astype(np.float64),
        calls=rank.calls[index].astype(np.float64),
        exposed=rank.exposed_ns[index].astype(np.float64),
        idle=rank.idle_ns[index].astype(np.float64),
        kernels=kernels,
        host=np.stack([column.astype(np.float64) for column in host], axis=1),
    )


def mean_rows(tables: Sequence[StepRows]) -> StepRows:
    """Step by step the mean over ranks (as many steps as every rank has)."""
    steps = min(len(table.wall) for table in tables)
    share = 1.0 / len(tables)
    keys = dict.fromkeys(key for table in tables for key in table.kernels)
    nothing = np.zeros(steps)
    kernels = {
        key: (
            sum((t.kernels[key][0][:steps] for t in tables if key in t.kernels), nothing) * share,
            sum((t.kernels[key][1][:steps] for t in tables if key in t.kernels), nothing) * share,
        )
        for key in keys
    }
    return StepRows(
        wall=np.mean([t.wall[:steps] for t in tables], axis=0),
        busy=np.mean([t.busy[:steps] for t in tables], axis=0),
        calls=np.mean([t.calls[:steps] for t in tables], axis=0),
        exposed=np.mean([t.exposed[:steps] for t in tables], axis=0),
        idle=np.mean([t.idle[:steps] for t in tables], axis=0),
        kernels=kernels,
        host=np.mean([t.host[:steps] for t in tables], axis=0),
    )
