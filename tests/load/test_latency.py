"""The latency arithmetic on numbers that can be checked by hand."""

from __future__ import annotations

import random
import statistics

import pytest

from campaign.load import latency
from campaign.load.record import Record
from campaign.load.slo import Slo

MS = 1_000_000


def record(
    *chunks_ms: float, sent: float = 0, tokens: tuple[int, ...] | None = None, due: float | None = None
) -> Record:
    """A completed request with events at these times."""
    counts = tokens or (1,) * len(chunks_ms)
    return Record(
        index=0,
        due_ns=None if due is None else round(due * MS),
        sent_ns=round(sent * MS),
        end_ns=round(chunks_ms[-1] * MS),
        chunk_ns=tuple(round(c * MS) for c in chunks_ms),
        chunk_tokens=counts,
        output_tokens=sum(counts),
    )


def test_latency__definitions() -> None:
    one = record(30, 40, 60, sent=10, tokens=(1, 2, 4), due=4)
    assert latency.ttft_ns(one) == 20 * MS
    assert latency.ttft_ns(one, from_due=True) == 26 * MS
    assert latency.e2el_ns(one) == 50 * MS
    assert latency.queue_ns(one) == 6 * MS
    assert latency.tpot_ns(one) == 30 * MS / 6
    assert latency.chunk_gaps_ns(one) == [10 * MS, 20 * MS]
    assert latency.itls_ns(one) == [5 * MS] * 2 + [5 * MS] * 4


def test_latency__events_of_one_read_are_one_chunk() -> None:
    piled_up = record(10, 30, 30, 40)
    assert latency.itls_ns(piled_up) == [10 * MS, 10 * MS, 10 * MS]
    assert latency.chunk_gaps_ns(piled_up) == [20 * MS, 0, 10 * MS]
    assert latency.itls_ns(record(10, 20, 30, tokens=(1, 0, 2))) == [10 * MS, 10 * MS]


def test_latency__what_is_unknown_is_null() -> None:
    silent = Record(index=0)
    assert latency.ttft_ns(silent) is None
    assert latency.tpot_ns(record(5)) is None
    assert latency.itls_ns(Record(index=0, chunk_ns=(1, 2))) is None
    assert latency.distribution([]).mean is None


def test_latency__no_tail_from_few_samples() -> None:
    for n, (p90, p95, p99) in {9: (0, 0, 0), 10: (1, 0, 0), 199: (1, 0, 0), 200: (1, 1, 0), 1000: (1, 1, 1)}.items():
        found = latency.distribution(map(float, range(n)))
        assert [found.p90 is not None, found.p95 is not None, found.p99 is not None] == [p90, p95, p99]
        assert (found.n, found.p50) == (n, (n - 1) / 2)


def test_latency__interval_over_runs_covers_the_mean_as_often_as_it_says() -> None:
    rng = random.Random(3)
    hits = 0
    for _ in range(2000):
        low, high = latency.mean_over_runs([rng.gauss(10, 2) for _ in range(4)]).ci95 or (0, 0)
        hits += low <= 10 <= high
    assert 0.935 < hits / 2000 < 0.965
    assert latency.mean_over_runs([1.0, 2.0]).ci95 is None


def test_latency__an_interval_of_times_ends_at_zero() -> None:
    few = latency.mean_over_runs([1.0, 1.0, 9.0])
    assert few.ci95 is not None and few.mean == pytest.approx(11 / 3)
    assert few.ci95[0] == 0.0
    assert few.ci95[1] == pytest.approx(11 / 3 + 4.303 * statistics.stdev([1, 1, 9]) / 3**0.5)
    signed = latency.mean_over_runs([-1.0, 0.0, 1.0])
    assert signed.ci95 is not None and signed.ci95[0] < 0


def test_latency__percentile_agrees_with_the_standard_library() -> None:
    values = sorted(random.Random(1).random() for _ in range(101))
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    assert [latency.percentile(values, p) for p in (1, 50, 99)] == pytest.approx([cuts[0], cuts[49], cuts[98]])


def test_window__leaves_out_ramp_and_drain() -> None:
    # two slots: 0–100 and 10–110, then 100–200; the drain begins when nothing follows at 110
    records = [record(100, sent=0), record(110, sent=10), record(200, sent=100)]
    window = latency.steady_window(records, 2)
    assert window is not None
    assert (window.start_ns / MS, window.end_ns / MS) == (10, 110)
    assert latency.mean_concurrency(records, window) == pytest.approx(2.0)
    assert latency.tokens_between(records, window) == 2
    assert latency.peak_concurrency(records) == 2


def test_peaks__come_from_events_not_from_bins() -> None:
    burst = record(*(950 + i for i in range(100)), sent=900)
    spread = record(*(i * 30 for i in range(1, 101)), sent=0)
    # a bin per second would split the burst at 1,000 ms
    peak = latency.peak_tokens_per_s([burst, spread])
    assert peak is not None and peak >= 133
    assert latency.peak_tokens_per_s([record(1, 2)]) is None
    back_to_back = [record(10, sent=0), record(20, sent=10)]
    assert latency.peak_concurrency(back_to_back) == 1


def test_slo__counts_the_wait_before_the_send() -> None:
    late = record(30, 40, sent=20, due=0)
    assert Slo(ttft_ms=25).is_met(record(30, 40, sent=20))
    assert not Slo(ttft_ms=25).is_met(late)
    assert Slo(tpot_ms=10).is_met(late)
    assert not Slo(tpot_ms=9.9).is_met(late)
    assert not Slo(e2el_ms=1000).is_met(Record(index=0, error="cut: x"))
