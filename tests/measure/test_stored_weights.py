"""Weights as checkpoints store them: random content, and its meaning in float32."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from campaign.measure import stored_weights
from campaign.measure.matrices import Pool
from campaign.measure.stored_weights import E2M1, dequantize, fill, spread_scales, unpack_fp4

N, K = 256, 512
FP8 = torch.float8_e4m3fn


@pytest.fixture
def pool() -> Pool:
    return Pool(1 << 20, "bf16", "cpu", seed=1)


def module_of(**parameters: torch.Tensor) -> nn.Module:
    made = nn.Module()
    for name, data in parameters.items():
        made.register_parameter(name, nn.Parameter(data, requires_grad=False))
    return made


def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype)


FORMS = {
    "fp8 tensor": ({"weight": empty(N, K, dtype=FP8), "weight_scale": empty(1, dtype=torch.float32)}, None),
    "fp8 channel": ({"weight": empty(N, K, dtype=FP8), "weight_scale": empty(N, 1, dtype=torch.float32)}, None),
    "fp8 block": ({"weight": empty(N, K, dtype=FP8), "weight_scale_inv": empty(2, 4, dtype=torch.float32)}, None),
    "nvfp4 modelopt": (
        {
            "weight": empty(N, K // 2, dtype=torch.uint8),
            "weight_scale": empty(N, K // 16, dtype=FP8),
            "weight_scale_2": empty(1, dtype=torch.float32),
            "input_scale": empty(1, dtype=torch.float32),
        },
        4,
    ),
    "nvfp4 compressed-tensors": (
        {
            "weight_packed": empty(N, K // 2, dtype=torch.uint8),
            "weight_scale": empty(N, K // 16, dtype=FP8),
            "weight_global_scale": empty(1, dtype=torch.float32),
        },
        4,
    ),
    "mxfp4": (
        {"weight": empty(N, K // 2, dtype=torch.uint8), "weight_scale": empty(N, K // 32, dtype=torch.uint8)},
        4,
    ),
    "int4": (
        {"weight_packed": empty(N, K // 8, dtype=torch.int32), "weight_scale": empty(N, K // 32, dtype=torch.bfloat16)},
        4,
    ),
    "int4 transposed": (
        {"weight_packed": empty(K // 8, N, dtype=torch.int32), "weight_scale": empty(K // 32, N, dtype=torch.bfloat16)},
        4,
    ),
    "int8": ({"weight": empty(N, K, dtype=torch.int8), "weight_scale": empty(N, 1, dtype=torch.float32)}, 8),
    "bf16": ({"weight": empty(N, K, dtype=torch.bfloat16)}, None),
}


@pytest.mark.parametrize("form", FORMS)
def test_fill__every_format_gives_weights_of_the_deviation_asked_for(form: str, pool: Pool) -> None:
    parameters, bits = FORMS[form]
    stored = fill(module_of(**parameters), {"": 0.05}, pool, bits)
    weight = dequantize(stored, "", N, K)
    assert weight.shape == (N, K)
    assert weight.dtype == torch.float32
    assert weight.isfinite().all()
    # Powers of two and single scales come only near it.
    assert 0.5 < float(weight.std()) / 0.05 < 1.8
    assert abs(float(weight.mean())) < 0.01


def test_unpack_fp4__low_half_first_and_the_sign_in_its_top_bit() -> None:
    packed = torch.tensor([[0x21, 0xF8]], dtype=torch.uint8)
    assert unpack_fp4(packed).tolist() == [[0.5, 1.0, -0.0, -6.0]]
    every = torch.arange(16, dtype=torch.uint8).unsqueeze(0)
    assert unpack_fp4(every)[0, ::2].tolist() == [*E2M1, *(-value for value in E2M1)]


def test_dequantize__integers_count_from_their_middle() -> None:
    packed = torch.tensor([[0x76543210]], dtype=torch.int32)
    stored = {"weight_packed": packed, "weight_scale": torch.tensor([[0.5]])}
    assert dequantize(stored, "", 1, 8).tolist() == [[-4.0, -3.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5]]


def test_dequantize__experts_are_chosen_by_number() -> None:
    stored = {"w2_weight": torch.arange(12.0).view(3, 2, 2)}
    assert dequantize(stored, "w2_", 2, 2, expert=2).tolist() == [[8.0, 9.0], [10.0, 11.0]]


def test_spread_scales__blocks_parts_rows_and_one_for_all() -> None:
    blocks = spread_scales(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 130, 200)
    assert blocks.shape == (130, 200)
    assert (blocks[127, 127], blocks[127, 128], blocks[128, 0], blocks[129, 199]) == (1.0, 2.0, 3.0, 4.0)
    assert spread_scales(torch.tensor([1.0, 2.0]), 4, 8).flatten().tolist() == [1.0, 1.0, 2.0, 2.0]
    assert spread_scales(torch.tensor([7.0]), 4, 8).tolist() == [[7.0]]


def test_dequantize__an_unknown_form_is_no_number() -> None:
    with pytest.raises(ValueError, match="not known here"):
        dequantize({"weight": torch.zeros(2, 2, dtype=torch.float16), "weight_scale": torch.ones(1)}, "", 2, 2)
    with pytest.raises(ValueError, match="no weight among qweight"):
        dequantize({"qweight": torch.zeros(2, 2)}, "", 2, 2)
    assert stored_weights.RMS["fp4"] == pytest.approx(torch.tensor(E2M1).pow(2).mean().sqrt().item(), abs=0.01)
