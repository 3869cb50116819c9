"""Links of GPUs: what NVML's answers make of the floor's link."""

from __future__ import annotations

import pytest

from campaign.host import read_state
from campaign.links import GpuLinks, describe_links, link_of, read_links


def nvlinked(index: int, **changes: object) -> GpuLinks:
    told = {"index": index, "nvlinks": 18, "nvlink_gb_s": 26.562, "nvlink_peers": (1 - index,)}
    told |= {"p2p_peers": (1 - index,), "pcie_generation": 5, "pcie_width": 16}
    return GpuLinks(**(told | changes))  # type: ignore[arg-type]


def test_link_of__nvlinks_count_times_their_speed() -> None:
    link = link_of((nvlinked(0), nvlinked(1)), "NVIDIA H200")
    assert link is not None
    assert link.name == "NVLink 18 × 26.562 GB/s (NVML)"
    assert link.bandwidth_gb_s == pytest.approx(478.116)
    assert link.latency_us == 0.6


def test_link_of__pcie_by_generation_and_lanes_where_there_is_no_nvlink() -> None:
    plain = {"nvlinks": None, "nvlink_gb_s": None, "nvlink_peers": ()}
    link = link_of((nvlinked(0, **plain), nvlinked(1, **plain)), "NVIDIA RTX PRO 6000 Blackwell")
    assert link is not None
    assert link.name == "PCIe 5 x16 (NVML)"
    assert link.bandwidth_gb_s == pytest.approx(63.008)


def test_link_of__a_silent_driver_leaves_the_data_sheet() -> None:
    silent = tuple(GpuLinks(index=index) for index in range(2))
    assert link_of(silent, "NVIDIA H200") == link_of((), "NVIDIA H200")
    named = link_of((), "NVIDIA H200")
    assert named is not None
    assert named.name == "NVLink 4"
    assert link_of(silent, "a stranger") is None


def test_link_of__nvlink_among_some_only_is_not_told_apart() -> None:
    bridged = (nvlinked(0), nvlinked(1), nvlinked(2, nvlink_peers=()))
    assert link_of(bridged, "a stranger") is None


def test_describe_links__says_who_reaches_whom() -> None:
    assert describe_links((nvlinked(0),)) == (
        "GPU 0: 18 NVLinks of 26.562 GB/s, NVLink to 1, direct access to 1, PCIe 5 x16"
    )
    assert describe_links(()) == ""


def test_read_links__one_for_each_visible_gpu() -> None:
    assert [gpu.index for gpu in read_links()] == [gpu.index for gpu in read_state().gpus]
