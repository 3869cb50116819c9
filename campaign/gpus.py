"""What NVIDIA's management library and its tools tell of this machine's GPUs: the one place that asks them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

#: How long `nvidia-smi` may take; it waits for the driver, which may be busy.
SMI_TIMEOUT_S = 60

_THROTTLES = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU."""

    pid: int
    """Process id as the driver sees it."""
    used_bytes: int | None
    """GPU memory it holds; None = the driver does not tell."""


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one GPU at one moment; None = the driver does not tell."""

    index: int
    """Index among the machine's GPUs."""
    name: str
    """As the driver names it."""
    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors."""
    memory_clock_mhz: float | None = None
    """Clock of the memory."""
    power_w: float | None = None
    """Power drawn."""
    power_limit_w: float | None = None
    """Power cap in force."""
    temperature_c: float | None = None
    """Temperature of the GPU."""
    throttles: tuple[str, ...] = ()
    """Reasons that hold the clocks down, idle not among them."""
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    memory_used_bytes: int | None = None
    """Memory in use."""
    processes: tuple[GpuProcess, ...] = ()
    """Compute processes on it, this one's among them."""


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """NVIDIA's management library while the block runs; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def every_gpu(library: Any) -> list[tuple[int, Any]]:
    """(index, handle) of all GPUs of this machine."""
    return [(index, library.nvmlDeviceGetHandleByIndex(index)) for index in range(library.nvmlDeviceGetCount())]


def visible_gpus(library: Any) -> list[tuple[int, Any]]:
    """(index, handle) of the GPUs that CUDA_VISIBLE_DEVICES leaves visible, in its order."""
    every = every_gpu(library)
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return every
    chosen = []
    for name in (part.strip() for part in wanted.split(",")):
        fits = [pair for pair in every if name == str(pair[0]) or _is_uuid(library, pair[1], name)]
        if not fits:
            break  # CUDA ignores everything after the first name that it does not know
        chosen += fits
    return chosen


def _is_uuid(library: Any, handle: Any, name: str) -> bool:
    return len(name) > 4 and text_of(library.nvmlDeviceGetUUID(handle)).startswith(name)


def text_of(value: str | bytes) -> str:
    """A name as NVML gives it: older bindings give bytes."""
    return value.decode() if isinstance(value, bytes) else value


def asker(library: Any, handle: Any) -> Callable[..., Any]:
    """`ask(question, …)` of one GPU; None where this driver or GPU cannot answer."""

    def ask(question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(handle, *arguments)
        except library.NVMLError:
            return None

    return ask


def read_gpu(library: Any, index: int, handle: Any) -> GpuReading:
    """The state of one GPU, now."""
    ask = asker(library, handle)
    power, limit = ask(library.nvmlDeviceGetPowerUsage), ask(library.nvmlDeviceGetEnforcedPowerLimit)
    memory = ask(library.nvmlDeviceGetMemoryInfo)
    reasons = ask(library.nvmlDeviceGetCurrentClocksThrottleReasons) or 0
    uncorrected = ask(
        library.nvmlDeviceGetTotalEccErrors, library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC
    )
    running = ask(library.nvmlDeviceGetComputeRunningProcesses) or ()
    return GpuReading(
        index=index,
        name=text_of(ask(library.nvmlDeviceGetName) or "GPU"),
        sm_clock_mhz=ask(library.nvmlDeviceGetClockInfo, library.NVML_CLOCK_SM),
        memory_clock_mhz=ask(library.nvmlDeviceGetClockInfo, library.NVML_CLOCK_MEM),
        power_w=None if power is None else power / 1e3,
        power_limit_w=None if limit is None else limit / 1e3,
        temperature_c=ask(library.nvmlDeviceGetTemperature, library.NVML_TEMPERATURE_GPU),
        throttles=tuple(name for bit, name in _THROTTLES.items() if reasons & bit),
        ecc_uncorrected=uncorrected,
        memory_used_bytes=None if memory is None else int(memory.used),
        processes=tuple(GpuProcess(pid=int(p.pid), used_bytes=p.usedGpuMemory) for p in running),
    )


def memory_bandwidth_gb_s() -> float | None:
    """Memory bandwidth of the first visible GPU from its highest memory clock and bus width: clock × 2 × bytes."""
    with nvml() as library:
        handles = visible_gpus(library) if library else []
        if not handles:
            return None
        with contextlib.suppress(library.NVMLError):
            clock_mhz = library.nvmlDeviceGetMaxClockInfo(handles[0][1], library.NVML_CLOCK_MEM)
            bits = library.nvmlDeviceGetMemoryBusWidth(handles[0][1])
            bandwidth: float = clock_mhz * 2 * bits / 8 / 1e3
            return bandwidth
    return None


def read_topology() -> str:
    """What `nvidia-smi topo -m` prints; empty where it is not there or does not answer in time."""
    command = ["nvidia-smi", "topo", "-m"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return shown.stdout.strip() if shown.returncode == 0 else ""
