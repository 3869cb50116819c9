"""The routed experts as one call: the fallback kernel, its routing and its check, on the CPU."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import pytest
import torch

from campaign.measure import engine_kernels, experts, matrices
from campaign.measure.engine_layers import Engine
from campaign.measure.matrices import Pool, Room
from campaign.model import Linear, read_model, shard
from tests.measure.scripts import CONFIGS


def pair_of(name: str, tp: int) -> tuple[Linear, Linear]:
    model = read_model(json.loads((Path(CONFIGS) / f"{name}.json").read_text()))
    up, down = [line for line in shard(model, tp).linears if line.category == "moe_gemm"]
    return up, down


@pytest.fixture
def pool() -> Pool:
    return Pool(64 << 20, "bf16", "cpu", seed=1)


@pytest.mark.parametrize("m", [1, 16])
def test_experts__torch_equals_the_float32_reference(pool: Pool, m: int) -> None:
    prepared = experts.prepare_torch(pair_of("tiny-deepseek", 2), m, pool, 1 << 20, 1e9)
    assert 0 < prepared.error() < matrices.TOLERANCES["bf16"]
    assert len(prepared.cold) == experts.ROUTINGS


def test_experts__a_wrong_kernel_is_found(pool: Pool) -> None:
    layer = experts.layer_of(pair_of("tiny-deepseek", 2), 4, 1e9)
    weights = (pool.random(64, 256), pool.random(256, 32))
    prepared = experts.prepare(
        layer,
        pool,
        1 << 20,
        kernel=lambda x, _copy, routing: experts.reference(x, lambda _e: weights, routing) * 1.05,
        name="off by five percent",
        dtype="bf16",
        bytes_per_weight=2.0,
        copies=1,
        weights_of=lambda _e: weights,
    )
    assert prepared.error() > matrices.TOLERANCES["bf16"]


def test_routings__one_token_goes_round_all_experts(pool: Pool) -> None:
    layer = experts.Layer(experts=64, active=8, hidden=16, width=16, m=1)
    ids = torch.cat([routing.ids.flatten() for routing in experts.routings_of(layer, pool)[:8]])
    assert sorted(ids.tolist()) == list(range(64))


def test_routings__distinct_experts_are_what_the_formula_says(pool: Pool) -> None:
    layer = experts.Layer(experts=128, active=8, hidden=16, width=16, m=16)
    routings = experts.routings_of(layer, pool)
    assert all(len(row.unique()) == 8 for routing in routings for row in routing.ids)
    expected = 128 * (1 - (1 - 8 / 128) ** 16)
    assert experts.distinct_of(routings) == pytest.approx(expected, rel=0.03)


def test_layer_of__holds_fewer_experts_within_the_memory() -> None:
    up, down = pair_of("kimi-k2.5", 8)
    each = (up.n * up.k + down.n * down.k) * up.bytes_per_weight
    assert experts.layer_of((up, down), 1, 10.5 * each).experts == 10
    assert experts.layer_of((up, down), 1, 1e12).experts == 384
    with pytest.raises(ValueError, match="fits"):
        experts.layer_of((up, down), 1, each / 2)


def test_engine_kernels__a_format_without_a_kernel_is_a_reason(pool: Pool) -> None:
    up, down = pair_of("gpt-oss-120b", 8)
    strange = (msgspec.structs.replace(up, dtype="int3"), down)
    room = Room(pool=pool, cache_bytes=1 << 20, memory_bytes=1e8)
    made = engine_kernels.prepare_experts(strange, 1, room, Engine(quantization={}))
    assert made == "no engine kernel is known here for int3 g32"


def test_pool__cuts_are_disjoint_and_bounded(pool: Pool) -> None:
    cuts = pool.cut(100, 100, 1, 10_000)
    assert len(cuts) > 1000
    starts = [cut.data_ptr() for cut in cuts]
    assert all(later - earlier >= 100 * 100 * 2 for earlier, later in itertools.pairwise(starts))
    assert len(pool.cut(4096, 4096, 1, 5)) == 1 + (pool.elements >= 2 * 4096 * 4096)
    with pytest.raises(ValueError, match="do not fit"):
        pool.cut(1 << 13, 1 << 13, 1, 1)
