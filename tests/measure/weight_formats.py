"""Quantization configs as checkpoints publish them, to lay over a model whose own is another."""

from __future__ import annotations

from typing import Any


def compressed(form: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> dict[str, Any]:
    """compressed-tensors: all linears but lm_head and the routers."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", "re:.*mlp.gate$"],
    }


def number(bits: int, kind: str, strategy: str, **more: Any) -> dict[str, Any]:
    """Arguments of one side of a group."""
    return {"num_bits": bits, "type": kind, "symmetric": True, "strategy": strategy, "dynamic": False, **more}


FP8_TENSOR = {"quant_method": "fp8", "activation_scheme": "dynamic"}
FP8_BLOCK = FP8_TENSOR | {"weight_block_size": [128, 128]}
FP8_TOKEN = compressed(
    "float-quantized", number(8, "float", "channel"), number(8, "float", "token") | {"dynamic": True}
)
INT4 = compressed("pack-quantized", number(4, "int", "group", group_size=128, actorder=None), None)
NVFP4 = compressed(
    "nvfp4-pack-quantized",
    number(4, "float", "tensor_group", group_size=16),
    number(4, "float", "tensor_group", group_size=16) | {"dynamic": "local"},
)
MXFP4 = compressed("mxfp4-pack-quantized", number(4, "float", "group", group_size=32), None)
MODELOPT_NVFP4 = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "producer": {"name": "modelopt", "version": "0.29.0"},
    "kv_cache_quant_algo": None,
    "group_size": 16,
    "ignore": ["lm_head", "*.mlp.gate"],
}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
INT8_TOKEN = compressed("int-quantized", number(8, "int", "channel"), number(8, "int", "token") | {"dynamic": True})
