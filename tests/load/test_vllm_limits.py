"""Against a real vLLM with speculation and a KV cache that is soon full: what its counters say of both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from campaign.load.bench import Bench
from campaign.load.prompts import RandomIds, TextIds
from campaign.load.scrape import Scraper
from campaign.load.workload import Load
from tests.load.served import Served, serve

SPECULATION = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 2, "prompt_lookup_min": 1}'
#: Blocks of 128 tokens.
BLOCKS = 8


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One tiny vLLM for this module."""
    more = ("--speculative-config", SPECULATION, "--num-gpu-blocks-override", str(BLOCKS))
    with serve(tmp_path_factory.mktemp("vllm"), *more) as served:
        yield served


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__speculation_puts_several_tokens_in_an_event(vllm: Served) -> None:
    """Prompts that repeat themselves, so that the n-gram drafts are taken now and then."""
    bench = Bench(vllm.endpoint, vllm.model, lambda seed: TextIds(seed, [5, 6, 7, 8]), warm_up_rounds=0)
    cell = bench.run_cell(Load(requests=16, input_tokens=40, output_tokens=48, concurrency=2)).cell
    server = cell.server
    print(f"{server.acceptance_length} tokens a step, by position {server.acceptance_by_position}")
    print(f"ITL {cell.itl_ms}, chunk gap {cell.chunk_gap_ms}")
    assert (cell.completed, server.tokens_match, cell.tokens_received) == (16, True, 16 * 48)
    assert server.acceptance_length is not None and server.acceptance_length >= 1
    assert len(server.acceptance_by_position) == 3
    assert server.acceptance_length == pytest.approx(1 + sum(server.acceptance_by_position))
    if server.acceptance_length > 1.01:
        assert cell.chunk_gap_ms.n < cell.itl_ms.n


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__a_full_kv_cache_makes_a_cell_capacity_limited(vllm: Served) -> None:
    """Each request takes three blocks of seven or eight: two run at once, whatever is asked for."""
    scraper = Scraper(vllm.endpoint)
    capacity = scraper.read_kv_capacity()
    scraper.close()
    assert capacity is not None and capacity <= BLOCKS * 128
    bench = Bench(vllm.endpoint, vllm.model, lambda seed: RandomIds(seed, 2, 1000), warm_up_rounds=0)
    load = Load(requests=16, input_tokens=200, output_tokens=100, concurrency=8)
    cell = bench.run_cell(load).cell
    print(f"KV cache {capacity} tokens; {cell.server}")
    assert (cell.completed, cell.server.tokens_match) == (16, True)
    assert cell.capacity_limited
    assert cell.server.running_max is not None and cell.server.running_max < 8
    assert any("capacity-limited" in flag for flag in cell.flags)
