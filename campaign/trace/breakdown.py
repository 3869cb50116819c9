"""Tables of kept steps → the breakdown that is reported."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import numpy as np

from campaign.trace import result
from campaign.trace.categories import CATEGORIES, COMPILED, OTHER
from campaign.trace.events import Floats
from campaign.trace.ranked import IDLE_REASONS
from campaign.trace.statistics import interval, quantile, share_interval
from campaign.trace.table import Selection, StepRows

_NS_A_MS: Final = 1e6
_NO_OP: Final = {
    "cpu": "has no op of its own on the CPU: it is part of a compiled graph or spread over general ops",
    "gpu": "no kernel of this category ran in these steps",
}
#: What compilers of engines fuse into kernels whose names do not tell.
_FUSED: Final = frozenset(("rms_norm", "rope", "silu_mul", "quantize", "kv_cache", "copy"))
_MAYBE_FUSED: Final = "no kernel is named so; generated ones (compiled) may do it"


def breakdown(
    table: StepRows,
    selection: Selection,
    *,
    batch: int | None,
    device: str,
    collectives: Sequence[result.Collective],
    compiled: Sequence[result.CompiledKernel] = (),
) -> result.Breakdown:
    """The mean step of a table; `selection` says what was left out."""
    idle = table.idle.sum(axis=1)
    categories = _categories(table)
    present = {category.name for category in categories}
    busy = float(table.busy.sum(axis=1).mean()) if len(table.wall) else 0.0
    return result.Breakdown(
        batch=batch,
        steps=len(table.wall),
        trimmed=selection.trimmed,
        without_wall=selection.without_wall,
        wall_ms=_wall(table.wall / _NS_A_MS),
        busy_ms_per_step=busy / _NS_A_MS,
        idle_ms_per_step=float(idle.mean()) / _NS_A_MS if len(idle) else None,
        idle=_idle(table),
        idle_share=float(idle.sum() / table.wall.sum()) if table.wall.sum() else None,
        categories=categories,
        absent=tuple(
            result.AbsentCategory(name=name, absent_reason=_why_absent(name, device, present))
            for name in CATEGORIES
            if name not in present
        ),
        kernels=_kernels(table),
        collectives=tuple(collectives),
        host=_host(table),
        unclassified=_unclassified(table, busy),
        unclassified_share=float(table.busy[:, OTHER].mean()) / busy if busy else None,
        compiled=tuple(compiled),
    )


def _why_absent(name: str, device: str, present: Set[str]) -> str:
    if device == "gpu" and name in _FUSED and CATEGORIES[COMPILED] in present:
        return _MAYBE_FUSED
    return _NO_OP[device]


def _wall(wall_ms: Floats) -> result.Wall:
    if not len(wall_ms):
        return result.Wall()
    return result.Wall(
        mean=float(wall_ms.mean()),
        median=quantile(wall_ms, 0.5),
        p10=quantile(wall_ms, 0.1),
        p90=quantile(wall_ms, 0.9),
        ci95=interval(wall_ms),
    )


def _idle(table: StepRows) -> dict[str, float]:
    if not len(table.wall):
        return {}
    mean = table.idle.mean(axis=0) / _NS_A_MS
    return {reason: float(mean[i]) for i, reason in enumerate(IDLE_REASONS) if mean[i] != 0}


def _categories(table: StepRows) -> tuple[result.Category, ...]:
    if not len(table.wall):
        return ()
    busy, calls, exposed = table.busy.mean(axis=0), table.calls.mean(axis=0), table.exposed.mean(axis=0)
    found = []
    for index in np.flatnonzero((busy > 0) | (calls > 0) | (exposed > 0)).tolist():
        share = table.exposed[:, index] / np.maximum(table.wall, 1.0)
        found.append(
            result.Category(
                name=CATEGORIES[index],
                calls_per_step=float(calls[index]),
                busy_ms_per_step=float(busy[index]) / _NS_A_MS,
                exposed_ms_per_step=float(exposed[index]) / _NS_A_MS,
                share_of_busy=float(busy[index] / busy.sum()) if busy.sum() else 0.0,
                share_of_wall=float(exposed[index] / table.wall.mean()) if table.wall.any() else None,
                us_per_call=float(busy[index] / calls[index]) / 1e3 if calls[index] else None,
                share_median=quantile(share, 0.5),
                share_p10=quantile(share, 0.1),
                share_p90=quantile(share, 0.9),
                share_ci95=share_interval(table.exposed[:, index], table.wall),
                exposed_ci95_ms=interval(table.exposed[:, index] / _NS_A_MS),
            )
        )
    return tuple(sorted(found, key=lambda category: -category.exposed_ms_per_step))


def _kernels(table: StepRows) -> tuple[result.Kernel, ...]:
    if not len(table.wall):
        return ()
    found = []
    for (name, category), (ns, calls) in table.kernels.items():
        total, count = float(ns.mean()), float(calls.mean())
        if not count:
            continue
        found.append(
            result.Kernel(
                name=name,
                category=CATEGORIES[category],
                calls_per_step=count,
                us_per_call=total / count / 1e3,
                busy_ms_per_step=total / _NS_A_MS,
                ci95_ms=interval(ns / _NS_A_MS),
            )
        )
    return tuple(sorted(found, key=lambda kernel: (-kernel.busy_ms_per_step, kernel.name)))


def _unclassified(table: StepRows, busy: float) -> tuple[result.Unclassified, ...]:
    found = [
        result.Unclassified(
            name=name,
            busy_ms_per_step=float(ns.mean()) / _NS_A_MS,
            share_of_busy=float(ns.mean()) / busy if busy else 0.0,
        )
        for (name, category), (ns, _) in table.kernels.items()
        if category == OTHER and ns.sum() > 0
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.busy_ms_per_step))


def _host(table: StepRows) -> result.Host:
    if not len(table.wall) or np.isnan(table.host[:, 0]).any():
        return result.Host()
    mean = table.host.mean(axis=0)
    return result.Host(
        annotation_ms_per_step=float(mean[0]) / _NS_A_MS,
        launches_per_step=float(mean[1]),
        graph_launches_per_step=float(mean[2]),
        launch_ms_per_step=float(mean[3]) / _NS_A_MS,
        sync_ms_per_step=float(mean[4]) / _NS_A_MS,
    )


def whole(busy_ns: Sequence[int], calls: Sequence[int], span_ns: int) -> tuple[result.Category, ...]:
    """The whole file as one step, for files in which no steps were found (exposure is not computed: busy stands)."""
    total = sum(busy_ns)
    found = [
        result.Category(
            name=CATEGORIES[i],
            calls_per_step=float(calls[i]),
            busy_ms_per_step=busy_ns[i] / _NS_A_MS,
            exposed_ms_per_step=busy_ns[i] / _NS_A_MS,
            share_of_busy=busy_ns[i] / total if total else 0.0,
            share_of_wall=busy_ns[i] / span_ns if span_ns else None,
            us_per_call=busy_ns[i] / calls[i] / 1e3 if calls[i] else None,
        )
        for i in range(len(CATEGORIES))
        if busy_ns[i] or calls[i]
    ]
    return tuple(sorted(found, key=lambda category: -category.busy_ms_per_step))
