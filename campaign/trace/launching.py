"""Kernels whose names say nothing, by the host's op that launched them (outside graphs, where one launch has them all).

An eager RMSNorm is six elementwise kernels; the ops that launch them stand in a row that tells what they make, and a
kernel of an unknown name runs for the operation whose op calls it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from campaign.trace import cpu
from campaign.trace.categories import OTHER, Table
from campaign.trace.events import Ints, Trace

#: Below this share of the busy time nobody needs to know: the host's ops are not looked at.
_LEAST_SHARE: Final = 0.005


def by_launching_op(trace: Trace, launch: Ints, category: Ints, table: Table) -> Ints:
    """Categories of device events, those of no category with that of the op in which their launch lies.

    launch: index into the launches by device event, −1 for none.
    """
    duration = trace.device.duration_ns
    unknown = np.flatnonzero((category == OTHER) & (launch >= 0))
    if not len(trace.ops) or duration[unknown].sum() < _LEAST_SHARE * duration.sum():
        return category
    is_graph = np.array(["GraphLaunch" in name for name in trace.names], bool)
    unknown = unknown[~is_graph[trace.launches.name[launch[unknown]]]]
    at, lane = trace.launches.start_ns[launch[unknown]], trace.launches.lane[launch[unknown]]
    result = category.copy()
    for thread in np.unique(lane).tolist():
        ops = cpu.nested(trace.ops.take(trace.ops.lane == thread), trace.names, table)
        mine = np.flatnonzero(lane == thread)
        found = _innermost(ops, at[mine])
        of_op = np.where(found >= 0, ops.category[found], OTHER) if len(ops.category) else np.full(len(mine), OTHER)
        result[unknown[mine]] = np.where(of_op >= 0, of_op, OTHER)
    return result


def _innermost(ops: cpu.Ops, at: Ints) -> Ints:
    """The op that runs at each instant and was called last; −1 for none."""
    found: Ints = np.searchsorted(ops.spans.start_ns, at, side="right") - 1
    end = ops.spans.end_ns
    while True:
        is_over = found >= 0
        is_over[is_over] = end[found[is_over]] <= at[is_over]
        if not is_over.any():
            return found
        found[is_over] = ops.parent[found[is_over]]
