"""vLLM's kernels called by their own functions: Marlin INT4/INT8, Triton block FP8, fused experts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from campaign.measure import experts
from campaign.measure.engine_layers import call_known
from campaign.measure.matrices import Pool, Prepared, Room, relative_error
from campaign.measure.stored_weights import FP8_BLOCK, spread_scales
from campaign.model import Linear

#: FP8 activations are rounded to 3 bits of mantissa: products differ by some percent from float32.
FP8_TOLERANCE = 0.1

Pair = tuple[Linear, Linear]


def _marlin_type(linear: Linear) -> Any:
    from vllm.scalar_type import scalar_types

    return scalar_types.uint4b8 if linear.dtype == "int4" else scalar_types.uint8b128


def _marlin_weights(k: int, n: int, form: Any, group: int | None, pool: Pool) -> tuple[torch.Tensor, ...]:
    """(float reference (k, n), packed weights, scales) of one random matrix."""
    from vllm.model_executor.layers.quantization.utils.marlin_utils_test import marlin_quantize

    dense = pool.random(k, n) / k**0.5
    made = call_known(marlin_quantize, w=dense, quant_type=form, group_size=group or -1, act_order=False)
    return made[0], made[1], made[2]


def marlin_dense(linear: Linear, m: int, room: Room) -> Prepared:
    """Marlin INT4 or INT8."""
    from vllm.model_executor.layers.quantization.utils import marlin_utils

    copies = room.copies(linear.weight_bytes)
    form = _marlin_type(linear)
    exact, packed, scales = _marlin_weights(linear.k, linear.n, form, linear.group, room.pool)
    weights = [(packed.clone(), scales.clone()) for _ in range(copies)]
    x = room.pool.random(m, linear.k)
    empty = torch.empty(0, dtype=torch.int, device=room.pool.device)
    workspace = marlin_utils.marlin_make_workspace_new(x.device)

    def run(i: int) -> torch.Tensor:
        made: torch.Tensor = call_known(
            marlin_utils.apply_gptq_marlin_linear,
            input=x,
            weight=weights[i][0],
            weight_scale=weights[i][1],
            weight_zp=empty,
            g_idx=empty,
            g_idx_sort_indices=empty,
            workspace=workspace,
            wtype=form,
            output_size_per_partition=linear.n,
            input_size_per_partition=linear.k,
            is_k_full=True,
        )
        return made

    return _dense(linear, f"vLLM Marlin {linear.label}", run, copies, lambda: x.float() @ exact.float())


def _dense(
    linear: Linear,
    name: str,
    run: Callable[[int], torch.Tensor],
    copies: int,
    expected: Callable[[], torch.Tensor],
) -> Prepared:
    return Prepared(
        kernel=name,
        dtype=linear.dtype,
        bytes_per_weight=linear.bytes_per_weight,
        cold=[partial(run, i) for i in range(copies)],
        hot=partial(run, 0),
        error=lambda: relative_error(run(0), expected()),
        rotated_bytes=copies * linear.weight_bytes,
        buffers=copies,
    )


def _fp8_weight(n: int, k: int, pool: Pool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(float reference (n, k), FP8 weights, scales a block of 128 × 128)."""
    blocks_n, blocks_k = -(-n // FP8_BLOCK), -(-k // FP8_BLOCK)
    weight = (pool.random(n, k).float()).clamp(-8, 8).to(torch.float8_e4m3fn)
    scales = torch.rand(blocks_n, blocks_k, generator=pool.generator, device=pool.device) / k**0.5 + 1e-3
    return weight.float() * spread_scales(scales, n, k), weight, scales


def triton_fp8_dense(linear: Linear, m: int, room: Room) -> Prepared:
    """Triton's FP8 in blocks of 128 × 128."""
    from vllm.model_executor.layers.quantization.utils.fp8_utils import (
        per_token_group_quant_fp8,
        w8a8_triton_block_scaled_mm,
    )

    copies = room.copies(linear.weight_bytes)
    exact, weight, scales = _fp8_weight(linear.n, linear.k, room.pool)
    weights = [(weight.clone(), scales.clone()) for _ in range(copies)]
    x = room.pool.random(m, linear.k)
    block = [FP8_BLOCK, FP8_BLOCK]

    def run(i: int) -> torch.Tensor:
        quantized, x_scales = per_token_group_quant_fp8(x, FP8_BLOCK)
        made: torch.Tensor = w8a8_triton_block_scaled_mm(
            quantized, weights[i][0], x_scales, weights[i][1], block, x.dtype
        )
        return made

    name = "vLLM Triton block FP8, activations quantized in the call"
    prepared = _dense(linear, name, run, copies, lambda: x.float() @ exact.T)
    prepared.tolerance = FP8_TOLERANCE
    return prepared


def marlin_experts(pair: Pair, m: int, room: Room) -> Prepared:
    """Marlin INT4 or INT8 experts."""
    from vllm.model_executor.layers.fused_moe.experts.marlin_moe import fused_marlin_moe
    from vllm.model_executor.layers.quantization.utils.marlin_utils import marlin_make_workspace_new

    up, form = pair[0], _marlin_type(pair[0])
    layer = experts.layer_of(pair, m, room.memory_bytes)
    ups = [_marlin_weights(layer.hidden, 2 * layer.width, form, up.group, room.pool) for _ in range(experts.DISTINCT)]
    downs = [_marlin_weights(layer.width, layer.hidden, form, up.group, room.pool) for _ in range(experts.DISTINCT)]

    def stack(made: list[tuple[torch.Tensor, ...]], part: int) -> torch.Tensor:
        return torch.stack([made[e % experts.DISTINCT][part] for e in range(layer.experts)])

    copies = experts.copies_of(layer, up.bytes_per_weight, room.cache_bytes, room.memory_bytes)
    held = [(stack(ups, 1), stack(downs, 1), stack(ups, 2), stack(downs, 2)) for _ in range(copies)]
    workspace = marlin_make_workspace_new(torch.device(held[0][0].device), 4)

    def run(x: torch.Tensor, copy: int, routing: experts.Routing) -> torch.Tensor:
        w1, w2, s1, s2 = held[copy]
        made: torch.Tensor = call_known(
            fused_marlin_moe,
            hidden_states=x,
            w1=w1,
            w2=w2,
            bias1=None,
            bias2=None,
            w1_scale=s1,
            w2_scale=s2,
            topk_weights=routing.weights,
            topk_ids=routing.ids,
            quant_type_id=form.id,
            workspace=workspace,
        )
        return made

    def weights_of(expert: int) -> tuple[torch.Tensor, torch.Tensor]:
        return ups[expert % experts.DISTINCT][0].T, downs[expert % experts.DISTINCT][0].T

    return _experts(
        layer,
        pair,
        room.pool,
        room.cache_bytes,
        run=run,
        name=f"vLLM Marlin MoE {up.label}",
        copies=copies,
        weights_of=weights_of,
    )


def _experts(
    layer: experts.Layer,
    pair: Pair,
    pool: Pool,
    cache_bytes: int,
    *,
    run: experts.Kernel,
    name: str,
    copies: int,
    weights_of: Callable[[int], tuple[torch.Tensor, torch.Tensor]],
) -> Prepared:
    prepared = experts.prepare(
        layer,
        pool,
        cache_bytes,
        kernel=run,
        name=name,
        dtype=pair[0].dtype,
        bytes_per_weight=pair[0].bytes_per_weight,
        copies=copies,
        weights_of=weights_of,
    )
    if layer.experts < pair[0].matrices:
        prepared.notes.append(f"{layer.experts} of {pair[0].matrices} experts held: the memory limit")
    return prepared


def triton_experts(pair: Pair, m: int, room: Room) -> Prepared:
    """Triton's fused experts in the activations' format."""
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    layer = experts.layer_of(pair, m, room.memory_bytes)
    copies = experts.copies_of(layer, pair[0].bytes_per_weight, room.cache_bytes, room.memory_bytes)
    scale = layer.width**-0.5
    held = [
        (
            room.pool.random(layer.experts, 2 * layer.width, layer.hidden),
            room.pool.random(layer.experts, layer.hidden, layer.width).mul_(scale),
        )
        for _ in range(copies)
    ]

    def run(x: torch.Tensor, copy: int, routing: experts.Routing) -> torch.Tensor:
        w1, w2 = held[copy]
        made: torch.Tensor = fused_experts(x, w1, w2, routing.weights, routing.ids)
        return made

    def weights_of(expert: int) -> tuple[torch.Tensor, torch.Tensor]:
        return held[0][0][expert], held[0][1][expert]

    return _experts(
        layer,
        pair,
        room.pool,
        room.cache_bytes,
        run=run,
        name=f"vLLM fused_experts {pair[0].dtype}",
        copies=copies,
        weights_of=weights_of,
    )


def triton_experts_fp8(pair: Pair, m: int, room: Room) -> Prepared:
    """Triton's fused experts, FP8 in blocks of 128 × 128."""
    from vllm.model_executor.layers.fused_moe.config import fp8_w8a8_moe_quant_config
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    layer = experts.layer_of(pair, m, room.memory_bytes)
    ups = [_fp8_weight(2 * layer.width, layer.hidden, room.pool) for _ in range(experts.DISTINCT)]
    downs = [_fp8_weight(layer.hidden, layer.width, room.pool) for _ in range(experts.DISTINCT)]

    def stack(made: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], part: int) -> torch.Tensor:
        return torch.stack([made[e % experts.DISTINCT][part] for e in range(layer.experts)])

    copies = experts.copies_of(layer, pair[0].bytes_per_weight, room.cache_bytes, room.memory_bytes)
    held = [(stack(ups, 1), stack(downs, 1), stack(ups, 2), stack(downs, 2)) for _ in range(copies)]
    configs = [fp8_w8a8_moe_quant_config(s1, s2, block_shape=[FP8_BLOCK, FP8_BLOCK]) for _, _, s1, s2 in held]

    def run(x: torch.Tensor, copy: int, routing: experts.Routing) -> torch.Tensor:
        w1, w2, _, _ = held[copy]
        made: torch.Tensor = fused_experts(x, w1, w2, routing.weights, routing.ids, quant_config=configs[copy])
        return made

    def weights_of(expert: int) -> tuple[torch.Tensor, torch.Tensor]:
        return ups[expert % experts.DISTINCT][0], downs[expert % experts.DISTINCT][0]

    prepared = _experts(
        layer,
        pair,
        room.pool,
        room.cache_bytes,
        run=run,
        name="vLLM fused_experts block FP8",
        copies=copies,
        weights_of=weights_of,
    )
    prepared.tolerance = FP8_TOLERANCE
    return prepared
