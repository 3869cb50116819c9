"""Random weights as checkpoints store them (FP8, FP4, packed integers, scales), and what they mean in float32."""

from __future__ import annotations

import math

import torch
from torch import nn

from campaign.measure.matrices import Pool

#: Values of the three low bits of an FP4 E2M1 number; the fourth bit is the sign (OCP Microscaling Formats 1.0).
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
#: Root mean square of uniformly drawn E2M1 numbers, of 4-bit and of 8-bit integers around zero.
RMS = {"fp4": 2.93, "int4": 4.63, "int8": 73.9, "fp8": 1.0}
#: Block scales of NVFP4 are drawn between these, well inside E4M3's range; their root mean square.
BLOCK_SCALES = (32.0, 128.0)
BLOCK_SCALE_RMS = 84.7
#: Largest activation that a static input scale is made for.
LARGEST_INPUT = 6.0
FP8_BLOCK = 128
E8M0_BIAS = 127

Stored = dict[str, torch.Tensor]


def fill(module: nn.Module, deviation: dict[str, float], pool: Pool, bits: int | None = None) -> Stored:
    """Fill the parameters of an engine's layer with random valid content; a copy of them, to compare with.

    `deviation` gives the standard deviation of the weights by the prefix of their names; `bits` of packed integers.
    """
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            prefix = max((p for p in deviation if name.startswith(p)), key=len, default=None)
            if prefix is not None:
                _fill_one(name.removeprefix(prefix), parameter.data, deviation[prefix], pool, bits)
    return {name: parameter.data.clone() for name, parameter in module.named_parameters()}


def _fill_one(name: str, data: torch.Tensor, deviation: float, pool: Pool, bits: int | None) -> None:
    if "bias" in name or name == "weight_shape":
        data.zero_()
    elif name.startswith("input_"):
        # NVFP4 stores the largest input over the largest product of block scale and value, FP8 over its largest value;
        # compressed-tensors stores the inverse.
        scale = LARGEST_INPUT / 448 / (6.0 if bits == 4 else 1.0)
        data.fill_(1 / scale if "global" in name else scale)
    elif name == "weight_global_scale":
        data.fill_(RMS["fp4"] * BLOCK_SCALE_RMS / deviation)
    elif name == "weight_scale_2":
        data.fill_(deviation / RMS["fp4"] / BLOCK_SCALE_RMS)
    elif "scale" in name:
        _fill_scales(data, deviation, pool, bits)
    else:
        _fill_weights(data, deviation, pool)


def _fill_scales(data: torch.Tensor, deviation: float, pool: Pool, bits: int | None) -> None:
    def uniform(low: float, high: float) -> torch.Tensor:
        drawn = torch.rand(data.shape, generator=pool.generator, device=data.device)
        return drawn * (high - low) + low

    if data.dtype == torch.float8_e4m3fn:
        data.copy_(uniform(*BLOCK_SCALES).to(data.dtype))
    elif data.dtype in (torch.uint8, torch.float8_e8m0fnu):
        middle = E8M0_BIAS + round(math.log2(deviation / RMS["fp4"]))
        data.view(torch.uint8).copy_((uniform(0, 3).floor() - 1 + middle).to(torch.uint8))
    else:
        # One scale for a whole matrix stays as it is: two fused ones that differ would be quantized anew.
        spread = (0.5, 1.5) if data.dim() >= 2 and min(data.shape[-2:]) > 2 else (1.0, 1.0)
        of_values = RMS["fp8"] if bits is None else RMS[f"int{bits}"]
        data.copy_((uniform(*spread) * deviation / of_values).to(data.dtype))


def _fill_weights(data: torch.Tensor, deviation: float, pool: Pool) -> None:
    if data.dtype == torch.uint8:
        data.random_(0, 256, generator=pool.generator)
    elif data.dtype == torch.int8:
        data.random_(-127, 128, generator=pool.generator)
    elif data.dtype == torch.int32:
        data.random_(-(2**31), 2**31 - 1, generator=pool.generator)
    elif data.dtype == torch.float8_e4m3fn:
        for matrix in data if data.dim() == 3 else (data,):
            drawn = torch.empty(matrix.shape, device=data.device).normal_(generator=pool.generator)
            matrix.copy_(drawn.to(data.dtype))
    else:
        data.normal_(0.0, deviation, generator=pool.generator)


def dequantize(stored: Stored, prefix: str, n: int, k: int, expert: int | None = None) -> torch.Tensor:
    """The (n, k) float32 matrix that stored parameters stand for; of one expert where they are stacked.

    Raises `ValueError` where the form is not known here.
    """

    def get(*names: str) -> torch.Tensor | None:
        found = next((stored[prefix + name] for name in names if prefix + name in stored), None)
        return found if found is None or expert is None else found[expert]

    weight, scale = get("weight", "weight_packed"), get("weight_scale", "weight_scale_inv")
    if weight is None:
        raise ValueError(f"no weight among {', '.join(sorted(stored))}")
    if scale is None:
        return weight.float()
    if weight.dtype == torch.uint8:
        return _from_fp4(weight, scale, get("weight_scale_2"), get("weight_global_scale"))
    if weight.dtype == torch.int32:
        return _from_integers(weight, scale, n, k)
    if weight.dtype in (torch.float8_e4m3fn, torch.int8):
        return weight.float() * spread_scales(scale.float(), n, k)
    raise ValueError(f"{weight.dtype} weights with scales are not known here")


def unpack_fp4(packed: torch.Tensor) -> torch.Tensor:
    """(…, k/2) bytes → (…, k) float32, the low half of a byte first."""
    values = torch.tensor(E2M1, device=packed.device)
    halves = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2).long()
    return values[halves & 7] * torch.where(halves >= 8, -1.0, 1.0)


def _from_fp4(
    weight: torch.Tensor, scale: torch.Tensor, factor: torch.Tensor | None, divisor: torch.Tensor | None
) -> torch.Tensor:
    values = unpack_fp4(weight)
    is_power = scale.dtype in (torch.uint8, torch.float8_e8m0fnu)
    blocks = torch.exp2(scale.view(torch.uint8).float() - E8M0_BIAS) if is_power else scale.float()
    found = values * blocks.repeat_interleave(values.shape[1] // blocks.shape[1], dim=1)
    if factor is not None:
        return found * factor.max()
    return found if divisor is None else found / divisor.max()


def _from_integers(weight: torch.Tensor, scale: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """Unsigned fields around their middle, the lowest bits first, along K; experts lie transposed."""
    if weight.shape[0] != n or scale.shape[0] != n:
        weight, scale = weight.T, scale.T
    fields = k // weight.shape[1]
    bits = 32 // fields
    shifts = torch.arange(0, 32, bits, device=weight.device, dtype=torch.int32)
    values = ((weight.unsqueeze(-1) >> shifts) & (2**bits - 1)).flatten(1).float() - 2 ** (bits - 1)
    return values * scale.float().repeat_interleave(k // scale.shape[1], dim=1)


def spread_scales(scale: torch.Tensor, n: int, k: int) -> torch.Tensor:
    """Scales of a tensor, of fused parts, of rows or of blocks of 128 × 128, as a factor that fits (n, k)."""
    if scale.numel() == 1:
        return scale.reshape(1, 1)
    if scale.dim() == 1:
        return scale.repeat_interleave(n // scale.numel()).unsqueeze(1)
    if scale.shape == (n, 1):
        return scale
    return scale.repeat_interleave(FP8_BLOCK, 0)[:n].repeat_interleave(FP8_BLOCK, 1)[:, :k]
