"""What nvidia-smi and NVML tell of GPUs, and what is said where they tell nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign import gpus
from campaign.gpus import asker, every_gpu, nvml, read_gpu, read_topology, visible_gpus


def with_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name first on the path."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


def test_read_topology__is_what_the_tool_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_smi(tmp_path, 'echo "asked: $*"; echo', monkeypatch)
    assert read_topology() == "asked: topo -m"


def test_read_topology__empty_where_the_tool_fails_hangs_or_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_smi(tmp_path, "echo no devices were found; exit 6", monkeypatch)
    assert read_topology() == ""
    monkeypatch.setattr(gpus, "SMI_TIMEOUT_S", 0.2)
    with_smi(tmp_path, "exec sleep 30", monkeypatch)
    assert read_topology() == ""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert read_topology() == ""


def test_nvml__shows_the_visible_gpus_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with nvml() as library:
        if library is None:
            return  # no driver here: that the block runs and says so is all there is to see
        every = every_gpu(library)
        assert [index for index, _ in every] == list(range(len(every)))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,7777,0")
        assert [index for index, _ in visible_gpus(library)] == [0]
        reading = read_gpu(library, *every[0])
        assert reading.name
        ask = asker(library, every[0][1])
        assert ask(library.nvmlDeviceGetMemoryInfo).total > 0
        assert ask(library.nvmlDeviceGetNvLinkState, 10_000) is None
