"""Energy of this machine's GPUs, where NVML counts it."""

from __future__ import annotations


def total_joules() -> float | None:
    """Energy all visible GPUs used since their driver loaded; null where there is no GPU or no counter."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return sum(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) for handle in handles) / 1e3 if handles else None
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()


def joules_between(before: float | None, after: float | None) -> float | None:
    """Difference of two readings; null where either is missing."""
    return None if before is None or after is None else after - before
