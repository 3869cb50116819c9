"""config.json readings: nested, quantized, foreign, broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from campaign import host
from campaign.errors import ConfigError
from campaign.model import Grouped, Latent, quantization_config_of, read_model, shard
from tests.measure.weight_formats import FP8_TENSOR, FP8_TOKEN, MXFP4, NVFP4
from tests.model.test_sharding import load


def dtypes_of(config: dict[str, Any], tp: int = 1) -> dict[str, str]:
    return {line.kind: line.label for line in shard(read_model(config), tp).linears}


def test_read_model__takes_the_nested_language_model() -> None:
    model = read_model(load("kimi-k2.5"))
    assert model.architecture == "DeepseekV3ForCausalLM"
    assert isinstance(model.attention, Latent)
    assert model.quantization.method == "compressed-tensors"


def test_read_model__unknown_architecture_says_so() -> None:
    config = load("llama-3.3-70b") | {"architectures": ["BrandNewForCausalLM"], "model_type": "brand_new"}
    model = read_model(config)
    assert model.family == "generic"
    assert "BrandNewForCausalLM" in model.unknown[0]
    assert shard(model, 8).linears == shard(read_model(load("llama-3.3-70b")), 8).linears


def test_read_model__linear_attention_is_named_as_unknown() -> None:
    types = ["linear_attention", "full_attention"] * 24
    model = read_model(load("qwen3-30b-a3b") | {"layer_types": types, "linear_num_value_heads": 32})
    assert len([text for text in model.unknown if "attention" in text]) == 2


def test_read_model__moe_layers_follow_the_sparse_step() -> None:
    config = load("qwen3-30b-a3b") | {"decoder_sparse_step": 2, "mlp_only_layers": [1]}
    assert read_model(config).moe_layers == tuple(range(3, 48, 2))


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_read_model__missing_dimension_is_named(key: str) -> None:
    config = load("llama-3.3-70b")
    del config[key]
    with pytest.raises(ConfigError, match=key):
        read_model(config)


@pytest.mark.parametrize("value", [0, -1, 2.5, "4096", True])
def test_read_model__odd_dimension_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="hidden_size"):
        read_model(load("llama-3.3-70b") | {"hidden_size": value})


def test_read_model__latent_without_query_compression() -> None:
    shards = shard(read_model(load("deepseek-v2-lite")), 2)
    shapes = {line.kind: (line.n, line.k) for line in shards.linears}
    assert shapes["q"] == (8 * 192, 2048)
    assert shapes["kv_a"] == (576, 2048)
    assert shapes["shared_gate_up"] == (2 * 2 * 1408 // 2, 2048)


def test_read_model__glm5_has_an_indexer() -> None:
    shards = shard(read_model(load("glm-5")), 8)
    shapes = {line.kind: (line.n, line.k, line.calls) for line in shards.linears}
    assert shapes["index_q"] == (32 * 128, 2048, 78)
    assert shapes["index_k_weights"] == (128 + 32, 6144, 78)


def test_read_model__deepseek_v32_differs_from_v3_by_its_indexer_alone() -> None:
    before = shard(read_model(load("deepseek-v3")), 8).linears
    after = shard(read_model(load("deepseek-v3.2")), 8).linears
    added = [line for line in after if line not in before]
    assert {line.kind: (line.n, line.k, line.dtype) for line in added} == {
        "index_q": (64 * 128, 1536, "fp8"),
        "index_k_weights": (128 + 64, 7168, "bf16"),
    }


def test_read_model__heads_default_to_hidden_over_heads() -> None:
    attention = read_model(load("qwen2.5-72b")).attention
    assert isinstance(attention, Grouped)
    assert attention.head_dim == 128


def test_quantization__fp8_leaves_router_head_and_absorbed_products() -> None:
    plain = {kind for kind, label in dtypes_of(load("deepseek-v3")).items() if label == "bf16"}
    assert plain == {"router", "lm_head", "k_absorb", "v_absorb"}


def test_quantization__mxfp4_is_for_experts_only() -> None:
    quantized = {kind for kind, label in dtypes_of(load("gpt-oss-120b")).items() if label == "mxfp4 g32"}
    assert quantized == {"moe_gate_up", "moe_down"}


def test_quantization__layers_that_differ_become_two_rows() -> None:
    ignored = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp", "model.layers.79.mlp.down_proj"]}
    lines = shard(read_model(load("llama-3.3-70b") | {"quantization_config": ignored}), 1).linears
    calls = {line.kind: line.calls for line in lines}
    assert (calls["gate_up_bf16"], calls["gate_up_fp8"]) == (1, 79)
    assert (calls["down_bf16"], calls["down_fp8"]) == (2, 78)
    assert calls["qkv"] == 80


@pytest.mark.parametrize(
    ("config", "label", "size"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}, "int4 g128", 0.5 + 2 / 128),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "int4 g128", 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": True}, "int8", 1 + 2 / 28672),
        (FP8_TOKEN, "fp8", 1 + 4 / 28672),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4 g16", 0.5625),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 1 + 4 / 16384),
    ],
)
def test_quantization__bytes_per_weight(config: dict[str, Any], label: str, size: float) -> None:
    lines = shard(read_model(load("llama-3.3-70b") | {"quantization_config": config}), 1).linears
    (down,) = [line for line in lines if line.kind == "down"]
    (head,) = [line for line in lines if line.kind == "lm_head"]
    assert down.label == label
    assert down.bytes_per_weight == pytest.approx(size)
    assert head.label == "bf16"


def test_quantization__router_where_the_engine_quantizes_it_unless_left_out() -> None:
    def router(name: str, **more: Any) -> str:
        return dtypes_of(load(name) | {"quantization_config": FP8_TENSOR | more})["router"]

    assert router("qwen3-30b-a3b") == "fp8"
    assert router("qwen3-30b-a3b", modules_to_not_convert=["mlp.gate"]) == "bf16"
    assert router("mixtral-8x7b") == "bf16"
    assert router("glm-4.6") == "fp32"


def test_quantization__unknown_method_is_named() -> None:
    model = read_model(load("llama-3.3-70b") | {"quantization_config": {"quant_method": "magic"}})
    assert any("magic" in text for text in model.unknown)


def test_quantization__modelopt_writes_it_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(load("qwen3-30b-a3b")))
    told = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    written = {"producer": {"name": "modelopt"}, "quantization": told}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(written))
    found = dtypes_of(host.read_model_config(str(tmp_path)))
    assert found["lm_head"] == "bf16"
    assert {found["qkv"], found["moe_gate_up"], found["moe_down"]} == {"nvfp4 g16"}
    quantized = quantization_config_of(host.read_model_config(str(tmp_path)))
    assert quantized is not None
    assert quantized["quant_method"] == "modelopt"


def test_quantization__nvfp4_and_mxfp4_of_compressed_tensors_by_their_group() -> None:
    for config, label, size in ((NVFP4, "nvfp4 g16", 0.5 + 1 / 16), (MXFP4, "mxfp4 g32", 0.5 + 1 / 32)):
        model = read_model(load("qwen3-30b-a3b") | {"quantization_config": config})
        experts = next(linear for linear in shard(model, 8).linears if linear.kind == "moe_down")
        assert experts.label == label
        assert experts.weight_bytes == 2048 * 96 * 128 * size


def test_gpt_oss__weights_are_the_published_checkpoint() -> None:
    # 36 layers of 128 experts of 3 × 2880 × 2880 at 4.25 bits; attention, router and head in bf16.
    held = shard(read_model(load("gpt-oss-120b")), 1).weight_bytes_held()
    experts = 36 * 128 * 3 * 2880 * 2880 * 4.25 / 8
    attention = 36 * (2880 * (64 + 2 * 8) * 64 + 64 * 64 * 2880 + 128 * 2880) * 2
    assert held >= experts + attention
    assert held == pytest.approx(experts + attention + 201088 * 2880 * 2, rel=0.04)
