"""The device of this process: whether it is free, and what it can do at most."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from campaign import gpus, host
from campaign.errors import PhaseError
from campaign.measure.matrices import DTYPES
from campaign.model import Device, find_device
from campaign.phases.gemm_data import Peaks


def settle(device: str, ranks: int, seed: int) -> None:
    """Seed the random numbers, take this rank's part of the cores, and see that the GPU is free.

    Raises `PhaseError` where another process holds it: a disturbed number is worse than none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise PhaseError('no GPU answers here (torch.cuda.is_available() is false); write device = "cpu" or fix it.')
    occupants = host.describe_occupants() if device == "cuda" else None
    if occupants is not None:
        raise PhaseError(occupants)
    torch.manual_seed(seed)
    # The engine gives each rank its own part of the cores; threads that share cores measure the scheduler.
    torch.set_num_threads(max(1, host.usable_cpus() // ranks))


def measure_peaks(device: str, dtype: str) -> Peaks:
    """Data-sheet peaks of a known GPU; elsewhere bandwidth and arithmetic as measured here."""
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        known = find_device(properties.name)
        cache = int(getattr(properties, "L2_cache_size", 64 << 20))
        if known is not None:
            return Peaks(device=known, is_measured=False, cache_bytes=cache)
        bandwidth = gpus.memory_bandwidth_gb_s()
        stranger = Device(name=properties.name, memory_gb_s=bandwidth, source="memory clock", cache_bytes=cache)
        return Peaks(device=stranger, is_measured=False, cache_bytes=cache)
    cache = host.last_level_cache_bytes() or 32 << 20
    tflops = {form: _peak_tflops(form) for form in {"fp32", dtype}}
    here = Device(
        name="cpu", memory_gb_s=_read_bandwidth_gb_s(cache), tflops=tflops, cache_bytes=cache, source="measured"
    )
    return Peaks(device=here, is_measured=True, cache_bytes=cache)


def _read_bandwidth_gb_s(cache_bytes: int) -> float:
    """Best of ten sums over a stretch of eight caches."""
    data = torch.ones(max(64 << 20, 8 * cache_bytes) // 4, dtype=torch.float32)
    best_s = min(_seconds(data.sum) for _ in range(10))
    return int(data.numel()) * 4 / best_s / 1e9


def _peak_tflops(form: str) -> float:
    """Best of five products of two square matrices."""
    size = 1536
    left, right = (torch.randn(size, size).to(DTYPES[form]) for _ in range(2))
    best_s = min(_seconds(lambda: left @ right) for _ in range(5))
    return 2 * size**3 / best_s / 1e12


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
