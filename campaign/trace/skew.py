"""Ranks side by side: what they wait for each other, who comes last, whether one stands for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from campaign.trace import collectives, result
from campaign.trace.categories import CATEGORIES
from campaign.trace.collectives import Split
from campaign.trace.events import Floats, Ints
from campaign.trace.ranked import RankSteps
from campaign.trace.table import StepRows

_NS_A_MS: Final = 1e6
_ENOUGH_CI_SHARE: Final = 0.02
_SAME_SHARE: Final = 0.02


@dataclass(frozen=True)
class Meeting:
    """Collectives of all ranks matched, step by step."""

    splits: tuple[Split | None, ...]
    """Per step; None where ranks disagree on the number of calls."""
    has_one_clock: bool
    unmatched: int
    why: str


def meet(ranks: Sequence[RankSteps]) -> Meeting:
    """Match the collectives of all ranks; empty for one rank."""
    if len(ranks) < 2:
        return Meeting((), False, 0, "one rank: waiting and transfer cannot be told apart")
    steps = min(len(rank.steps) for rank in ranks)
    kinds_agree = all(
        [(s.kind, s.batch) for s in rank.steps[:steps]] == [(s.kind, s.batch) for s in ranks[0].steps[:steps]]
        for rank in ranks
    )
    if not kinds_agree:
        return Meeting((), False, steps, "the ranks' steps are not the same: their collectives cannot be matched")
    calls = [[rank.collectives[i] for rank in ranks] for i in range(steps)]
    has_one_clock = collectives.is_one_clock(calls)
    splits = tuple(collectives.split(c, has_one_clock) for c in calls)
    unmatched = sum(1 for s, c in zip(splits, calls, strict=True) if s is None and any(len(x.name) for x in c))
    why = f"{unmatched} steps left out: the ranks' numbers of calls differ" if unmatched else ""
    if not any(s is not None for s in splits):
        why = why or "no collectives in these steps"
    return Meeting(splits, has_one_clock, unmatched, why)


def rank_collectives(rank: RankSteps, place: int, index: Ints, meeting: Meeting) -> tuple[result.Collective, ...]:
    """The collectives of one rank (the `place`th) over the steps at `index`."""
    durations: dict[int, list[Ints]] = defaultdict(list)
    waits: dict[int, list[Ints]] = defaultdict(list)
    transfers: dict[int, list[Ints]] = defaultdict(list)
    for step in index.tolist():
        calls = rank.collectives[step]
        split = meeting.splits[step] if step < len(meeting.splits) else None
        for name in np.unique(calls.name).tolist():
            mine = calls.name == name
            durations[name].append(calls.duration_ns[mine])
            if split is not None:
                waits[name].append(split.wait_ns[place][mine])
                transfers[name].append(split.transfer_ns[place][mine])
    found = [
        _collective(
            rank,
            name,
            len(index),
            duration=np.concatenate(parts),
            waits=waits.get(name, []),
            transfers=transfers.get(name, []),
        )
        for name, parts in durations.items()
    ]
    return tuple(sorted(found, key=lambda c: -c.calls_per_step * c.us_per_call))


def _collective(
    rank: RankSteps, name: int, steps: int, *, duration: Ints, waits: list[Ints], transfers: list[Ints]
) -> result.Collective:
    wait = np.concatenate(waits).astype(np.float64) if waits else None
    transfer = np.concatenate(transfers).astype(np.float64) if transfers else None
    verdict, why = "inconclusive", "one rank alone, or calls that do not match"
    if wait is not None and transfer is not None:
        verdict, why = collectives.verdict(wait, transfer)
    sizes = {c.message_bytes for c in rank.collective_arguments if c.kernel == name}
    return result.Collective(
        name=CATEGORIES[int(rank.category_of_name[name])],
        kernel=rank.names[name],
        calls_per_step=len(duration) / steps,
        us_per_call=float(duration.mean()) / 1e3,
        median_us=float(np.median(duration)) / 1e3,
        wait_us_per_call=float(wait.mean()) / 1e3 if wait is not None else None,
        transfer_us_per_call=float(transfer.mean()) / 1e3 if transfer is not None else None,
        message_bytes=sizes.pop() if len(sizes) == 1 else None,
        algorithm=collectives.algorithm(rank.names[name]),
        verdict=verdict,
        why=why,
    )


def mean_collectives(of_ranks: Sequence[Sequence[result.Collective]]) -> tuple[result.Collective, ...]:
    """The mean over ranks, kernel by kernel (ranks that lack one count as no calls)."""
    groups: dict[tuple[str, str], list[result.Collective]] = defaultdict(list)
    for rank in of_ranks:
        for one in rank:
            groups[one.name, one.kernel].append(one)
    found = [_mean(group, len(of_ranks)) for group in groups.values()]
    return tuple(sorted(found, key=lambda c: -c.calls_per_step * c.us_per_call))


def _mean(group: list[result.Collective], ranks: int) -> result.Collective:
    calls = sum(one.calls_per_step for one in group)

    def weighed(values: list[float | None]) -> float | None:
        known = [(v, one.calls_per_step) for v, one in zip(values, group, strict=True) if v is not None]
        return sum(v * w for v, w in known) / sum(w for _, w in known) if known else None

    wait, transfer = weighed([c.wait_us_per_call for c in group]), weighed([c.transfer_us_per_call for c in group])
    verdict, why = group[0].verdict, group[0].why
    if wait is not None and transfer is not None and verdict != "inconclusive":
        verdict, why = collectives.verdict(np.full(10, wait), np.full(10, transfer))
    return result.Collective(
        name=group[0].name,
        kernel=group[0].kernel,
        calls_per_step=calls / ranks,
        us_per_call=weighed([c.us_per_call for c in group]) or 0.0,
        median_us=weighed([c.median_us for c in group]),
        wait_us_per_call=wait,
        transfer_us_per_call=transfer,
        message_bytes=group[0].message_bytes,
        algorithm=group[0].algorithm,
        verdict=verdict,
        why=why,
    )


def skew(ranks: Sequence[RankSteps], index: Ints, meeting: Meeting) -> result.Skew:
    """Waiting by rank over the steps at `index`, who is waited for, and the spread."""
    known = [s for s in (meeting.splits[i] for i in index.tolist() if i < len(meeting.splits)) if s is not None]
    if not known:
        return result.Skew(why=meeting.why or "no decode step whose collectives match")
    wait = np.sum([s.wait_ns.sum(axis=1) for s in known], axis=0) / len(known) / _NS_A_MS
    transfer = float(np.sum([s.transfer_ns.sum() for s in known])) / len(known) / len(ranks) / _NS_A_MS
    last = np.bincount(np.concatenate([s.last for s in known]), minlength=len(ranks))
    slowest = int(np.argmin(wait))
    return result.Skew(
        slowest_rank=ranks[slowest].rank,
        spread_ms_per_step=float(wait.max() - wait.min()),
        wait_ms_per_step=tuple(wait.tolist()),
        transfer_ms_per_step=transfer,
        arrived_last=tuple(last.tolist()),
        method="clock" if meeting.has_one_clock else "shortest",
        why=meeting.why,
    )


def by_step(ranks: Sequence[RankSteps], meeting: Meeting) -> tuple[result.CollectiveStep, ...]:
    """Waiting and transfer of every step, also of prefill and the first ones."""
    found = []
    for number, split in enumerate(meeting.splits):
        if split is None:
            continue
        found.append(
            result.CollectiveStep(
                step=number,
                kind=ranks[0].steps[number].kind,
                calls=split.wait_ns.shape[1],
                wait_ms=float(split.wait_ns.sum(axis=1).mean()) / _NS_A_MS,
                transfer_ms=float(split.transfer_ns.sum(axis=1).mean()) / _NS_A_MS,
                longest_us=float((split.wait_ns + split.transfer_ns).max()) / 1e3,
            )
        )
    return tuple(found)


def representative(tables: Sequence[StepRows], mean: StepRows, wall: result.Wall) -> result.Representative:
    """Is rank 0 like the mean of ranks, and do the steps suffice for the mean?"""
    if not mean.wall.any() or wall.mean is None:
        return result.Representative()
    ci_share = (wall.ci95[1] - wall.ci95[0]) / 2 / wall.mean if wall.ci95 is not None else None
    is_enough = ci_share <= _ENOUGH_CI_SHARE if ci_share is not None else False
    steps_text = (
        f"The mean of {len(mean.wall)} steps is known to ±{100 * ci_share:.1f} %."
        if ci_share is not None
        else f"{len(mean.wall)} steps are too few for an interval."
    )
    if len(tables) < 2:
        return result.Representative(has_enough_steps=is_enough, ci_share=ci_share, text=steps_text)
    difference: Floats = np.abs(tables[0].exposed.mean(axis=0) - mean.exposed.mean(axis=0)) / mean.wall.mean()
    worst = int(np.argmax(difference))
    share = float(difference[worst])
    is_like = share <= _SAME_SHARE
    text = (
        f"Rank 0 differs from the mean of {len(tables)} ranks by at most {100 * share:.1f} % of a step "
        f"({CATEGORIES[worst]}): it {'stands' if is_like else 'does not stand'} for all."
    )
    return result.Representative(
        is_rank0_representative=is_like,
        worst_category=CATEGORIES[worst],
        worst_difference_share=share,
        has_enough_steps=is_enough,
        ci_share=ci_share,
        text=f"{text} {steps_text}",
    )
