"""Memory around a server: what its GPUs hold, and whether the kernel killed for memory."""

from __future__ import annotations

import contextlib
from pathlib import Path

_CGROUP_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))


def gpu_used_bytes() -> dict[str, int]:
    """Bytes in use on each GPU by its UUID; empty where NVML finds no GPU."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    used: dict[str, int] = {}
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            used[str(pynvml.nvmlDeviceGetUUID(handle))] = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    except pynvml.NVMLError:
        return used
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
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
