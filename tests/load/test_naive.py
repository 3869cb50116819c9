"""Each fault that clients are known to have: a naive client falls for it on the same server, ours does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from campaign.load.bench import Bench
from campaign.load.cell import Cell
from campaign.load.latency import peak_tokens_per_s
from campaign.load.plan import Limits
from campaign.load.prompts import RandomIds
from campaign.load.record import Record
from campaign.load.workload import Load
from tests.load.naive import naive_cell, naive_peak_tok_s, naive_request
from tests.load.test_cli import cells, invoke
from tests.load.truth import TruthServer


def our_cell(
    server: TruthServer, model: str, *, requests: int, output: int, concurrency: int = 1, rounds: int = 0
) -> Cell:
    """One cell of ours."""
    load = Load(requests=requests, input_tokens=3, output_tokens=output, concurrency=concurrency)
    limits = Limits(idle_timeout_s=0.5)
    return Bench(server.endpoint(), model, RandomIds, limits=limits, warm_up_rounds=rounds).run_cell(load).cell


@pytest.mark.parametrize("cut", [7, 11, 100])
def test_naive__1_loses_the_tokens_of_events_cut_between_reads(paced: TruthServer, cut: int) -> None:
    model = f"itl=3000;cut={cut}"
    assert min(naive_request(paced.port, model, 10).tokens for _ in range(3)) < 10
    assert our_cell(paced, model, requests=1, output=10).tokens_received == 10


def test_naive__2_takes_an_error_in_the_stream_for_a_success(paced: TruthServer) -> None:
    model = "itl=500;fault=inband"
    assert naive_request(paced.port, model, 10).is_success
    result = invoke(paced.url, "--model", model, "--requests", "3", "--output-tokens", "10", "--warm-up", "0")
    assert result.exception is not None
    assert "3 × in-band error" in str(result.exception)
    cell = our_cell(paced, model, requests=3, output=10)
    assert (cell.completed, cell.failed, cell.tokens_received) == (0, 3, 15)


def test_naive__3_reports_its_own_pauses(paced: TruthServer) -> None:
    """64 threads that parse as they read, against one event loop with the kernel's stamps; truth is 5 ms."""
    answers = naive_cell(paced.port, "itl=5000", 40, requests=64, concurrency=64)
    gaps = sorted(b - a for answer in answers for a, b in zip(answer.times_s, answer.times_s[1:], strict=False))
    naive_p99_ms = gaps[int(0.99 * len(gaps))] * 1e3
    sent = sorted(gap for stream in paced.truth().streams for gap in stream.intervals_ms())
    true_p99_ms = sent[int(0.99 * len(sent))]
    paced.reset()
    cell = our_cell(paced, "itl=5000", requests=64, output=40, concurrency=64)
    ours = sorted(gap for stream in paced.truth().streams for gap in stream.intervals_ms())
    assert cell.itl_ms.p99 is not None
    assert abs(cell.itl_ms.p99 - ours[int(0.99 * len(ours))]) < abs(naive_p99_ms - true_p99_ms)
    assert cell.client.lag_ms_p99 is not None


def test_naive__4_halves_a_peak_that_lies_across_two_bins() -> None:
    times_s = [0.75 + 0.005 * i for i in range(100)]
    record = Record(index=0, chunk_ns=tuple(round(t * 1e9) for t in [*times_s, 2.0]), chunk_tokens=(1,) * 101)
    assert naive_peak_tok_s(times_s) == 50
    assert peak_tokens_per_s([record]) == 100


def test_naive__5_is_answered_by_the_prefix_cache(paced: TruthServer) -> None:
    for _ in range(2):
        naive_cell(paced.port, "itl=0", 4, requests=4, concurrency=2)
    metrics = paced.get("/metrics").decode()
    assert 'prefix_cache_hits_total{engine="0",model_name="m"} 12' in metrics
    paced.reset()
    arguments = (paced.url, "--model", "itl=1", "--concurrency", "1,2", "--requests", "4", "--repeats", "2", "--json")
    assert [cell["server"]["cache_hit_rate"] for cell in cells(invoke(*arguments))] == [0.0] * 4


def test_naive__6_measures_what_compiles_at_first_use(make_server: Callable[..., TruthServer]) -> None:
    """This server takes 150 ms at the first use of a batch size, as compiled kernels do."""
    server = make_server()
    naive_cell(server.port, "itl=2000;compile=150000", 4, requests=2, concurrency=1)  # a warm-up of another size
    answers = naive_cell(server.port, "itl=2000;compile=150000", 20, requests=4, concurrency=4)
    assert max(answer.ttft_s or 0 for answer in answers) > 0.14
    ours = our_cell(make_server(), "itl=2000;compile=150000", requests=12, output=20, concurrency=4, rounds=5)
    assert ours.e2el_ms.p90 is not None and ours.e2el_ms.p90 < 140


def test_naive__7_waits_for_ever_on_a_stream_that_stalls(make_server: Callable[..., TruthServer]) -> None:
    server = make_server()
    naive = threading.Thread(target=naive_request, args=(server.port, "itl=500;fault=stall", 10), daemon=True)
    naive.start()
    begin = time.monotonic()
    cell = our_cell(server, "itl=500;fault=stall", requests=1, output=10)
    assert time.monotonic() - begin < 5
    assert (cell.failed, cell.errors, cell.tokens_received) == (1, {"stalled": 1}, 5)
    assert naive.is_alive()
    server.stop()  # lets it go
    naive.join(5)


def test_naive__8_labels_answers_with_a_length_they_have_not(paced: TruthServer) -> None:
    assert naive_request(paced.port, "stop=3", 9).tokens == 3  # and says so nowhere
    cell = our_cell(paced, "stop=3", requests=2, output=9)
    assert (cell.output_tokens_asked, cell.output_tokens_achieved, cell.ignore_eos) == (9, 3, True)
    assert any("2 of 2 answers ended before the asked length" in flag for flag in cell.flags)


def test_naive__9_takes_the_asked_load_for_the_delivered(paced: TruthServer) -> None:
    """Two slots of 55 ms an answer carry 36 requests a second; asked for are eight at once, then 100 a second."""
    naive_cell(paced.port, "itl=5000;slots=2", 12, requests=16, concurrency=8)
    assert paced.truth().running_max == 2
    closed = ("--concurrency", "8", "--requests", "48")
    opened = ("--rate", "100", "--arrival", "constant", "--requests", "60")
    for options in (closed, opened):
        given = (paced.url, "--model", "itl=5000;slots=2", *options, "--output-tokens", "12", "--json")
        (cell,) = cells(invoke(*given))
        assert cell["rate_achieved"] < 45
        assert cell["server"]["running_max"] == 2
        assert cell["capacity_limited"]


def test_naive__counts_a_chunk_of_several_tokens_as_one(paced: TruthServer) -> None:
    assert naive_request(paced.port, "itl=500;per=4", 40).tokens == 10
    cell = our_cell(paced, "itl=500;per=4", requests=1, output=40)
    assert (cell.tokens_received, cell.itl_ms.n, cell.chunk_gap_ms.n) == (40, 36, 9)
