"""Energy of this machine's GPUs, where NVML counts it and the server runs here."""

from __future__ import annotations

import socket

from campaign import gpus
from campaign.load.endpoint import Endpoint


def is_here(endpoint: Endpoint) -> bool:
    """Whether the server answers on this machine, so that its energy is this machine's."""
    return endpoint.host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", socket.gethostname())


def total_joules() -> float | None:
    """Energy that the visible GPUs used since their driver loaded; null where there is no GPU or no counter."""
    with gpus.nvml() as library:
        if library is None:
            return None
        try:
            handles = [handle for _, handle in gpus.visible_gpus(library)]
            millijoules = [int(library.nvmlDeviceGetTotalEnergyConsumption(handle)) for handle in handles]
        except library.NVMLError:
            return None
    return sum(millijoules) / 1e3 if millijoules else None


def joules_between(before: float | None, after: float | None) -> float | None:
    """Difference of two readings; null where either is missing."""
    return None if before is None or after is None else after - before
