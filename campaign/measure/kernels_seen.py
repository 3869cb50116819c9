"""Which kernels ran, and for how long: one profiled run beside the timed ones."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Kernels of one run."""

    names: tuple[str, ...]
    """Names, the longest running first."""
    us_per_call: float
    """Their time together over the calls, each kernel at its median."""


def during(work: Callable[[], object], calls: int) -> Seen | None:
    """Kernels that `work` launches, copies and fills not counted; None where the profiler sees none."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            work()
            torch.cuda.synchronize()
        times: dict[str, list[float]] = {}
        for event in profile.events():
            if "CUDA" in str(event.device_type) and not event.name.startswith(("Mem", "cuda", "gpu_")):
                times.setdefault(event.name, []).append(float(event.time_range.elapsed_us()))
    except (RuntimeError, AttributeError):
        return None
    if not times:
        return None
    # The first collective also waits for the other ranks' profilers: a median leaves that out, a mean would not.
    totals = {name: statistics.median(each) * len(each) for name, each in times.items()}
    names = tuple(sorted(totals, key=lambda name: -totals[name]))
    return Seen(names=names, us_per_call=sum(totals.values()) / calls)
