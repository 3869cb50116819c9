"""How this machine's GPUs are linked, as NVML tells: NVLinks and their speed, PCIe, who reaches whom directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from campaign.gpus import asker, nvml, visible_gpus
from campaign.model import Link, find_device

#: GB/s of one lane and direction by PCIe generation (PCI-SIG: transfer rate less line coding).
PCIE_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
#: Links that any GPU has at most.
LINKS_AT_MOST = 18
#: One hop, µs, where no data sheet's link is known by the GPU's name.
NVLINK_LATENCY_US, PCIE_LATENCY_US = 0.6, 1.07

#: nvml.h's numbers: the Python binding has them as tuples (`2,`), which no call takes.
P2P_CAPS_INDEX_READ, P2P_CAPS_INDEX_NVLINK, P2P_STATUS_OK = 0, 2, 0


class GpuLinks(msgspec.Struct, frozen=True, kw_only=True):
    """The links of one GPU; None = the driver does not tell."""

    index: int
    """Index among the machine's GPUs."""
    nvlinks: int | None = None
    """Active NVLinks."""
    nvlink_gb_s: float | None = None
    """One of them, one direction, line rate."""
    nvlink_peers: tuple[int, ...] = ()
    """GPUs that are reached over NVLink."""
    p2p_peers: tuple[int, ...] = ()
    """GPUs whose memory is read directly, whichever way."""
    pcie_generation: int | None = None
    """Highest generation of GPU and slot together."""
    pcie_width: int | None = None
    """Lanes."""

    @property
    def nvlink_total_gb_s(self) -> float | None:
        """All active NVLinks together, one direction."""
        return self.nvlinks * self.nvlink_gb_s if self.nvlinks and self.nvlink_gb_s else None


def read_links() -> tuple[GpuLinks, ...]:
    """Links of the visible GPUs; empty where no driver answers."""
    with nvml() as library:
        if library is None:
            return ()
        handles = visible_gpus(library)
        return tuple(_read(library, index, handle, handles) for index, handle in handles)


def _read(library: Any, index: int, handle: Any, every: list[tuple[int, Any]]) -> GpuLinks:
    ask = asker(library, handle)

    def reaches(other: Any, capability: int) -> bool:
        return bool(ask(library.nvmlDeviceGetP2PStatus, other, capability) == P2P_STATUS_OK)

    others = [pair for pair in every if pair[0] != index]
    states = [ask(library.nvmlDeviceGetNvLinkState, link) for link in range(LINKS_AT_MOST)]
    known = [state for state in states if state is not None]
    return GpuLinks(
        index=index,
        nvlinks=sum(1 for state in known if state) if known else None,
        nvlink_gb_s=_nvlink_speed(library, ask),
        nvlink_peers=tuple(i for i, other in others if reaches(other, P2P_CAPS_INDEX_NVLINK)),
        p2p_peers=tuple(i for i, other in others if reaches(other, P2P_CAPS_INDEX_READ)),
        pcie_generation=ask(library.nvmlDeviceGetMaxPcieLinkGeneration),
        pcie_width=ask(library.nvmlDeviceGetMaxPcieLinkWidth),
    )


def _nvlink_speed(library: Any, ask: Callable[..., Any]) -> float | None:
    """GB/s of one link; newer drivers tell it for all at once, older ones for the first."""
    for field in (library.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON, library.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0):
        answers = ask(library.nvmlDeviceGetFieldValues, [field])
        if answers and answers[0].nvmlReturn == 0 and answers[0].value.uiVal > 0:
            return float(answers[0].value.uiVal) / 1e3
    return None


def link_of(links: tuple[GpuLinks, ...], device_name: str) -> Link | None:
    """The link that a group of these GPUs talks over: as NVML tells it, else by the GPU's name.

    Latency of a hop is the data sheet link's in any case: no driver tells it.
    """
    known = find_device(device_name)
    by_name = known.link if known is not None else None
    first = links[0] if links else None
    if first is None or len(links) < 2:
        return by_name
    is_nvlink = all(len(gpu.nvlink_peers) == len(links) - 1 for gpu in links)
    totals = [gpu.nvlink_total_gb_s for gpu in links]
    if is_nvlink and all(total is not None for total in totals):
        latency = by_name.latency_us if by_name is not None else NVLINK_LATENCY_US
        name = f"NVLink {first.nvlinks} × {first.nvlink_gb_s:g} GB/s (NVML)"
        return Link(name=name, bandwidth_gb_s=min(t for t in totals if t is not None), latency_us=latency)
    has_nvlink = any(gpu.nvlink_peers for gpu in links)
    lane = PCIE_LANE_GB_S.get(first.pcie_generation or 0)
    if is_nvlink or has_nvlink or lane is None or first.pcie_width is None:
        return by_name
    name = f"PCIe {first.pcie_generation} x{first.pcie_width} (NVML)"
    return Link(name=name, bandwidth_gb_s=lane * first.pcie_width, latency_us=PCIE_LATENCY_US)


def describe_links(links: tuple[GpuLinks, ...]) -> str:
    """The links of each GPU in words; empty without any."""
    lines = []
    for gpu in links:
        nvlink = f"{gpu.nvlinks} NVLinks" + (f" of {gpu.nvlink_gb_s:g} GB/s" if gpu.nvlink_gb_s else "")
        parts = [nvlink if gpu.nvlinks else "no NVLink" if gpu.nvlinks == 0 else ""]
        parts.append(f"NVLink to {', '.join(map(str, gpu.nvlink_peers))}" if gpu.nvlink_peers else "")
        parts.append(f"direct access to {', '.join(map(str, gpu.p2p_peers))}" if gpu.p2p_peers else "no direct access")
        parts.append(f"PCIe {gpu.pcie_generation} x{gpu.pcie_width}" if gpu.pcie_generation else "")
        lines.append(f"GPU {gpu.index}: {', '.join(part for part in parts if part)}")
    return "; ".join(lines)
