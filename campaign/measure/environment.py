"""What this machine is: CPU, GPUs, topology, versions, what could disturb a measurement."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from campaign import schema
from campaign.gpus import asker, every_gpu, nvml, read_gpu, read_topology, text_of
from campaign.host import cpu_name, read_model_config, read_versions
from campaign.measurement import Measurement, run_script
from campaign.phases.environment import KIND, Config, Data, Gpu, facts_of_model

#: Prefixes of environment variables that change what is measured; values of keys and tokens are never kept.
PREFIXES = ("VLLM_", "NCCL_", "CUDA_", "TORCH_", "OMP_", "MKL_", "HF_HUB_OFFLINE", "LD_PRELOAD")


def _gpus() -> tuple[tuple[Gpu, ...], str]:
    """Every GPU that NVML shows, and the driver's version; none where there is no driver."""
    with nvml() as library:
        if library is None:
            return (), ""
        found = tuple(_gpu(library, index, handle) for index, handle in every_gpu(library))
        return found, text_of(library.nvmlSystemGetDriverVersion())


def _gpu(library: Any, index: int, handle: Any) -> Gpu:
    ask, state = asker(library, handle), read_gpu(library, index, handle)
    memory = ask(library.nvmlDeviceGetMemoryInfo)
    now = (ask(library.nvmlDeviceGetCurrPcieLinkGeneration), ask(library.nvmlDeviceGetCurrPcieLinkWidth))
    most = (ask(library.nvmlDeviceGetMaxPcieLinkGeneration), ask(library.nvmlDeviceGetMaxPcieLinkWidth))
    return Gpu(
        index=index,
        name=state.name,
        memory_bytes=None if memory is None else int(memory.total),
        sm_clock_mhz=ask(library.nvmlDeviceGetMaxClockInfo, library.NVML_CLOCK_SM),
        memory_clock_mhz=ask(library.nvmlDeviceGetMaxClockInfo, library.NVML_CLOCK_MEM),
        power_limit_w=state.power_limit_w,
        pcie=f"gen {now[0]} x{now[1]} (max gen {most[0]} x{most[1]})" if None not in (*now, *most) else "",
        processes=len(state.processes),
    )


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
        topology=read_topology(),
        versions=read_versions(),
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
