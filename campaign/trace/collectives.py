"""Collectives matched over ranks by step and ordinal; waiting for the last rank apart from transfer.

No collective metadata is needed (a graph replay has none). Where the ranks' clocks agree (one host), a call's wait is
the last rank's start less its own; otherwise the shortest duration of a call is its transfer and the rest waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from campaign.trace.events import Floats, Ints
from campaign.trace.ranked import CollectiveCalls

#: Ends of one call on all ranks lie this close where clocks are one clock (a call ends together, up to its tail).
_CLOCK_TOLERANCE_NS: Final = 50_000
_CLEAR_SHARE: Final = 0.7


@dataclass(frozen=True)
class Split:
    """One step's calls over ranks, ranks × calls."""

    wait_ns: Ints
    transfer_ns: Ints
    last: Ints
    """Per call: the rank that came last."""


def is_one_clock(steps: Sequence[Sequence[CollectiveCalls]]) -> bool:
    """Whether starts can be compared: calls of equal ordinal end together on all ranks (median, over all calls)."""
    spreads = []
    for calls in steps:
        if not _match(calls):
            continue
        ends = np.stack([c.start_ns + c.duration_ns for c in calls])
        starts = np.stack([c.start_ns for c in calls])
        spreads.append(ends.max(axis=0) - ends.min(axis=0))
        if np.any(starts.max(axis=0) > ends.max(axis=0)):
            return False
    return bool(spreads) and float(np.median(np.concatenate(spreads))) <= _CLOCK_TOLERANCE_NS


def _match(calls: Sequence[CollectiveCalls]) -> bool:
    return len(calls) > 1 and len({len(c.start_ns) for c in calls}) == 1 and len(calls[0].start_ns) > 0


def split(calls: Sequence[CollectiveCalls], has_one_clock: bool) -> Split | None:
    """Waiting and transfer of one step's calls; None where ranks disagree on how many there are."""
    if not _match(calls):
        return None
    start = np.stack([c.start_ns for c in calls])
    duration = np.stack([c.duration_ns for c in calls])
    late, longer = np.clip(start.max(axis=0) - start, 0, duration), duration - duration.min(axis=0)
    wait = late if has_one_clock else longer
    return Split(wait, duration - wait, np.argmin(wait, axis=0))


def verdict(wait: Floats, transfer: Floats) -> tuple[str, str]:
    """Class of a collective and why, from its calls' waiting and transfer."""
    total = float(wait.sum() + transfer.sum())
    if len(wait) < 10 or total <= 0:
        return "inconclusive", f"{len(wait)} matched calls are too few"
    share = float(wait.sum()) / total
    text = f"{100 * share:.0f} % of its time is waiting for the last rank"
    if share >= _CLEAR_SHARE:
        return "skew-bound", text
    return ("transfer-bound", text) if share <= 1 - _CLEAR_SHARE else ("mixed", text)


def algorithm(kernel: str) -> str | None:
    """What the kernel's name says of the algorithm."""
    upper = kernel.upper()
    for key, name in (
        ("RING_LL128", "ring, LL128"), ("RING_LL", "ring, LL"), ("RING_SIMPLE", "ring, simple"), ("RING", "ring"),
        ("TREE_LL128", "tree, LL128"), ("TREE_LL", "tree, LL"), ("TREE", "tree"), ("NVLS", "NVLS"),
        ("REDUCE_1STAGE", "one-shot custom"), ("REDUCE_2STAGE", "two-shot custom"), ("MULTIMEM", "multimem"),
        ("ONESHOT", "one-shot"), ("TWOSHOT", "two-shot"), ("SYMK", "symmetric memory"), ("C10D", "gloo or c10d"),
        ("SHM_", "shared memory"),
    ):  # fmt: skip
        if key in upper:
            return name
    return None
