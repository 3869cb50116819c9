"""doctor: what this machine has and lacks for each phase, and how to get it."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import click

from campaign.errors import CampaignError
from campaign.runner.opening import engine_version, read_device


@click.command()
@click.pass_obj
def doctor(obj: dict[str, Any]) -> int:
    """What this machine has and lacks for each phase, and how to get it."""
    for mark, what, remedy in findings(obj):
        click.echo(f"{mark} {what}" + (f"\n    {remedy}" if remedy else ""))
    return 0


def findings(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(mark, what, remedy): ● is there, ○ is missing."""
    found = []
    device = read_device()
    engine = engine_version()
    is_gpu = device.kind == "cuda"
    found.append(("●", f"device: {device.name}" + (f", driver {device.driver}" if is_gpu else ", no GPU answers"), ""))
    remedy = "make setup installs the vLLM that fits this machine"
    found.append(_row(engine != "not installed", f"vLLM {engine}: macro, profile (a server of our own)", remedy))
    has_torch = importlib.util.find_spec("torch") is not None
    found.append(_row(has_torch, "torch: gemm, attention, collectives", remedy))
    compiler = shutil.which("g++") or shutil.which("clang++")
    what = f"C++ compiler {compiler or ''}: compiled mode on a CPU, Triton on a GPU".replace(" :", ":")
    found.append(_row(compiler is not None, what, "apt-get install g++ (without one the CPU server runs eager)"))
    has_isal = importlib.util.find_spec("isal") is not None
    found.append(_row(has_isal, "isal: gzip of traces at three times the speed", "pip install isal"))
    if is_gpu:
        smi = shutil.which("nvidia-smi") is not None
        found.append(_row(smi, "nvidia-smi: topology in the environment phase", "part of the NVIDIA driver's tools"))
    free_gib = shutil.disk_usage(obj["dir"] if obj["dir"].exists() else ".").free / 2**30
    found.append(_row(free_gib > 10, f"free disk here: {free_gib:.0f} GiB (traces take gigabytes)", "free some disk"))
    return [*found, *_campaign(obj)]


def _campaign(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    from campaign.phases.catalog import KINDS
    from campaign.runner.opening import OpenCampaign

    try:
        campaign = OpenCampaign(obj["dir"], KINDS)
        wanted = campaign.wanted(campaign.store.new_state())
    except CampaignError as error:
        return [("○", "campaign.toml", str(error))]
    return [_row(not want.blocked, f"phase {want.id}", want.blocked or "") for want in wanted]


def _row(is_there: bool, what: str, remedy: str) -> tuple[str, str, str]:
    return ("●", what, "") if is_there else ("○", what, remedy)
