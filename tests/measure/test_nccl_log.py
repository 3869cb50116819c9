"""NCCL's account of its choices, in the words of old and new versions."""

from __future__ import annotations

from pathlib import Path

from campaign.measure.nccl_log import read_choices, variables

NEW = """\
host:71:71 [0] NCCL INFO AllReduce: 14336 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}
host:71:71 [0] NCCL INFO AllReduce: 67108864 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}
host:71:71 [0] NCCL INFO AllReduce: 14336 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}
"""
OLD = "host:9:9 [1] NCCL INFO AllReduce: 1024 Bytes -> Algo 1 proto 0 time 8.113000\n"


def test_read_choices__each_size_once_with_names_for_numbers(tmp_path: Path) -> None:
    (tmp_path / "nccl.host.71.log").write_text(NEW)
    (tmp_path / "nccl.host.9.log").write_text(OLD)
    found = [(c.operation, c.size_bytes, c.algorithm, c.protocol) for c in read_choices(tmp_path)]
    assert found == [
        ("AllReduce", 1024, "Ring", "LL"),
        ("AllReduce", 14336, "RING", "LL"),
        ("AllReduce", 67108864, "NVLS", "SIMPLE"),
    ]


def test_read_choices__silence_is_no_choice(tmp_path: Path) -> None:
    (tmp_path / "nccl.host.71.log").write_text("host:71:71 [0] NCCL INFO Connected all rings\n")
    assert read_choices(tmp_path) == ()
    assert variables(tmp_path)["NCCL_DEBUG_FILE"].startswith(str(tmp_path))
