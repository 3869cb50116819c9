"""Against a real vLLM: the client's tokens are the server's in every form of answer, cancellations cost little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign.load.bench import Bench, Outcome
from campaign.load.endpoint import endpoint_of
from campaign.load.plan import Limits, Plan, Request
from campaign.load.prompts import RandomIds, Sampling, TextIds
from campaign.load.scrape import Scraper
from campaign.load.sources import PromptChoice, choose_prompts
from campaign.load.summary import Asked
from campaign.load.workload import Load, plan_of
from campaign.server import make_tiny_model
from tests.load.agreement import compare_with_vllm
from tests.load.record_streams import END_OF_THOUGHT
from tests.load.served import MODEL_FOLDER, Served, serve
from tests.load.truth import TruthServer


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One tiny vLLM for this module."""
    with serve(tmp_path_factory.mktemp("vllm"), "--reasoning-parser", "deepseek_r1") as served:
        yield served


def bench_of(vllm: Served, **options: object) -> Bench:
    """A bench of random ids below the tiny model's vocabulary."""
    return Bench(vllm.endpoint, vllm.model, lambda seed: RandomIds(seed, 2, 1000), **options)  # type: ignore[arg-type]


def run_plain(
    vllm: Served, *, requests: int, output: int, concurrency: int, cancel_after: int | None = None
) -> Outcome:
    """A cell without a warm-up, its streams cancelled after so many reads where asked."""
    load = Load(requests=requests, input_tokens=24, output_tokens=output, concurrency=concurrency)
    source = RandomIds(f"{requests}/{cancel_after}", 2, 1000)
    plan = plan_of(load, source, Sampling(), model=vllm.model, seed="v", limits=Limits())
    if cancel_after is not None:
        cut = tuple(msgspec.structs.replace(r, cancel_after_reads=cancel_after) for r in plan.requests)
        plan = msgspec.structs.replace(plan, requests=cut)
    asked = Asked(concurrency=concurrency, input_tokens=24, output_tokens=output)
    return bench_of(vllm).run_prepared(plan, asked)


@pytest.mark.vllm
def test_vllm__tokens_are_the_servers_and_prompts_are_exact(vllm: Served) -> None:
    cell = bench_of(vllm).run_cell(Load(requests=48, input_tokens=40, output_tokens=16, concurrency=8)).cell
    assert (cell.completed, cell.failed) == (48, 0)
    assert cell.server.tokens_match is True
    assert cell.server.generation_tokens_delta == 48 * 16
    assert cell.server.prompt_tokens_delta == 48 * 40
    assert (cell.input_tokens_achieved, cell.output_tokens_achieved) == (40, 16)
    assert 48 * 14 <= cell.itl_ms.n <= 48 * 15  # the server puts two tokens into an event now and then, a first one too
    assert cell.client.timestamps == "kernel"
    assert cell.server.prefill_tok_s is not None
    scraper = Scraper(vllm.endpoint)
    assert (scraper.read_kv_capacity() or 0) > 512
    scraper.close()


@pytest.mark.vllm
def test_vllm__text_prompts_have_exact_lengths(vllm: Served) -> None:
    make = choose_prompts(PromptChoice(), vllm.endpoint, vllm.model)
    assert isinstance(make("1"), TextIds)
    bench = Bench(vllm.endpoint, vllm.model, make)
    cell = bench.run_cell(Load(requests=8, input_tokens=100, output_tokens=4, concurrency=4)).cell
    assert (cell.prompts, cell.input_tokens_achieved, cell.failed) == ("text", 100, 0)


@pytest.mark.vllm
@pytest.mark.parametrize("bias", [{}, {"logit_bias": {str(END_OF_THOUGHT): 4.0}, "temperature": 1.0}])
def test_vllm__chat_counts_reasoning_and_content_as_the_server_does(vllm: Served, bias: dict[str, Any]) -> None:
    """Without a bias the answers are all reasoning; with it most of them end their thought and go on with content."""
    endpoint = endpoint_of(vllm.endpoint.url, api="chat")
    prompts = choose_prompts(PromptChoice(api="chat"), endpoint, vllm.model)
    load = Load(requests=24, input_tokens=20, output_tokens=40, concurrency=4)
    fields = Sampling(api="chat").fields(vllm.model, load.output_tokens)[: -len(b',"messages":')]
    body = msgspec.json.decode(fields + b"}") | bias
    requests = []
    for index in range(load.requests):
        messages = msgspec.Raw(prompts(f"chat/{index}/{bool(bias)}").draw(load.input_tokens).json)
        requests.append(Request(index=index, body=msgspec.json.encode(body | {"messages": messages})))
    plan = Plan(requests=tuple(requests), concurrency=load.concurrency)
    bench = Bench(endpoint, vllm.model, prompts, sampling=Sampling(api="chat"))
    cell = bench.run_prepared(plan, Asked(concurrency=load.concurrency)).cell
    assert (cell.completed, cell.failed) == (24, 0)
    assert cell.tokens_received == cell.server.generation_tokens_delta == 24 * 40
    assert cell.server.tokens_match is True
    # The mark between thought and content is a token in no event: it counts in the next event's usage.
    assert cell.itl_ms.n >= 24 * 38


@pytest.mark.vllm
def test_vllm__sessions_hold_the_servers_own_answers(vllm: Served) -> None:
    """Its prefix cache knows them: the third turn finds the block of 128 tokens with a question and its answer.

    (In the second the last token of the answer is not computed yet.) With made-up answers no block would be found.
    """
    load = Load(requests=4, input_tokens=64, output_tokens=64, concurrency=2, turns=3)
    cell = bench_of(vllm, warm_up_rounds=0).run_cell(load).cell
    assert (cell.completed, cell.failed, cell.server.tokens_match) == (12, 0, True)
    assert not any("stand-ins" in flag for flag in cell.flags)
    assert cell.server.prompt_tokens_delta == 4 * (64 + 192 + 320)
    assert cell.server.cache_hit_rate is not None
    print(f"prefix cache hits: {cell.server.cache_hit_rate * cell.server.prompt_tokens_delta:.0f} tokens")
    assert cell.server.cache_hit_rate >= 4 * 128 / cell.server.prompt_tokens_delta


@pytest.mark.vllm
def test_vllm__cancelled_streams_cost_the_server_little(vllm: Served) -> None:
    cell = run_plain(vllm, requests=32, output=200, concurrency=8, cancel_after=6).cell
    print(f"cancelled {cell.cancelled}, received {cell.tokens_received}, surplus {cell.server.surplus_tokens}")
    assert (cell.cancelled, cell.failed, cell.completed) == (32, 0, 0)
    each = cell.server.surplus_per_cut
    assert each is not None
    assert 0 <= each <= 12
    assert any(flag.startswith("32 streams cut: the server computed") for flag in cell.flags)
    assert cell.server.tokens_match is None


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__a_thousand_requests_agree_to_the_token(vllm: Served) -> None:
    cell = run_plain(vllm, requests=1000, output=12, concurrency=16).cell
    print(f"{cell.output_tok_s} tok/s, client {cell.client}, server {cell.server}")
    assert (cell.completed, cell.failed, cell.errors) == (1000, 0, {})
    assert cell.tokens_received == cell.server.generation_tokens_delta == 12_000
    assert cell.server.tokens_match is True


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__its_own_client_agrees(vllm: Served) -> None:
    """Both at once on one server, two streams each: intervals, times per token and throughput within 2 %."""
    found = compare_with_vllm(vllm.endpoint, vllm.model, vllm.folder / MODEL_FOLDER, vllm.folder)
    print("\n".join(comparison.text for comparison in found))
    assert found, "the clients never began together"
    for comparison in found:
        assert comparison.is_close, comparison.text


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__its_own_client_agrees_on_a_server_of_known_pace(paced: TruthServer, tmp_path: Path) -> None:
    make_tiny_model(tmp_path / "model", "llama")
    found = compare_with_vllm(paced.endpoint(), "itl=20000;ttft=30000", tmp_path / "model", tmp_path)
    print("\n".join(comparison.text for comparison in found))
    assert found, "the clients never began together"
    for comparison in found:
        assert comparison.is_close, comparison.text
