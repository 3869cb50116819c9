"""The arithmetic against the table of expected shapes: TP 8, one row a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaign.errors import ConfigError
from campaign.model import Device, Shards, allreduce_floor_us, find_device, read_model, shard
from campaign.model.devices import NVLINK4, PCIE5

CONFIGS = Path(__file__).parent.parent / "data" / "configs"


def load(name: str) -> dict[str, Any]:
    return dict(json.loads((CONFIGS / f"{name}.json").read_text()))


def shards_of(name: str, tp: int = 8, ep: int = 1, dp: int = 1) -> Shards:
    return shard(read_model(load(name)), tp, ep, dp)


def shapes_of(shards: Shards) -> dict[str, tuple[int, int]]:
    return {linear.kind: (linear.n, linear.k) for linear in shards.linears}


MLA = {"qkv_a": (2112, 7168), "k_absorb": (512, 128), "v_absorb": (128, 512)}

#: model → dense and MoE layers, shapes (N, K), lm_head N, all-reduces of layers, bytes of one at batch 1.
TABLE: dict[str, tuple[tuple[int, int], dict[str, tuple[int, int]], int, int, int]] = {
    "kimi-k2.5": (
        (1, 60),
        {**MLA, "q_b": (1536, 1536), "o": (7168, 1024), "moe_gate_up": (512, 7168), "moe_down": (7168, 256)},
        20480,
        122,
        14336,
    ),
    "kimi-k2": (
        (1, 60),
        {**MLA, "q_b": (1536, 1536), "o": (7168, 1024), "moe_gate_up": (512, 7168), "moe_down": (7168, 256)},
        20480,
        122,
        14336,
    ),
    "deepseek-v3": (
        (3, 58),
        {**MLA, "q_b": (3072, 1536), "o": (7168, 2048), "moe_gate_up": (512, 7168), "moe_down": (7168, 256)},
        16160,
        122,
        14336,
    ),
    "qwen3-235b-a22b": (
        (0, 94),
        {"qkv": (1280, 4096), "o": (4096, 1024), "moe_gate_up": (384, 4096), "moe_down": (4096, 192)},
        18992,
        188,
        8192,
    ),
    "qwen3-30b-a3b": (
        (0, 48),
        {"qkv": (768, 2048), "o": (2048, 512), "moe_gate_up": (192, 2048), "moe_down": (2048, 96)},
        18992,
        96,
        4096,
    ),
    "glm-4.6": (
        (3, 89),
        {"qkv": (1792, 5120), "o": (5120, 1536), "moe_gate_up": (384, 5120), "moe_down": (5120, 192)},
        18944,
        184,
        10240,
    ),
    "minimax-m2.5": (
        (0, 62),
        {"qkv": (1024, 3072), "o": (3072, 768), "moe_gate_up": (384, 3072), "moe_down": (3072, 192)},
        25008,
        124,
        6144,
    ),
    "gpt-oss-120b": (
        (0, 36),
        {"qkv": (640, 2880), "o": (2880, 512), "moe_gate_up": (768, 2880), "moe_down": (2880, 384)},
        25136,
        72,
        5760,
    ),
    "llama-3.3-70b": (
        (80, 0),
        {"qkv": (1280, 8192), "o": (8192, 1024), "gate_up": (7168, 8192), "down": (8192, 3584)},
        16032,
        160,
        16384,
    ),
    "mixtral-8x7b": (
        (0, 32),
        {"qkv": (768, 4096), "o": (4096, 512), "moe_gate_up": (3584, 4096), "moe_down": (4096, 1792)},
        4000,
        64,
        8192,
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_shard__equals_the_table_at_tp_8(name: str) -> None:
    layers, shapes, head, allreduces, message = TABLE[name]
    shards = shards_of(name)
    found = shapes_of(shards)
    assert (shards.model.dense_layers, len(shards.model.moe_layers)) == layers
    assert {kind: found[kind] for kind in shapes} == shapes
    assert found["lm_head"][0] == head
    assert shards.layer_allreduces == allreduces
    assert shards.collectives_per_step == allreduces + 1
    assert shards.message_bytes(1) == message
    assert shards.model.unknown == ()


def test_shard__bmm_runs_over_the_heads_of_a_rank() -> None:
    assert {line.matrices for line in shards_of("kimi-k2.5").linears if "absorb" in line.kind} == {8}
    assert {line.matrices for line in shards_of("deepseek-v3").linears if "absorb" in line.kind} == {16}


def test_shard__minimax_normalises_over_ranks() -> None:
    norms = [c for c in shards_of("minimax-m2.5").collectives if c.bytes_per_token == 8]
    assert [(c.operation, c.calls) for c in norms] == [("all_reduce", 62)]


def test_weight_bytes__kimi_k25_reads_6_03_gb_at_batch_1() -> None:
    shards = shards_of("kimi-k2.5")
    total = shards.weight_bytes_per_step(1)
    routed = sum(line.calls * line.bytes_read(1) for line in shards.linears if line.category == "moe_gemm")
    assert total / 1e9 == pytest.approx(6.03, abs=0.005)
    assert total / 1.792e9 == pytest.approx(3.36, abs=0.005)
    assert (total - routed) / 1.792e9 == pytest.approx(2.53, abs=0.005)


def test_kimi_k25__only_routed_experts_are_int4() -> None:
    dtypes = {line.kind: line.label for line in shards_of("kimi-k2.5").linears}
    assert {kind for kind, label in dtypes.items() if label == "int4 g32"} == {"moe_gate_up", "moe_down"}
    assert set(dtypes.values()) == {"int4 g32", "bf16"}


def test_weight_bytes__distinct_experts_grow_with_the_batch() -> None:
    (line,) = [line for line in shards_of("kimi-k2.5").linears if line.kind == "moe_down"]
    assert line.matrices_read(1) == pytest.approx(8)
    assert line.matrices_read(16) == pytest.approx(384 * (1 - (1 - 8 / 384) ** 16))
    assert line.matrices_read(100_000) == pytest.approx(384)


def test_weight_bytes__verifying_four_tokens_costs_1_71_times_the_bytes() -> None:
    shards = shards_of("kimi-k2.5")
    assert shards.weight_bytes_per_step(4) / shards.weight_bytes_per_step(1) == pytest.approx(1.71, abs=0.01)


def test_shard__expert_parallel_keeps_experts_whole() -> None:
    shards = shards_of("kimi-k2.5", tp=8, ep=8)
    (line,) = [line for line in shards.linears if line.kind == "moe_gate_up"]
    assert (line.n, line.k, line.matrices, line.active) == (4096, 7168, 48, 1.0)
    assert shards.collectives_per_step == 123
    assert {c.operation for c in shards.collectives} == {"all_reduce", "all_gather"}


def test_shard__whole_mxfp4_experts_are_padded_too() -> None:
    shapes = shapes_of(shards_of("gpt-oss-120b", tp=8, ep=8))
    assert (shapes["moe_gate_up"], shapes["moe_down"]) == ((2 * 2944, 2880), (2880, 2944))


def test_shard__ranks_that_split_tokens_hold_shared_experts_whole() -> None:
    split, cut = shards_of("deepseek-v3", tp=2, ep=4, dp=2), shards_of("deepseek-v3", tp=2, dp=2)
    assert shapes_of(split)["shared_gate_up"] == (4096, 7168)
    assert shapes_of(cut)["shared_gate_up"] == (2048, 7168)
    assert shapes_of(shards_of("glm-4.6", tp=2, ep=4, dp=2))["shared_gate_up"] == (1536, 5120)
    assert (split.collectives_per_step, cut.collectives_per_step) == (1 + 61 + 3, 1 + 61 + 61)
    assert any("data parallelism" in text for text in split.unknown)


def test_weight_bytes__experts_see_the_tokens_of_all_groups() -> None:
    one, four = shards_of("deepseek-v3", tp=2, ep=2), shards_of("deepseek-v3", tp=2, ep=8, dp=4)

    def routed(shards: Shards, tokens: int) -> float:
        return sum(line.calls * line.bytes_read(tokens) for line in shards.linears if line.category == "moe_gemm")

    rest = sum(line.calls * line.weight_bytes for line in four.linears if line.active is None)
    assert four.weight_bytes_per_step(16) == pytest.approx(rest + routed(four, 64))
    assert routed(four, 64) == pytest.approx(routed(one, 64) / 4, rel=0.01)


def test_shard__says_what_kernels_decide() -> None:
    assert any("pad" in text for text in shards_of("gpt-oss-120b").unknown)
    assert shards_of("deepseek-v3").unknown == ()


def test_shard__tp_1_has_no_collectives() -> None:
    shards = shards_of("qwen3-30b-a3b", tp=1)
    assert shards.collectives == ()
    assert shards.collectives_per_step == 0


def test_shard__replicates_key_value_heads_beyond_their_number() -> None:
    assert shapes_of(shards_of("qwen3-30b-a3b", tp=4))["qkv"] == ((8 + 2) * 128, 2048)
    assert shapes_of(shards_of("qwen3-30b-a3b", tp=8))["qkv"] == ((4 + 2) * 128, 2048)


@pytest.mark.parametrize(("tp", "ep"), [(3, 1), (8, 2), (0, 1)])
def test_shard__refuses_what_cannot_be_cut(tp: int, ep: int) -> None:
    with pytest.raises(ConfigError, match="parallel"):
        shards_of("qwen3-30b-a3b", tp=tp, ep=ep)


def test_kv_bytes__latent_is_replicated_and_grouped_is_sharded() -> None:
    assert shards_of("kimi-k2.5").kv_bytes_per_token == 61 * 576 * 2
    assert shards_of("llama-3.3-70b").kv_bytes_per_token == 80 * 2 * 1 * 128 * 2
    assert shards_of("llama-3.3-70b", tp=2).kv_bytes_per_token == 80 * 2 * 4 * 128 * 2


def test_kv_bytes__sparse_attention_reads_its_indexer_s_keys_and_what_it_chose() -> None:
    shards = shards_of("deepseek-v3.2")
    keys, latent = 61 * (128 + 4), 61 * 576 * 2
    assert shards.kv_bytes_per_token == keys + latent
    assert shards.kv_bytes_read(2, 1000) == 2 * 1000 * (keys + latent)
    assert shards.kv_bytes_read(2, 100_000) == 2 * (100_000 * keys + 2048 * latent)


def test_kv_bytes__shared_indexers_keep_keys_of_their_own_layers_only() -> None:
    shared = shard(read_model(load("glm-5") | {"index_topk_freq": 3}), 8)
    assert shared.kv_bytes_per_token == 78 * 576 * 2 + 27 * 132


def test_kv_bytes__windowed_layers_read_no_more_than_their_window() -> None:
    shards = shards_of("gpt-oss-120b", tp=1)
    each = shards.kv_bytes_per_token // 36
    assert shards.kv_bytes_read(2, 1000) == 2 * each * (18 * 1000 + 18 * 128)


def test_floor_ms__is_the_larger_of_compute_and_memory() -> None:
    shards = shards_of("llama-3.3-70b")
    slow_memory = Device(name="a", memory_gb_s=1.0, tflops={"bf16": 1e6})
    slow_compute = Device(name="b", memory_gb_s=1e9, tflops={"bf16": 1.0})
    weights = sum(line.calls * line.bytes_read(1) for line in shards.linears)
    assert shards.floor_ms(slow_memory, 1)["gemm"] == pytest.approx(weights / 1e6, rel=0.01)
    flops = sum(line.calls * line.flops(1) for line in shards.linears)
    assert shards.floor_ms(slow_compute, 1)["gemm"] == pytest.approx(flops / 1e9)


def test_floor_ms__unknown_peaks_give_no_floor() -> None:
    assert shards_of("llama-3.3-70b").floor_ms(Device(name="?", memory_gb_s=None), 1) == {}


def test_allreduce_floor__equals_the_published_examples() -> None:
    pcie = allreduce_floor_us(14336, 8, PCIE5)
    nvlink = allreduce_floor_us(14336, 8, NVLINK4)
    assert [round(value, 1) for value in pcie.values()] == [2.9, 2.6, 15.4]
    assert [round(value, 1) for value in nvlink.values()] == [0.8, 1.3, 8.5]


@pytest.mark.parametrize(
    ("driver_name", "known"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_find_device__by_the_driver_s_name(driver_name: str, known: str) -> None:
    device = find_device(driver_name)
    assert device is not None
    assert device.name == known


def test_find_device__none_for_a_stranger() -> None:
    assert find_device("NVIDIA H2000 Ultra") is None
