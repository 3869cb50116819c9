"""What a device can do at most: memory bandwidth, peak arithmetic, links; the floors rest on it."""

from __future__ import annotations

import msgspec


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The path between two devices of a group."""

    name: str
    """E.g. `NVLink 4`, `PCIe 5 x16`, `shared memory`."""
    bandwidth_gb_s: float
    """One direction, one device."""
    latency_us: float
    """One hop."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks of one device; None = not known, and then no floor is given."""

    name: str
    """As the driver names it, or `cpu`."""
    memory_gb_s: float | None
    """Memory bandwidth."""
    tflops: dict[str, float] = {}
    """Dense peak by number format: bf16, fp16, fp32, fp8, fp4."""
    link: Link | None = None
    """The link a tensor-parallel group talks over."""
    cache_bytes: int | None = None
    """Last-level cache."""
    source: str = "data sheet"
    """Where the peaks are from: data sheet, memory clock, measured."""

    def peak_tflops(self, weight_format: str) -> float | None:
        """Peak of the unit that multiplies weights of this format (INT4 and unsupported formats run as bf16)."""
        names = {"int4": "bf16", "int8": "bf16", "nvfp4": "fp4", "mxfp4": "bf16"}
        wanted = names.get(weight_format, weight_format)
        return self.tflops.get(wanted, self.tflops.get("bf16"))


NVLINK4 = Link(name="NVLink 4", bandwidth_gb_s=450.0, latency_us=0.6)
NVLINK5 = Link(name="NVLink 5", bandwidth_gb_s=900.0, latency_us=0.6)
PCIE5 = Link(name="PCIe 5 x16", bandwidth_gb_s=56.0, latency_us=1.07)
PCIE4 = Link(name="PCIe 4 x16", bandwidth_gb_s=26.0, latency_us=1.07)


def _known(
    name: str, memory_gb_s: float, link: Link, *, bf16: float, fp8: float | None = None, fp4: float | None = None
) -> Device:
    peaks = {"bf16": bf16, "fp16": bf16, "fp8": fp8, "fp4": fp4}
    present = {form: peak for form, peak in peaks.items() if peak is not None}
    return Device(name=name, memory_gb_s=memory_gb_s, tflops=present, link=link)


#: Dense peaks with fp32 accumulation, from the vendors' data sheets; the longest name that fits is taken.
KNOWN = (
    _known("H200", 4800.0, NVLINK4, bf16=989.4, fp8=1978.9),
    _known("GH200", 4000.0, NVLINK4, bf16=989.4, fp8=1978.9),
    _known("H100", 3352.0, NVLINK4, bf16=989.4, fp8=1978.9),
    _known("H100 PCIe", 2039.0, PCIE5, bf16=756.0, fp8=1513.0),
    _known("H100 NVL", 3938.0, NVLINK4, bf16=835.0, fp8=1671.0),
    _known("H20", 4000.0, NVLINK4, bf16=148.0, fp8=296.0),
    _known("B200", 8000.0, NVLINK5, bf16=2250.0, fp8=4500.0, fp4=9000.0),
    _known("A100", 2039.0, Link(name="NVLink 3", bandwidth_gb_s=300.0, latency_us=0.7), bf16=312.0),
    _known("RTX PRO 6000 Blackwell", 1792.0, PCIE5, bf16=503.8, fp8=1007.6, fp4=2015.2),
    _known("RTX 5090", 1792.0, PCIE5, bf16=209.5, fp8=419.0, fp4=1676.0),
    _known("RTX 4090", 1008.0, PCIE4, bf16=165.2, fp8=330.3),
    _known("RTX 6000 Ada", 960.0, PCIE4, bf16=364.2, fp8=728.5),
    _known("L40S", 864.0, PCIE4, bf16=362.0, fp8=733.0),
    _known("L4", 300.0, PCIE4, bf16=121.0, fp8=242.0),
    _known("A10", 600.0, PCIE4, bf16=125.0),
)


def find_device(name: str) -> Device | None:
    """The known device whose name occurs in `name` as the driver spells it; None where there is none."""
    words = f" {name.replace('-', ' ')} ".lower()
    fitting = [device for device in KNOWN if f" {device.name.lower()} " in words]
    return max(fitting, key=lambda device: len(device.name)) if fitting else None


def allreduce_floor_us(size_bytes: int, ranks: int, link: Link) -> dict[str, float]:
    """Least time of an all-reduce by algorithm: one-shot, two-shot, ring; µs.

    One-shot α + (p−1)S/B; two-shot 2α + 2S(p−1)/(pB); ring 2(p−1)α + 2S(p−1)/(pB): the α–β model of
    Thakur, Rabenseifner and Gropp (2005), with every peer's data over one link of bandwidth B.
    """
    if ranks <= 1:
        return {}
    transfer_us = size_bytes / (link.bandwidth_gb_s * 1e3)
    shared_us = 2 * transfer_us * (ranks - 1) / ranks
    return {
        "one-shot": link.latency_us + (ranks - 1) * transfer_us,
        "two-shot": 2 * link.latency_us + shared_us,
        "ring": 2 * (ranks - 1) * link.latency_us + shared_us,
    }
