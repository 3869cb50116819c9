"""Kernels whose names say little: placed by the kernel before them, or listed with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from campaign.trace.categories import CATEGORIES, COMPILED, OTHER, Table
from campaign.trace.events import Ints, Spans
from campaign.trace.result import CompiledKernel

_SURE: Final = 0.9


def placed(names: Sequence[str], category: Ints, device: Spans, name: Ints, table: Table) -> Ints:
    """Categories of names, with those of no category placed by their neighbour where the table says so."""
    result = category.copy()
    for index in np.flatnonzero(category == OTHER).tolist():
        for place in table.places:
            if not place.pattern.search(names[index]):
                continue
            before, _ = _around(device, name, index)
            known = category[before[before >= 0]]
            if len(known) and np.isin(known, list(place.after)).mean() >= _SURE:
                result[index] = place.category
                break
    return result


def _around(device: Spans, name: Ints, index: int) -> tuple[Ints, Ints]:
    """Names before and after each call of a kernel on its stream; -1 for none."""
    before, after = [], []
    for lane in np.unique(device.lane[name == index]):
        mine = np.flatnonzero(device.lane == lane)
        at = np.flatnonzero(name[mine] == index)
        line = np.concatenate([[-1], name[mine], [-1]])
        before.append(line[at])
        after.append(line[at + 2])
    return np.concatenate(before), np.concatenate(after)


def compiled_kernels(
    names: Sequence[str], category: Ints, device: Spans, name: Ints, *, step: Ints, steps: int
) -> tuple[CompiledKernel, ...]:
    """Every generated kernel without a telling name, with its usual neighbours; the largest first."""
    found = []
    for index in np.flatnonzero(category == COMPILED).tolist():
        mine = (name == index) & (step >= 0)
        if not mine.any():
            continue
        before, after = (_most(around) for around in _around(device, name, index))
        found.append(
            CompiledKernel(
                name=names[index],
                calls_per_step=int(mine.sum()) / steps,
                busy_ms_per_step=int(device.duration_ns[mine].sum()) / steps / 1e6,
                before=names[before] if before >= 0 else "",
                before_category=CATEGORIES[int(category[before])] if before >= 0 else "",
                after=names[after] if after >= 0 else "",
                after_category=CATEGORIES[int(category[after])] if after >= 0 else "",
            )
        )
    return tuple(sorted(found, key=lambda kernel: -kernel.busy_ms_per_step))


def _most(values: Ints) -> int:
    known, count = np.unique(values, return_counts=True)
    return int(known[np.argmax(count)])
