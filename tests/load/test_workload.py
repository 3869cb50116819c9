"""Arrivals, prompts and the order of sending."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from campaign.errors import UsageError
from campaign.load.arrivals import Arrival, offsets_s, read_trace
from campaign.load.plan import Limits, Plan, Request, split_plan
from campaign.load.prompts import RandomIds, Sampling, SharedPrefix, TextIds, Texts
from campaign.load.schedule import Schedule
from campaign.load.sources import read_prompts
from campaign.load.workload import Load, plan_of


def gaps(arrival: Arrival, rate: float, count: int = 20_000) -> list[float]:
    """Times between arrivals."""
    times = offsets_s(arrival, rate, count, "s")
    return [b - a for a, b in pairwise(times)]


@pytest.mark.parametrize(
    ("arrival", "variation"),
    [
        (Arrival(), 1.0),
        (Arrival(process="gamma", burstiness=0.25), 2.0),
        (Arrival(process="gamma", burstiness=4.0), 0.5),
        (Arrival(process="constant"), 0.0),
    ],
)
def test_arrivals__mean_and_variation(arrival: Arrival, variation: float) -> None:
    found = gaps(arrival, 8.0)
    assert statistics.fmean(found) == pytest.approx(1 / 8, rel=0.05)
    assert statistics.pstdev(found) * 8 == pytest.approx(variation, abs=0.06)


def test_arrivals__ramp_grows_evenly() -> None:
    times = offsets_s(Arrival(process="ramp", rate_from=2), 10, 600, "s")
    assert times[0] == 0
    assert times[-1] == pytest.approx(100, rel=0.01)
    early = sum(t < 10 for t in times)
    late = sum(t >= 90 for t in times)
    assert early == pytest.approx(10 * 2.4, abs=2)
    assert late == pytest.approx(10 * 9.6, abs=3)


def test_arrivals__same_seed_same_times() -> None:
    assert offsets_s(Arrival(), 5, 10, "a") == offsets_s(Arrival(), 5, 10, "a") != offsets_s(Arrival(), 5, 10, "b")
    with pytest.raises(UsageError):
        offsets_s(Arrival(), 0, 3, "a")


def test_trace__json_lines_and_csv(tmp_path: Path) -> None:
    lines = tmp_path / "t.jsonl"
    first, second = '"input_length": 7, "output_length": 2', '"input_tokens": 5, "output_tokens": 3'
    lines.write_text(f'{{"timestamp": 3000, {first}}}\n{{"time_s": 1.5, {second}}}\n')
    table = tmp_path / "t.csv"
    table.write_text("time,input,output\n10,7,2\n10.25,5,3\n")
    assert [(x.time_s, x.input_tokens, x.output_tokens) for x in read_trace(lines)] == [(0, 5, 3), (1.5, 7, 2)]
    assert [(x.time_s, x.input_tokens, x.output_tokens) for x in read_trace(table)] == [(0, 7, 2), (0.25, 5, 3)]
    table.write_text("1,2,3\nsoon,2,3\n")
    with pytest.raises(UsageError, match=r"t\.csv:2"):
        read_trace(table)


def bodies(load: Load, source: Any) -> list[dict[str, Any]]:
    """The JSON bodies of a plan."""
    plan = plan_of(load, source, Sampling(), model="m", seed="s", limits=Limits())
    return [json.loads(request.body) for request in plan.requests]


def test_prompts__exact_lengths_and_fields() -> None:
    load = Load(requests=3, input_tokens=5, output_tokens=7, concurrency=1)
    for source in (RandomIds("s", 10, 20), TextIds("s", [3, 1, 4])):
        for body in bodies(load, source):
            assert len(body["prompt"]) == 5
            assert (body["max_tokens"], body["ignore_eos"], body["stream"]) == (7, True, True)
            assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert all(10 <= token < 20 for body in bodies(load, RandomIds("s", 10, 20)) for token in body["prompt"])


def test_prompts__shared_prefix() -> None:
    load = Load(requests=4, input_tokens=10, output_tokens=1, concurrency=1)
    prompts = [body["prompt"] for body in bodies(load, SharedPrefix(RandomIds("s", 0, 10_000), 0.6, groups=2))]
    assert all(len(prompt) == 10 for prompt in prompts)
    assert prompts[0][:6] == prompts[2][:6] != prompts[1][:6] == prompts[3][:6]
    assert prompts[0][6:] != prompts[2][6:]


def test_prompts__files_of_several_forms(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps([{"conversations": [{"from": "human", "value": "hello"}, {"value": "hi"}]}]))
    assert read_prompts(path) == [("hello", None)]
    path.write_text('{"prompt": "a", "output_tokens": 9}\n{"messages": [{"role": "user", "content": "b"}]}\n')
    assert read_prompts(path) == [("a", 9), ("b", None)]
    (body,) = bodies(
        Load(requests=1, input_tokens=1, output_tokens=3, concurrency=1), Texts("s", [("a", 9)], "completions")
    )
    assert (body["prompt"], body["max_tokens"]) == ("a", 9)
    path.write_text('{"prompt": "a"}\n{"prompt": 3}\n')
    with pytest.raises(UsageError, match=r"p\.json:2"):
        read_prompts(path)


def test_sessions__a_plan_holds_stand_ins_of_the_asked_length() -> None:
    load = Load(requests=2, input_tokens=4, output_tokens=3, concurrency=2, turns=3, think_s=0.5)
    plan = plan_of(load, RandomIds("s"), Sampling(), model="m", seed="s", limits=Limits())
    prompts = [json.loads(r.body)["prompt"] for r in plan.requests]
    assert [len(p) for p in prompts] == [4, 11, 18] * 2
    assert [r.after for r in plan.requests] == [None, 0, 1, None, 3, 4]
    assert prompts[2][:11] == prompts[1]
    assert prompts[1][:4] == prompts[0]


def requests(*due: float | None) -> tuple[Request, ...]:
    """Requests with these due times."""
    return tuple(Request(index=i, body=b"", due_s=d) for i, d in enumerate(due))


def test_schedule__slots_and_due_times() -> None:
    closed = Schedule(Plan(requests=requests(None, None, None), concurrency=2), 0)
    assert [t and t[0].index for t in (closed.take(0), closed.take(0), closed.take(0))] == [0, 1, None]
    closed.finish(0, 5)
    taken = closed.take(5)
    assert taken is not None and taken[0].index == 2
    timed = Schedule(Plan(requests=requests(0.0, 0.5)), 1_000)
    assert timed.take(1_000) is not None
    assert timed.take(400_000_000) is None
    assert timed.next_due_ns() == 500_001_000
    assert timed.take(500_001_000) == (requests(0.0, 0.5)[1], 500_001_000)


def test_schedule__a_turn_waits_for_the_one_before_and_the_pause() -> None:
    chain = (Request(index=0, body=b""), Request(index=1, body=b"", after=0, think_s=1e-9 * 100))
    schedule = Schedule(Plan(requests=chain, concurrency=4), 0)
    assert schedule.take(0) is not None
    assert schedule.take(10) is None
    schedule.finish(0, 50)
    assert schedule.take(149) is None
    assert schedule.take(150) is not None
    assert schedule.left == 0


def test_split__keeps_sessions_together_and_shares_slots() -> None:
    load = Load(requests=5, input_tokens=2, output_tokens=1, concurrency=5, turns=2)
    plan = plan_of(load, RandomIds("s"), Sampling(), model="m", seed="s", limits=Limits())
    parts = split_plan(plan, 2)
    assert [part.concurrency for part in parts] == [3, 2]
    assert sorted(r.index for part in parts for r in part.requests) == list(range(10))
    for part in parts:
        held = {r.index for r in part.requests}
        assert all(r.after in held for r in part.requests if r.after is not None)
