"""What the client reports against what the server truly sent, event by event."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from campaign.load.endpoint import Api
from campaign.load.exchange import Exchange
from campaign.load.latency import itls_ns, percentile
from campaign.load.plan import Limits, Plan
from campaign.load.prompts import RandomIds, RandomWords, Sampling
from campaign.load.reply import record_of
from campaign.load.share import Share, Task, run_share
from campaign.load.workload import Load, plan_of
from tests.load.conftest import ahead_of_others
from tests.load.truth import TruthServer

#: Runs until one is not disturbed: other programs of the machine may come before this one.
ATTEMPTS = 6


def plan(model: str, *, concurrency: int, requests: int, output: int, api: Api = "completions") -> Plan:
    """A closed-loop plan of random prompts."""
    load = Load(requests=requests, input_tokens=16, output_tokens=output, concurrency=concurrency)
    source = RandomIds("truth") if api == "completions" else RandomWords("truth")
    limits = Limits(idle_timeout_s=5, deadline_s=60, reconnect_s=5)
    return plan_of(load, source, Sampling(api=api), model=model, seed="truth", limits=limits)


def run(server: TruthServer, given: Plan, api: Api = "completions") -> Share:
    """Run a plan in this process."""
    return run_share(Task(plan=given, endpoint=server.endpoint(api=api)))


def run_ahead(server: TruthServer, given: Plan, joined: int = 1) -> Share:
    """Run a plan ahead of other work; again where this process was held up all the same, which it says itself.

    With `joined` events a write those of a stream's first write share a read: nothing came before that tells more.
    """
    for _ in range(ATTEMPTS):
        server.reset()
        with ahead_of_others(0, server.process.pid):
            share = run(server, given)
        if all(record.shared_reads < joined for record in share.records):
            break
    return share


def compared_ms(server: TruthServer, given: Plan, share: Share) -> list[float]:
    """How much later than it was sent each event is said to have arrived, from each stream's first event on."""
    truth = server.truth()
    differences: list[float] = []
    for record in share.records:
        sent_ns = truth.of(given.requests[record.index].body).sent_ns
        assert len(sent_ns) == len(record.chunk_ns)
        differences += [
            ((said - record.chunk_ns[0]) - (true - sent_ns[0])) / 1e6
            for said, true in zip(record.chunk_ns, sent_ns, strict=True)
        ]
    return differences


def own_ttft_ms(server: TruthServer, given: Plan, share: Share) -> list[float]:
    """What the client adds to each TTFT: the reported one less the server's, from the request's arrival on."""
    truth = server.truth()
    added: list[float] = []
    for record in share.records:
        sent = truth.of(given.requests[record.index].body)
        assert record.sent_ns is not None
        added.append((record.chunk_ns[0] - record.sent_ns) / 1e6 - sent.ttft_ms)
    return sorted(added)


@pytest.mark.parametrize(("concurrency", "requests", "output"), [(1, 4, 40), (64, 128, 40), (256, 512, 60)])
def test_truth__every_event_as_it_was_sent(paced: TruthServer, concurrency: int, requests: int, output: int) -> None:
    """Each event, the tail of the intervals (within 2 % of what was sent) and the TTFT."""
    given = plan("itl=10000", concurrency=concurrency, requests=requests, output=output)
    share = run_ahead(paced, given)
    assert [r.error for r in share.records if r.error] == []
    assert all(r.output_tokens == output and len(r.chunk_ns) == output for r in share.records)
    off = sorted(map(abs, compared_ms(paced, given, share)))
    assert percentile(off, 50) < 0.2
    assert percentile(off, 95) < 1.0
    said = sorted(value / 1e6 for record in share.records for value in itls_ns(record) or ())
    sent = sorted(value for stream in paced.truth().streams for value in stream.intervals_ms())
    assert percentile(said, 99) == pytest.approx(percentile(sent, 99), rel=0.02)
    added = own_ttft_ms(paced, given, share)
    assert added[0] > -0.01
    assert percentile(added, 50) < 1.0


@pytest.mark.parametrize("streams", [1, 64, 256])
@pytest.mark.parametrize("behaviour", ["per=4", "cut=60", "join=2", "fault=reset;every=4", "fault=close;every=4"])
def test_truth__holds_whatever_the_stream_does(paced: TruthServer, behaviour: str, streams: int) -> None:
    """Several tokens an event, events cut between reads, several events a read, streams that end half way."""
    given = plan(f"itl=20000;{behaviour}", concurrency=streams, requests=max(streams, 4), output=16)
    share = run_ahead(paced, given, joined=2 if "join" in behaviour else 1)
    failed = [record for record in share.records if record.error]
    assert len(failed) == (max(streams, 4) // 4 if "fault" in behaviour else 0)
    assert all(record.output_tokens == (8 if record.error else 16) for record in share.records)
    off = sorted(map(abs, compared_ms(paced, given, share)))
    assert percentile(off, 50) < 0.2
    assert percentile(off, 95) < 1.0
    added = own_ttft_ms(paced, given, share)
    assert percentile(added, 50) < 1.0


@pytest.mark.parametrize("streams", [1, 64])
def test_truth__a_burst_after_a_wait_is_no_steady_pace(paced: TruthServer, streams: int) -> None:
    """Three events leave together every 30 ms: two intervals of nothing and one of 30 ms, not three of 10 ms."""
    given = plan("itl=30000;join=3", concurrency=streams, requests=streams, output=18)
    share = run_ahead(paced, given, joined=3)
    said = sorted(value / 1e6 for record in share.records for value in itls_ns(record) or ())
    sent = sorted(value for stream in paced.truth().streams for value in stream.intervals_ms())
    assert len(sent) == 17 * streams
    assert len(said) >= 15 * streams  # of the first three nobody knows whether they came together
    assert percentile(sent, 50) == 0
    assert percentile(said, 50) < 0.01
    assert percentile(said, 90) == pytest.approx(percentile(sent, 90), rel=0.02)
    assert sum(said) == pytest.approx(sum(sent), rel=0.01)


def test_truth__what_piled_up_before_a_late_read_is_one_chunk() -> None:
    """Three events in one read, 30 ms after the last: together if the loop looked 1 ms before, else who knows when."""
    for since_ms, expected in ((29, [30, 0, 0]), (0, [10, 10, 10])):
        event = b'data: {"choices": [{"text": "x", "finish_reason": %s}], "usage": {"completion_tokens": %d}}\n\n'
        body = [event % (b'"stop"' if n == 4 else b"null", n) for n in (1, 2, 3, 4)]
        head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"
        reads, ms = [head + body[0], b"".join(body[1:]) + b"data: [DONE]\n\n"], 1_000_000
        exchange = Exchange(index=0, sent_ns=0, reads=reads, stamps_ns=[5 * ms, 35 * ms], outcome="closed")
        exchange.since_ns = [0, (5 + since_ms) * ms]
        record = record_of(exchange, 0)
        intervals = itls_ns(record)
        assert record.error == "" and intervals is not None
        assert [value / ms for value in intervals] == pytest.approx(expected, abs=1e-5)
        assert record.shared_reads == (0 if since_ms else 2)


def test_truth__several_tokens_a_chunk(paced: TruthServer) -> None:
    given = plan("itl=8000;per=4", concurrency=2, requests=2, output=42)
    share = run_ahead(paced, given)
    for record in share.records:
        assert record.chunk_tokens == (4,) * 10 + (2,)
        intervals = itls_ns(record)
        assert intervals is not None and len(intervals) == 38
        assert percentile(sorted(intervals), 50) / 1e6 == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("usage", ["final", "none"])
def test_truth__without_running_usage(paced: TruthServer, usage: str) -> None:
    single = run(paced, plan(f"itl=1000;usage={usage}", concurrency=1, requests=1, output=10)).records[0]
    double = run(paced, plan(f"itl=1000;per=2;usage={usage}", concurrency=1, requests=1, output=10)).records[0]
    assert single.chunk_tokens == ((1,) * 10 if usage == "final" else None)
    assert double.chunk_tokens is None
    assert double.output_tokens == (10 if usage == "final" else None)


def test_truth__an_empty_text_that_counts_is_a_token_and_a_role_is_none(paced: TruthServer) -> None:
    empty = run(paced, plan("itl=1000;empty=1", concurrency=1, requests=1, output=5)).records[0]
    chat = run(paced, plan("itl=1000;ttft=20000", concurrency=1, requests=1, output=5, api="chat"), "chat").records[0]
    assert empty.chunk_tokens == (1,) * 5
    assert chat.chunk_tokens == (1,) * 5
    assert chat.error == ""


@pytest.mark.parametrize("cut", [*range(1, 12), 30, 60, 100, 150, 190, -1])
def test_truth__cuts_lose_no_token(paced: TruthServer, cut: int) -> None:
    share = run(paced, plan(f"itl=500;cut={cut}", concurrency=1, requests=1, output=6))
    assert share.records[0].error == ""
    assert share.records[0].chunk_tokens == (1,) * 6


def test_truth__crlf_events(paced: TruthServer) -> None:
    record = run(paced, plan("itl=500;crlf=1", concurrency=1, requests=1, output=6)).records[0]
    assert (record.error, record.chunk_tokens) == ("", (1,) * 6)


def test_truth_server__ends_with_whoever_started_it() -> None:
    code = "from tests.load.truth import TruthServer; s = TruthServer(); print(s.port, flush=True); s.process.wait()"
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    port = int(starter.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=5) as held:
        starter.kill()
        starter.wait()
        assert held.recv(1) == b""  # within the timeout: the server is gone, and its connections with it
