"""Two analyses side by side: what changed a step, by category and kernel, beyond noise or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from campaign.errors import TraceError
from campaign.trace.result import Breakdown, TraceAnalysis

#: Changes smaller than this share of a step are not worth a line whatever their noise.
_LEAST_SHARE: Final = 0.001
#: Two runs of one server differ by about this much more than the steps of a run do among each other.
_BETWEEN_RUNS: Final = 0.01


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One number in both analyses."""

    name: str
    before_ms: float | None
    """Milliseconds a step; null where it does not occur."""
    after_ms: float | None
    difference_ms: float
    is_beyond_noise: bool | None
    """The 95 % intervals of the two means, each widened by 1 % for what differs from run to run, do not overlap; null
    where an interval is missing."""


class TraceDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between two runs, largest change first."""

    schema: str = "campaign-trace-diff"
    schema_version: int = 1
    before: str
    after: str
    batch_before: int | None
    batch_after: int | None
    wall: Change
    idle: Change
    categories: tuple[Change, ...]
    """By exposed time."""
    kernels: tuple[Change, ...]
    """By busy time; kernels that neither run spends a thousandth of a step in are left out."""
    notes: tuple[str, ...] = ()


def diff(before: TraceAnalysis, after: TraceAnalysis, names: tuple[str, str] = ("A", "B")) -> TraceDiff:
    """Compare the decode steps of two analyses; raises `TraceError` where one has none."""
    old, new = _decode(before, names[0]), _decode(after, names[1])
    notes = []
    if old.batch != new.batch:
        notes.append(f"batch {old.batch} in {names[0]}, {new.batch} in {names[1]}: the steps are not the same work")
    if before.device != after.device:
        notes.append(f"{before.device} against {after.device}")
    wall = _change("step", (old.wall_ms.mean, old.wall_ms.ci95), (new.wall_ms.mean, new.wall_ms.ci95))
    idle = _change("idle", (old.idle_ms_per_step, None), (new.idle_ms_per_step, None))
    return TraceDiff(
        before=names[0],
        after=names[1],
        batch_before=old.batch,
        batch_after=new.batch,
        wall=wall,
        idle=idle,
        categories=_categories(old, new),
        kernels=_kernels(old, new),
        notes=tuple(notes),
    )


_Value = tuple[float | None, tuple[float, float] | None]


def _decode(analysis: TraceAnalysis, name: str) -> Breakdown:
    if analysis.decode is None or not analysis.decode.steps:
        raise TraceError(f"{name}: no decode steps to compare. Give a trace of a run that decodes.")
    return analysis.decode


def _change(name: str, old: _Value, new: _Value) -> Change:
    is_beyond = None
    if old[1] is not None and new[1] is not None:
        (old_low, old_high), (new_low, new_high) = old[1], new[1]
        wide = 1 + _BETWEEN_RUNS
        is_beyond = old_high * wide < new_low / wide or new_high * wide < old_low / wide
    return Change(
        name=name,
        before_ms=old[0],
        after_ms=new[0],
        difference_ms=(new[0] or 0.0) - (old[0] or 0.0),
        is_beyond_noise=is_beyond,
    )


def _categories(old: Breakdown, new: Breakdown) -> tuple[Change, ...]:
    def values(one: Breakdown) -> dict[str, _Value]:
        return {c.name: (c.exposed_ms_per_step, c.exposed_ci95_ms) for c in one.categories}

    return _sorted(values(old), values(new))


def _kernels(old: Breakdown, new: Breakdown) -> tuple[Change, ...]:
    least = _LEAST_SHARE * max(old.wall_ms.mean or 0.0, new.wall_ms.mean or 0.0)

    def values(one: Breakdown) -> dict[str, _Value]:
        return {k.name: (k.busy_ms_per_step, k.ci95_ms) for k in one.kernels}

    changes = _sorted(values(old), values(new))
    return tuple(c for c in changes if max(c.before_ms or 0.0, c.after_ms or 0.0) >= least)


def _sorted(old: dict[str, _Value], new: dict[str, _Value]) -> tuple[Change, ...]:
    keys: Sequence[str] = list(dict.fromkeys([*old, *new]))
    changes = [_change(key, old.get(key, (None, None)), new.get(key, (None, None))) for key in keys]
    return tuple(sorted(changes, key=lambda change: -abs(change.difference_ms)))
