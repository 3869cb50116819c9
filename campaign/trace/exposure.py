"""Each instant of a step to one category: compute before communication before copies, the first started first.

All in integer nanoseconds; the parts and the idle time of a window add up to the window.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from campaign.trace.events import Ints


@dataclass(frozen=True)
class Cover:
    """A union of intervals as sorted disjoint spans."""

    start: Ints
    stop: Ints
    before: Ints
    """Length covered before each span."""

    def length_until(self, at: Ints) -> Ints:
        """How much is covered before each instant of `at`."""
        if not len(self.start):
            return np.zeros(len(at), np.int64)
        index = np.searchsorted(self.start, at, side="right") - 1
        safe = np.maximum(index, 0)
        inside = np.minimum(at, self.stop[safe]) - self.start[safe]
        return np.where(index >= 0, self.before[safe] + inside, 0)


def cover(start: Ints, stop: Ints) -> Cover:
    """The union of intervals (any order)."""
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    if not len(start):
        return Cover(start, stop, start)
    reach = np.maximum.accumulate(stop)
    is_first = np.ones(len(start), bool)
    is_first[1:] = start[1:] > reach[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(start)) - 1
    begin, end = start[first], reach[last]
    length = end - begin
    return Cover(begin, end, np.cumsum(length) - length)


def exposed(start: Ints, stop: Ints, *, group: Ints, rank: Ints, edges: Ints, groups: int) -> Ints:
    """Exposed nanoseconds, windows × groups.

    start, stop, group, rank: a row an event; `group` < groups is what time is credited to, `rank` its class (0 wins
    over 1 over 2). edges: ascending boundaries of the windows, one more than there are windows.
    """
    windows = len(edges) - 1
    total = np.zeros(windows * groups, np.int64)
    seen_start, seen_stop = start[:0], stop[:0]
    for level in np.unique(rank):
        mine = np.flatnonzero(rank == level)
        mine = mine[np.argsort(start[mine], kind="stable")]
        begin, end = start[mine], stop[mine]
        reach = np.maximum.accumulate(end)
        begin = begin.copy()
        begin[1:] = np.maximum(begin[1:], reach[:-1])
        higher = cover(seen_start, seen_stop)
        _credit(
            total.reshape(windows, groups), begin, np.maximum(end, begin), group=group[mine], edges=edges, higher=higher
        )
        seen_start, seen_stop = np.concatenate([seen_start, start[mine]]), np.concatenate([seen_stop, end])
    return total.reshape(windows, groups)


def _credit(total: Ints, begin: Ints, end: Ints, *, group: Ints, edges: Ints, higher: Cover) -> None:
    """Add disjoint intervals, cut at the edges of windows, less what a higher class covers."""
    begin, end = np.maximum(begin, edges[0]), np.minimum(end, edges[-1])
    left = np.flatnonzero(end > begin)
    begin, end, group = begin[left], end[left], group[left]
    while len(begin):
        window = np.searchsorted(edges, begin, side="right") - 1
        stop = np.minimum(end, edges[window + 1])
        length = (stop - begin) - (higher.length_until(stop) - higher.length_until(begin))
        np.add.at(total, (window, group), length)
        more = np.flatnonzero(end > stop)
        begin, end, group = stop[more], end[more], group[more]


def gaps(start: Ints, stop: Ints, edges: Ints) -> tuple[Ints, Ints, Ints]:
    """Idle spans within the windows: starts, ends, window of each (a gap across an edge is cut there)."""
    union = cover(start, stop)
    begin = np.concatenate([edges[:1], union.stop])
    end = np.concatenate([union.start, edges[-1:]])
    begin, end = np.maximum(begin, edges[0]), np.minimum(end, edges[-1])
    real = end > begin
    begin, end = begin[real], end[real]
    inner = edges[1:-1]
    cuts = inner[_is_inside(inner, begin, end)]
    begin, end = np.sort(np.concatenate([begin, cuts])), np.sort(np.concatenate([end, cuts]))
    return begin, end, np.searchsorted(edges, begin, side="right") - 1


def _is_inside(at: Ints, begin: Ints, end: Ints) -> Ints:
    index = np.searchsorted(begin, at, side="right") - 1
    inside: Ints = (
        (index >= 0) & (at > begin[np.maximum(index, 0)]) & (at < end[np.maximum(index, 0)])
        if len(begin)
        else np.zeros(len(at), bool)
    )
    return inside
