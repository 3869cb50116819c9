"""Latency arithmetic over records; the definitions are the field's and stand in the document's method section."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import msgspec

from campaign.load.record import Record

#: Fewest samples from which a percentile is given: below, it would be the maximum in disguise.
SAMPLES_NEEDED = {90: 10, 95: 200, 99: 1000}

#: Two-sided 95 % quantiles of Student's t by degrees of freedom (standard table).
T_95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
T_95_FAR = 1.96


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of samples; what too few samples cannot tell is null."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    """From 10 samples on."""
    p95: float | None = None
    """From 200 samples on."""
    p99: float | None = None
    """From 1,000 samples on."""
    n: int = 0
    """Number of samples."""


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """Mean over repeats with its 95 % confidence interval."""

    mean: float | None = None
    ci95: tuple[float, float] | None = None
    """Student's t over runs; null with fewer than three."""
    n: int = 0
    """Number of runs."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Percentile of an ascending, non-empty sequence, interpolated linearly between ranks."""
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def distribution(samples: Iterable[float]) -> Distribution:
    """Mean and percentiles of samples (any unit)."""
    ordered = sorted(samples)
    if not ordered:
        return Distribution()

    def at(percent: int) -> float | None:
        return percentile(ordered, percent) if len(ordered) >= SAMPLES_NEEDED[percent] else None

    return Distribution(
        mean=math.fsum(ordered) / len(ordered),
        p50=percentile(ordered, 50),
        p90=at(90),
        p95=at(95),
        p99=at(99),
        n=len(ordered),
    )


def mean_over_runs(values: Sequence[float]) -> Mean:
    """Mean of run-level values with the 95 % interval of Student's t (from three runs on).

    Of times and rates, which cannot be negative, the interval ends at 0: what is cut off covers nothing.
    """
    n = len(values)
    if not n:
        return Mean()
    mean = math.fsum(values) / n
    if n < 3:
        return Mean(mean=mean, n=n)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    half = (T_95[n - 2] if n - 2 < len(T_95) else T_95_FAR) * deviation / math.sqrt(n)
    low = mean - half
    return Mean(mean=mean, ci95=(max(low, 0.0) if min(values) >= 0 else low, mean + half), n=n)


def ttft_ns(record: Record, *, from_due: bool = False) -> int | None:
    """Time to first token: from sending (or from the intended send time) to the first content event."""
    origin = _origin(record, from_due)
    return record.chunk_ns[0] - origin if record.chunk_ns and origin is not None else None


def e2el_ns(record: Record, *, from_due: bool = False) -> int | None:
    """End-to-end latency: from sending (or from the intended send time) to the last content event."""
    origin = _origin(record, from_due)
    return record.chunk_ns[-1] - origin if record.chunk_ns and origin is not None else None


def tpot_ns(record: Record) -> float | None:
    """Time per output token after the first: (E2EL − TTFT) / (output tokens − 1)."""
    if not record.chunk_ns or record.output_tokens is None or record.output_tokens < 2:
        return None
    return (record.chunk_ns[-1] - record.chunk_ns[0]) / (record.output_tokens - 1)


def queue_ns(record: Record) -> int | None:
    """From the intended to the actual send; null in a closed loop."""
    if record.due_ns is None or record.sent_ns is None:
        return None
    return record.sent_ns - record.due_ns


def _origin(record: Record, from_due: bool) -> int | None:
    return record.due_ns if from_due and record.due_ns is not None else record.sent_ns


def chunk_gaps_ns(record: Record) -> list[int]:
    """Times between content events as they arrived."""
    times = record.chunk_ns
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def itls_ns(record: Record) -> list[float] | None:
    """Inter-token latencies: a chunk of n tokens is n intervals of gap / n; null where tokens a chunk are unknown.

    Events of one time count as one chunk: they came in one read, and nothing finer is known of them.
    """
    if record.chunk_tokens is None:
        return None
    arrivals: dict[int, int] = {}
    for time, tokens in zip(record.chunk_ns, record.chunk_tokens, strict=True):
        arrivals[time] = arrivals.get(time, 0) + tokens
    intervals: list[float] = []
    times = iter(arrivals.items())
    before, _ = next(times, (0, 0))
    for time, tokens in times:
        if tokens:  # an event of no token lengthens the wait for the next one
            intervals += [(time - before) / tokens] * tokens
            before = time
    return intervals


def received_tokens(record: Record) -> int:
    """Tokens that arrived, whatever became of the stream (0 where the server does not count)."""
    return record.output_tokens or 0


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The steady part of a cell: from the asked concurrency reached until the drain begins."""

    start_ns: int
    end_ns: int

    @property
    def duration_s(self) -> float:
        """Length."""
        return (self.end_ns - self.start_ns) / 1e9


def steady_window(records: Sequence[Record], concurrency: int | None) -> Window | None:
    """The measured window of a cell; null where nothing was sent.

    Closed loop: from the moment when `concurrency` requests were in flight until the first moment at which a slot
    stays empty for good. Open loop: from the first send to the last send, or to the last end when that is under half
    of the cell.
    """
    spans = sorted((r.sent_ns, r.end_ns) for r in records if r.sent_ns is not None and r.end_ns is not None)
    if not spans:
        return None
    first, last_end = spans[0][0], max(end for _, end in spans)
    slots = min(concurrency, len(spans)) if concurrency else None
    if slots is None:
        last_sent = spans[-1][0]
        is_mostly_drain = last_sent - first < (last_end - first) / 2
        return Window(start_ns=first, end_ns=last_end if is_mostly_drain else last_sent)
    start = spans[slots - 1][0]
    drain = sorted(end for _, end in spans)[-slots]
    return (
        Window(start_ns=start, end_ns=max(drain, spans[-1][0]))
        if drain > start
        else Window(start_ns=first, end_ns=last_end)
    )


def tokens_between(records: Iterable[Record], window: Window) -> int | None:
    """Tokens that arrived within the window; null where a stream's tokens a chunk are unknown."""
    total = 0
    for record in records:
        if record.chunk_tokens is None:
            if record.chunk_ns:
                return None
            continue
        total += sum(
            tokens
            for time, tokens in zip(record.chunk_ns, record.chunk_tokens, strict=True)
            if window.start_ns <= time <= window.end_ns
        )
    return total


def mean_concurrency(records: Iterable[Record], window: Window) -> float | None:
    """Requests in flight, averaged over the time of the window."""
    length = window.end_ns - window.start_ns
    if length <= 0:
        return None
    busy = 0
    for record in records:
        if record.sent_ns is not None and record.end_ns is not None:
            busy += max(0, min(record.end_ns, window.end_ns) - max(record.sent_ns, window.start_ns))
    return busy / length


def peak_concurrency(records: Iterable[Record]) -> int:
    """Most requests in flight at one moment, from the sorted starts and ends (an end at a start's time comes first)."""
    moves: list[tuple[int, int]] = []
    for record in records:
        if record.sent_ns is not None and record.end_ns is not None:
            moves += [(record.sent_ns, 1), (record.end_ns, -1)]
    level = peak = 0
    for _, change in sorted(moves):
        level += change
        peak = max(peak, level)
    return peak


def peak_tokens_per_s(records: Iterable[Record], span_s: float = 1.0) -> float | None:
    """Most tokens that arrived within any `span_s`, as a rate: a sliding window over arrivals, no bins."""
    arrivals: list[tuple[int, int]] = []
    for record in records:
        if record.chunk_tokens is None:
            if record.chunk_ns:
                return None
            continue
        arrivals += zip(record.chunk_ns, record.chunk_tokens, strict=True)
    arrivals.sort()
    span_ns = round(span_s * 1e9)
    if not arrivals or arrivals[-1][0] - arrivals[0][0] < span_ns:
        return None
    held = best = first = 0
    for time, tokens in arrivals:
        held += tokens
        while arrivals[first][0] <= time - span_ns:
            held -= arrivals[first][1]
            first += 1
        best = max(best, held)
    return best / span_s
