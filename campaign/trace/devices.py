"""A trace of several devices or processes → one trace a rank.

One process may drive several GPUs, a tool may merge the files of several ranks, and an nsys report holds every process
that it watched. Correlation ids are unique within a process only, so a device's launches are looked for in its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from campaign.trace import events
from campaign.trace.annotations import announcements
from campaign.trace.events import GROUP_SIZE, Flags, Ints, Spans, Trace
from campaign.trace.read import rank_in

#: A device with fewer kernels than this share of its process's busiest one is no rank (a stray context on GPU 0).
_STRAY_SHARE: Final = 0.01


def ranks_of(trace: Trace, step_regex: str | None = None) -> list[Trace]:
    """The trace itself, or one a device, in the order of devices, where it holds kernels of several."""
    devices, count = np.unique(trace.device.place[trace.device.code == events.KERNEL], return_counts=True)
    host = np.concatenate([trace.launches.place, trace.annotations.place])
    if len(devices) < 2 and len(np.unique(np.concatenate([host, devices]) // GROUP_SIZE)) < 2:
        return [trace]
    if not len(devices):
        return [trace]
    busiest = {int(g): int(count[devices // GROUP_SIZE == g].max()) for g in np.unique(devices // GROUP_SIZE)}
    limit = np.array([_STRAY_SHARE * busiest[int(place // GROUP_SIZE)] for place in devices])
    own, notes = _without_strays(trace, devices, count >= limit)
    ranks = np.unique(own)
    known = np.array(list(announcements(trace.names, step_regex)), np.int64)
    several = len(ranks) > 1
    if several:
        notes += (f"the file holds the kernels of {len(ranks)} devices: each is shown as a rank",)
    parts = [_part(trace, int(place), own=own, known=known, is_only=not several) for place in ranks]
    parts = [replace(part, notes=part.notes + notes) for part in parts]
    return sorted(parts, key=lambda part: (part.rank is None, part.rank or 0, part.device_number or 0))


def _without_strays(trace: Trace, devices: Ints, is_rank: Flags) -> tuple[Ints, tuple[str, ...]]:
    """The rank's place of each device event; what lies on other devices counts with the first rank of its process."""
    own = trace.device.place.copy()
    ranks = devices[is_rank]
    stray = ~np.isin(own, ranks)
    if not stray.any():
        return own, ()
    home = {int(place // GROUP_SIZE): int(place) for place in ranks[::-1]}
    first = int(ranks[0])
    own[stray] = [home.get(int(place // GROUP_SIZE), first) for place in own[stray]]
    return own, (f"{int(stray.sum())} events on devices that run hardly a kernel are counted with the other device",)


def _part(trace: Trace, place: int, *, own: Ints, known: Ints, is_only: bool) -> Trace:
    """What belongs to one device: its events, their launches, and the host's calls and annotations on those threads."""
    group = place // GROUP_SIZE
    mine = own == place
    device = trace.device.take(mine)
    launches = trace.launches.take(trace.launches.place // GROUP_SIZE == group)
    is_launch = np.isin(launches.correlation, device.correlation) & (launches.correlation != events.NO_ID)
    theirs = trace.device.correlation[~mine & (trace.device.place // GROUP_SIZE == group)]
    lanes = np.unique(launches.lane[is_launch])
    beside = np.isin(launches.lane, lanes) & ~np.isin(launches.correlation, theirs)
    label = trace.groups[group] if group < len(trace.groups) else ""
    near = trace.device_annotations
    return replace(
        trace,
        rank=trace.rank if is_only else rank_in(label),
        world_size=trace.world_size if is_only else None,
        device=device,
        launches=launches.take(is_launch | beside),
        ops=_of_group(trace.ops, group),
        annotations=_annotations(trace.annotations, group, lanes=lanes, known=known),
        device_annotations=near.take((near.place == place) | is_only),
        device_number=place % GROUP_SIZE,
    )


def _of_group(spans: Spans, group: int) -> Spans:
    return spans.take(spans.place // GROUP_SIZE == group)


def _annotations(spans: Spans, group: int, *, lanes: Ints, known: Ints) -> Spans:
    """Those on the threads that launch, where steps are announced there; else the process's; else all."""
    of_group = spans.place // GROUP_SIZE == group
    for flags in (of_group & np.isin(spans.lane, lanes), of_group):
        if np.isin(spans.name[flags], known).any():
            return spans.take(flags)
    return spans
