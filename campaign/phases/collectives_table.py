"""Rows of the collectives table: slowest rank, algbw, busbw, α–β fit, distance from the link's floor."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from campaign.host import describe_drift
from campaign.model import Link, allreduce_floor_us
from campaign.phases.collectives_data import CollectivePoint, CollectivesData, NcclChoice
from campaign.phases.samples import median, percentile
from campaign.trace.categories import bare_name


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation at one size; None = not known, shown as –."""

    backend: str
    """How it was sent."""
    operation: str
    """What the ranks did."""
    size_bytes: int
    """S, by nccl-tests' convention."""
    us: float | None
    """Median of the slowest rank, launched one by one."""
    p10_us: float | None
    """10th percentile."""
    p90_us: float | None
    """90th percentile."""
    graph_us: float | None
    """Median in one CUDA graph."""
    kernel_us: float | None
    """Time of the communication kernel a call."""
    algbw_gb_s: float | None
    """S over the time (of the graph where there is one)."""
    busbw_gb_s: float | None
    """algbw times the operation's factor."""
    floor_us: float | None
    """Least time over the link; all-reduce only."""
    floor_fraction: float | None
    """Floor over measured."""
    note: str = ""
    """Refusal or caveat."""

    @property
    def is_measured(self) -> bool:
        """Whether it has a time."""
        return self.us is not None or self.graph_us is not None


class BurstRow(msgspec.Struct, frozen=True, kw_only=True):
    """All-reduces of one decode step, one after another."""

    backend: str
    """How it was sent."""
    calls: int
    """All-reduces."""
    message_bytes: int
    """Bytes of each."""
    ms: float | None
    """Median of the slowest rank, launched one by one."""
    p10_ms: float | None
    """10th percentile."""
    p90_ms: float | None
    """90th percentile."""
    graph_ms: float | None
    """Median in one CUDA graph."""
    us_per_call: float | None
    """The better of both over the calls."""
    kernel_us: float | None
    """Time of the communication kernel a call."""
    note: str = ""
    """Refusal or caveat."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """t = α + S/β of the all-reduces of one backend."""

    backend: str
    """How it was sent."""
    alpha_us: float
    """Time of an empty message."""
    beta_gb_s: float
    """Rate of a long one."""


#: busbw = algbw × factor(n), nccl-tests doc/PERFORMANCE.md.
def bus_factor(operation: str, ranks: int) -> float:
    """The share of S that crosses the busiest link."""
    share = (ranks - 1) / ranks
    return 2 * share if operation == "all_reduce" else share


def slowest(samples: Sequence[Sequence[float]]) -> list[float]:
    """An iteration takes as long as its slowest rank."""
    return [max(values) for values in zip(*samples, strict=False)]


def rows_of(data: CollectivesData, ranks: int) -> tuple[CollectiveRow, ...]:
    """One row a point of the sweep over `ranks` processes (results from elsewhere tell only the slowest one's time)."""
    return tuple(_row(point, data.environment.link, ranks) for point in data.points if not point.is_burst)


def _row(point: CollectivePoint, link: Link | None, ranks: int) -> CollectiveRow:
    times, graphs = slowest([r.us for r in point.ranks]), slowest([r.graph_us for r in point.ranks])
    note = _refusal(point)
    us, graph_us = (None, None) if note else (median(times), median(graphs))
    best = graph_us if graph_us is not None else us
    algbw = None if not best else point.size_bytes / best / 1e3
    floors = allreduce_floor_us(point.size_bytes, ranks, link) if link is not None else {}
    floor = min(floors.values()) if floors and point.operation == "all_reduce" else None
    return CollectiveRow(
        backend=point.backend,
        operation=point.operation,
        size_bytes=point.size_bytes,
        us=us,
        p10_us=None if note else percentile(times, 10),
        p90_us=None if note else percentile(times, 90),
        graph_us=graph_us,
        kernel_us=None if note else kernel_us_of(point),
        algbw_gb_s=algbw,
        busbw_gb_s=None if algbw is None else algbw * bus_factor(point.operation, ranks),
        floor_us=floor,
        floor_fraction=floor / best if floor is not None and best else None,
        note=note or _caveats(point),
    )


def unmeasured_of(rows: Sequence[CollectiveRow]) -> tuple[str, ...]:
    """What has no number and why, a line for each path and reason: `custom: all_reduce of 16 MiB and more …`."""
    groups: dict[tuple[str, str], list[CollectiveRow]] = {}
    for row in rows:
        if not row.is_measured and not row.note.startswith("refused"):
            groups.setdefault((row.backend, row.note.removeprefix("not measured: ")), []).append(row)
    lines = []
    for (backend, why), missing in groups.items():
        is_all = len(missing) == sum(1 for row in rows if row.backend == backend)
        sizes = ", ".join(f"{row.size_bytes:,}" for row in missing)
        operations = ", ".join(dict.fromkeys(row.operation for row in missing))
        lines.append(f"{backend}, not measured" + ("" if is_all else f" ({operations} of {sizes} bytes)") + f": {why}")
    return tuple(lines)


def choices_of(choices: Sequence[NcclChoice], sizes: Sequence[int]) -> tuple[str, ...]:
    """NCCL's algorithm and protocol by stretches of these sizes: `AllReduce of 1,024 to 1,048,576 bytes: Ring, LL`."""
    stretches: list[list[NcclChoice]] = []
    for choice in sorted(choices, key=lambda choice: (choice.operation, choice.size_bytes)):
        if choice.size_bytes not in sizes:
            continue
        last = stretches[-1][-1] if stretches else None
        if last is None or msgspec.structs.replace(choice, size_bytes=last.size_bytes) != last:
            stretches.append([])
        stretches[-1].append(choice)
    return tuple(_stretch(stretch) for stretch in stretches)


def _stretch(choices: list[NcclChoice]) -> str:
    first, last = choices[0], choices[-1]
    to = f" to {last.size_bytes:,}" if last is not first else ""
    return f"{first.operation} of {first.size_bytes:,}{to} bytes: {first.algorithm}, {first.protocol}"


def kernel_us_of(point: CollectivePoint) -> float | None:
    """Kernel time a call of the rank that waits least: the others' kernels contain waiting."""
    known = [rank.kernel_us for rank in point.ranks if rank.kernel_us is not None]
    return min(known) if known else None


def _refusal(point: CollectivePoint) -> str:
    notes = dict.fromkeys(rank.note for rank in point.ranks if rank.note)
    if not all(rank.us or rank.graph_us for rank in point.ranks):
        return "not measured: " + ("; ".join(notes) or "no samples")
    wrong = [str(rank.rank) for rank in point.ranks if not rank.is_correct]
    return f"refused: wrong result on rank {', '.join(wrong)}" if wrong else ""


def _caveats(point: CollectivePoint) -> str:
    """The kernel that ran, why there is no graph, and what changed meanwhile."""
    kernels = dict.fromkeys(bare_name(rank.kernels[0]) for rank in point.ranks if rank.kernels)
    notes = dict.fromkeys(rank.note for rank in point.ranks if rank.note)
    return "; ".join([*(f"kernel {name}" for name in kernels), *notes, *drift_of(point)])


def drift_of(point: CollectivePoint) -> tuple[str, ...]:
    """What changed on the devices while the point was measured."""
    return () if point.before is None or point.after is None else describe_drift(point.before, point.after)


def bursts_of(data: CollectivesData) -> tuple[BurstRow, ...]:
    """One row a backend."""
    return tuple(_burst(point) for point in data.points if point.is_burst)


def _burst(point: CollectivePoint) -> BurstRow:
    times, graphs = slowest([r.us for r in point.ranks]), slowest([r.graph_us for r in point.ranks])
    note = _refusal(point)
    us, graph_us = (None, None) if note else (median(times), median(graphs))
    best = min((value for value in (us, graph_us) if value is not None), default=None)
    return BurstRow(
        backend=point.backend,
        calls=point.calls,
        message_bytes=point.size_bytes,
        ms=None if us is None else us / 1e3,
        p10_ms=None if us is None else (percentile(times, 10) or 0.0) / 1e3,
        p90_ms=None if us is None else (percentile(times, 90) or 0.0) / 1e3,
        graph_ms=None if graph_us is None else graph_us / 1e3,
        us_per_call=None if best is None else best / point.calls,
        kernel_us=None if note else kernel_us_of(point),
        note=note or _caveats(point),
    )


def fit_of(rows: Sequence[CollectiveRow], backend: str) -> Fit | None:
    """α–β fit over the all-reduces of a backend, least squares of relative errors; None below three sizes."""
    chosen = [row for row in rows if row.backend == backend and row.operation == "all_reduce" and row.us]
    if len({row.size_bytes for row in chosen}) < 3:
        return None
    points = [(float(row.size_bytes), row.graph_us or row.us or 0.0) for row in chosen]
    weights = [1 / time_us**2 for _, time_us in points]
    total = sum(weights)
    mean_size = sum(w * s for w, (s, _) in zip(weights, points, strict=True)) / total
    mean_us = sum(w * t for w, (_, t) in zip(weights, points, strict=True)) / total
    covariance = sum(w * (s - mean_size) * (t - mean_us) for w, (s, t) in zip(weights, points, strict=True))
    variance = sum(w * (s - mean_size) ** 2 for w, (s, _) in zip(weights, points, strict=True))
    slope = covariance / variance
    if slope <= 0:
        return None
    return Fit(backend=backend, alpha_us=max(0.0, mean_us - slope * mean_size), beta_gb_s=1 / slope / 1e3)
