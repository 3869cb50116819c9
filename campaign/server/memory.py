"""Memory around a server: what its GPUs hold, and whether the kernel killed for memory."""

from __future__ import annotations

import contextlib
from pathlib import Path

from campaign.gpus import every_gpu, nvml, text_of

_CGROUP_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def gpu_used_bytes() -> dict[str, int]:
    """Bytes in use on each GPU by its UUID; empty where NVML finds no GPU."""
    used: dict[str, int] = {}
    with nvml() as library:
        if library is None:
            return {}
        with contextlib.suppress(library.NVMLError):
            for _, handle in every_gpu(library):
                used[text_of(library.nvmlDeviceGetUUID(handle))] = int(library.nvmlDeviceGetMemoryInfo(handle).used)
    return used


def oom_kills() -> int | None:
    """How many processes of this control group the kernel has killed for memory; None where it does not say."""
    for path in _CGROUP_EVENTS:
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None
