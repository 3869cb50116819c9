"""Layers that vLLM's own CPU build makes from a quantization_config, against what we say its weights mean."""

from __future__ import annotations

from typing import Any

import pytest

from campaign.measure import engine_experts, engine_layers
from campaign.measure.engine_layers import Engine
from campaign.measure.matrices import Pool, Room
from campaign.model import Linear
from tests.measure import weight_formats as formats

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(pool=Pool(1 << 22, "bf16", "cpu", 0), cache_bytes=1 << 16, memory_bytes=1e8)


def linear_of(form: str, group: int | None, bytes_per_weight: float) -> Linear:
    return Linear(
        name="self_attn.o_proj",
        kind="o",
        category="gemm",
        n=512,
        k=256,
        dtype=form,
        group=group,
        bytes_per_weight=bytes_per_weight,
        module="model.layers.0.self_attn.o_proj",
    )


@pytest.mark.parametrize(
    ("quantization", "linear", "limit"),
    [
        (formats.INT4, linear_of("int4", 128, 0.515625), 0.02),
        (formats.FP8_TOKEN, linear_of("fp8", None, 1.0), 0.1),
    ],
    ids=["int4", "fp8 by token"],
)
def test_engine_layers__a_dense_kernel_of_vllm_agrees_with_the_stored_weights(
    quantization: dict[str, Any], linear: Linear, limit: float, room: Room
) -> None:
    prepared = engine_layers.prepare_dense(linear, 4, room, Engine(quantization=quantization, model_type="qwen3"))
    assert prepared.kernel.startswith("vLLM ")
    assert 0 < prepared.error() < limit
    assert prepared.buffers > 1


def test_engine_layers__experts_of_vllm_agree_with_the_stored_weights(room: Room) -> None:
    module = "model.layers.0.mlp.experts.0.gate_proj"
    up, down = (
        Linear(name="w", kind="moe", category="moe_gemm", n=n, k=k, matrices=8, active=2, module=module)
        for n, k in ((512, 256), (256, 256))
    )
    prepared = engine_experts.prepare_experts((up, down), 4, room, Engine(quantization={}))
    assert prepared.kernel.startswith("vLLM ")
    assert 0 < prepared.error() < 0.02


def test_engine_layers__a_module_that_the_config_ignores_is_no_quantized_kernel(room: Room) -> None:
    ignoring = formats.INT4 | {"ignore": ["re:.*self_attn.*"]}
    with pytest.raises(ValueError, match=r"vLLM does not quantize model\.layers\.0\.self_attn\.o_proj"):
        engine_layers.prepare_dense(linear_of("int4", 128, 0.515625), 1, room, Engine(quantization=ignoring))


def test_engine_layers__a_stored_form_not_known_here_is_said(room: Room) -> None:
    strange = {"quant_method": "bitsandbytes"}
    with pytest.raises(ValueError, match="stored weights of bitsandbytes are not known here"):
        engine_layers.prepare_dense(linear_of("int4", None, 0.5), 1, room, Engine(quantization=strange))
