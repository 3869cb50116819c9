"""Faults that clients are known to hide: each is a failed request here, with its partial tokens kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from campaign.load.endpoint import endpoint_of
from campaign.load.plan import Limits, Plan
from campaign.load.prompts import RandomIds, Sampling
from campaign.load.share import Task, run_share
from campaign.load.workload import Load, plan_of
from tests.load.test_truth import plan, run
from tests.load.truth import TruthServer, free_port


def impatient(model: str, limits: Limits, *, concurrency: int = 2, requests: int = 4, output: int = 10) -> Plan:
    """A closed-loop plan with limits of its own."""
    load = Load(requests=requests, input_tokens=8, output_tokens=output, concurrency=concurrency)
    return plan_of(load, RandomIds("f"), Sampling(), model=model, seed="f", limits=limits)


@pytest.mark.parametrize(
    ("fault", "error", "partial"),
    [("http500", "http 500", 0), ("inband", "in-band error", 5), ("reset", "reset", 5), ("close", "cut", 5)],
)
def test_fault__is_a_failure_and_keeps_the_rest(paced: TruthServer, fault: str, error: str, partial: int) -> None:
    share = run(paced, plan(f"itl=2000;fault={fault};every=2", concurrency=2, requests=6, output=10))
    failed = [r for r in share.records if r.error]
    assert len(failed) == 3
    assert all(r.error.startswith(error) for r in failed)
    assert [len(r.chunk_ns) for r in failed] == [partial] * 3
    assert [r.output_tokens for r in share.records if not r.error] == [10] * 3


def test_fault__stalled_stream_ends_by_the_idle_time_out(paced: TruthServer) -> None:
    begin = time.monotonic()
    given = impatient("itl=1000;fault=stall;every=2", Limits(idle_timeout_s=0.4))
    share = run_share(Task(plan=given, endpoint=paced.endpoint()))
    assert time.monotonic() - begin < 3
    assert sorted(r.error.split(":")[0] for r in share.records) == ["", "", "stalled", "stalled"]


def test_fault__deadline_keeps_what_came(paced: TruthServer) -> None:
    given = impatient("itl=50000", Limits(deadline_s=0.6), concurrency=1, requests=3)
    share = run_share(Task(plan=given, endpoint=paced.endpoint()))
    first, second, third = share.records
    assert first.error == ""
    assert second.error.startswith("deadline")
    assert 0 < len(second.chunk_ns) < 10
    assert (third.sent_ns, third.error.split(":")[0]) == (None, "deadline")


def test_fault__slow_headers_count_as_waiting(paced: TruthServer) -> None:
    record = run(paced, plan("itl=1000;fault=slowhead", concurrency=1, requests=1, output=4)).records[0]
    assert record.error == ""
    assert record.sent_ns is not None
    assert record.chunk_ns[0] - record.sent_ns > 140e6


def test_fault__nobody_listens() -> None:
    port = free_port()
    given = impatient("m", Limits(reconnect_s=0.5))
    share = run_share(Task(plan=given, endpoint=endpoint_of(f"http://127.0.0.1:{port}")))
    assert {r.error.split(":")[0] for r in share.records} == {"unreachable"}
    assert len(share.records) == 4


def test_fault__server_dies_and_comes_back(make_server: Callable[..., TruthServer]) -> None:
    server = make_server()

    def bring_back() -> None:
        server.process.wait()
        time.sleep(0.5)
        server.start()

    healer = threading.Thread(target=bring_back)
    healer.start()
    given = impatient("itl=2000;fault=die;every=3", Limits(reconnect_s=10), concurrency=1, requests=5)
    share = run_share(Task(plan=given, endpoint=server.endpoint()))
    healer.join()
    assert [bool(r.error) for r in share.records] == [False, False, True, False, False], [
        r.error for r in share.records
    ]
    assert len(share.records[2].chunk_ns) == 5
