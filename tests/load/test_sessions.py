"""Sessions: each turn sends what the server truly answered before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaign.load.bench import Bench, Outcome
from campaign.load.endpoint import Api
from campaign.load.fleet import run_plan
from campaign.load.plan import Limits
from campaign.load.prompts import RandomIds, RandomWords, Sampling, Texts
from campaign.load.workload import Load, PromptFactory, plan_of
from tests.load.test_cli import cells, invoke
from tests.load.truth import TruthServer

#: Three sessions of three turns; the truth server's token i is the word w<i> and the id i.
LOAD = Load(requests=3, input_tokens=4, output_tokens=5, concurrency=2, turns=3)
IDS = [0, 1, 2, 3, 4]
WORDS = " w0 w1 w2 w3 w4"


def run(server: TruthServer, prompts: PromptFactory, *, api: Api = "completions", model: str = "itl=500") -> Outcome:
    """The load without a warm-up."""
    sampling, limits = Sampling(api=api), Limits(idle_timeout_s=5)
    bench = Bench(server.endpoint(api=api), model, prompts, sampling=sampling, limits=limits, warm_up_rounds=0)
    return bench.run_cell(LOAD)


def by_session(server: TruthServer, outcome: Outcome) -> list[list[dict[str, Any]]]:
    """The bodies of each session, in the order of its turns."""
    assert (outcome.cell.completed, outcome.cell.failed) == (9, 0)
    name = "messages" if "messages" in server.bodies()[0] else "prompt"
    first = [body for body in server.bodies() if len(body[name]) == min(len(b[name]) for b in server.bodies())]
    sessions = []
    for begin in first:
        mine = [b for b in server.bodies() if b[name][: len(begin[name])] == begin[name]]
        sessions.append(sorted(mine, key=lambda body: len(body[name])))
    return sessions


def test_sessions__ids_are_the_servers(paced: TruthServer) -> None:
    outcome = run(paced, RandomIds)
    for one, two, three in by_session(paced, outcome):
        assert one["return_token_ids"] is True
        assert two["prompt"][:9] == one["prompt"] + IDS
        assert three["prompt"][:18] == two["prompt"] + IDS
        assert [len(body["prompt"]) for body in (one, two, three)] == [4, 13, 22]
    assert outcome.cell.prompts == "random, 3 turns with the server's answers"
    assert not any("stand-ins" in flag for flag in outcome.cell.flags)
    assert [r.input_tokens for r in outcome.records] == [4, 13, 22] * 3


def test_sessions__chat_sends_the_answer_as_the_assistants_message(paced: TruthServer) -> None:
    outcome = run(paced, RandomWords, api="chat")
    for one, two, three in by_session(paced, outcome):
        assert [m["role"] for m in three["messages"]] == ["user", "assistant", "user", "assistant", "user"]
        assert two["messages"][:2] == [*one["messages"], {"role": "assistant", "content": WORDS}]
        assert three["messages"][:4] == [*two["messages"], {"role": "assistant", "content": WORDS}]


def test_sessions__text_runs_on(paced: TruthServer) -> None:
    texts = [(f'Question {n} says "why"?', None) for n in range(9)]
    outcome = run(paced, lambda seed: Texts(seed, texts, "completions"))
    for one, two, three in by_session(paced, outcome):
        assert two["prompt"].startswith(one["prompt"] + WORDS + "Question ")
        assert three["prompt"].startswith(two["prompt"] + WORDS + "Question ")


def test_sessions__a_failed_answer_is_stood_in_for_and_said(paced: TruthServer) -> None:
    """Every fifth request dies; the session goes on, and the cell says that its history is not the server's."""
    outcome = run(paced, RandomIds, model="itl=500;fault=inband;every=5")
    assert (outcome.cell.completed, outcome.cell.failed) == (8, 1)
    lost = next(record for record in outcome.records if record.error)
    after = [r for r in outcome.records if r.index > lost.index and r.index // 3 == lost.index // 3]
    assert after and all(record.has_stand_in for record in after)
    assert sum(record.has_stand_in for record in outcome.records) == len(after)
    assert any(flag.startswith(f"{len(after)} turns sent stand-ins for answers") for flag in outcome.cell.flags)


def test_sessions__a_server_that_tells_no_ids_is_said_so(paced: TruthServer) -> None:
    options = ("--turns", "2", "--requests", "2", "--output-tokens", "3", "--warm-up", "0", "--plain", "--json")
    (cell,) = cells(invoke(paced.url, "--model", "itl=500", "--prompts", "random", *options))
    assert any(flag.startswith("2 turns sent stand-ins") for flag in cell["flags"])


@pytest.mark.parametrize("processes", [1, 2])
def test_sessions__go_on_in_several_processes(paced: TruthServer, processes: int) -> None:
    plan = plan_of(LOAD, RandomIds("p"), Sampling(), model="itl=500", seed="p", limits=Limits())
    records = [r for share in run_plan(plan, paced.endpoint(), processes) for r in share.records]
    assert [r.error for r in records] == [""] * 9
    assert not any(r.has_stand_in for r in records)


def test_sessions__prompts_of_a_file(paced: TruthServer, tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"text {n}"}) + "\n" for n in range(4)))
    options = ("--turns", "2", "--requests", "2", "--output-tokens", "5", "--warm-up", "0", "--api", "chat", "--json")
    (cell,) = cells(invoke(paced.url, "--model", "itl=500", "--prompts", str(path), *options))
    assert (cell["completed"], [flag for flag in cell["flags"] if "stand-ins" in flag]) == (4, [])
    assert {len(body["messages"]) for body in paced.bodies()} == {1, 3}
