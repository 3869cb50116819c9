"""The collectives phase over gloo on this machine, with real processes that are really stopped and killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from campaign import schema
from campaign.measurement import read_points
from campaign.model.devices import PCIE5
from campaign.phases.collectives import KIND
from campaign.phases.collectives_data import (
    CollectivePoint,
    CollectivesConfig,
    CollectivesData,
    Environment,
    NcclChoice,
)
from campaign.phases.collectives_table import (
    CollectiveRow,
    bus_factor,
    choices_of,
    fit_of,
    rows_of,
    slowest,
    unmeasured_of,
)
from tests.measure.scripts import analyze, configure, context_of, render, run, start, values


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives__all_operations_are_right_on_all_ranks(ranks: int, tmp_path: Path) -> None:
    context = context_of("tiny-deepseek", tp=ranks)
    config = configure(KIND, context, samples=3, sizes_bytes=[65536])
    assert isinstance(config, CollectivesConfig)
    result, _ = run(KIND, config, tmp_path)
    data = schema.decode(result.data, CollectivesData)
    assert len(data.points) == len(KIND.points(config))
    for point in data.points:
        assert [rank.rank for rank in point.ranks] == list(range(ranks))
        assert all(rank.is_correct and len(rank.us) == 3 for rank in point.ranks), point
    analysis = analyze(KIND, result, context)
    found = values(analysis)
    assert found["collectives.burst_calls"] == found["model.allreduces_per_step"] == 9
    assert found["collectives.message_bytes"] == 512
    burst_ms, each_us = found["collectives.burst_ms"], found["collectives.burst_us_per_call"]
    assert burst_ms is not None
    assert each_us == pytest.approx(burst_ms * 1e3 / 9)
    assert "say nothing of a GPU" in render(KIND, analysis)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A measurement that goes on for a while, and the pids of its ranks."""
    parameters = {"samples": 150, "sizes_bytes": [1 << 22], "operations": ["all_reduce"], "timeout_s": 4.0}
    config = configure(KIND, context_of("tiny-deepseek", tp=2), **parameters)
    process = start(KIND, config, tmp_path)
    assert process.stderr is not None
    pids: list[int] = []
    for line in process.stderr:
        pids = pids or [int(pid) for pid in re.findall(r"\d=(\d+)", line)]
        if "burst done" in line:
            break
    yield process, pids
    if process.poll() is None:
        process.kill()
    process.wait()
    process.stderr.close()


def assert_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.05)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


@pytest.mark.parametrize(
    ("number", "words"),
    [(signal.SIGKILL, ["rank 1 of 2 was killed by SIGKILL"]), (signal.SIGSTOP, ["rank 1 of 2 hung", "is stopped"])],
)
def test_collectives__a_failed_rank_is_named_and_all_are_ended(
    running: tuple[subprocess.Popen[str], list[int]], number: signal.Signals, words: list[str], tmp_path: Path
) -> None:
    process, pids = running
    os.kill(pids[1], number)
    _, log = process.communicate(timeout=30)
    assert process.returncode == 3
    assert all(word in log for word in words), log
    assert_gone(pids)
    kept = {p.key for p in read_points(tmp_path / "result.points.jsonl")}
    assert "torch.burst" in kept
    assert not (tmp_path / "result.json").exists()


def test_collectives__ranks_do_not_outlive_a_killed_script(
    running: tuple[subprocess.Popen[str], list[int]],
) -> None:
    process, pids = running
    assert len(pids) == 2
    process.kill()
    process.wait()
    assert_gone(pids)


def test_collectives__a_path_on_which_a_rank_dies_is_left_out_and_the_rest_measured(tmp_path: Path) -> None:
    parameters = {"samples": 3, "sizes_bytes": [], "operations": ["all_reduce"], "backends": ["pynccl", "torch"]}
    process = start(KIND, configure(KIND, context_of("tiny-deepseek", tp=2), **parameters), tmp_path)
    assert process.stderr is not None
    pids: list[int] = []
    for line in process.stderr:
        pids = [int(pid) for pid in re.findall(r"\d=(\d+)", line)]
        if pids:
            break
    os.kill(pids[1], signal.SIGKILL)
    log = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0, log
    assert "rank 1 of 2 was killed by SIGKILL" in log
    assert "Going on without pynccl." in log
    result = schema.decode((tmp_path / "result.json").read_bytes(), schema.Result)
    points = {point.backend: point for point in schema.decode(result.data, CollectivesData).points}
    assert all("killed by SIGKILL" in rank.note and not rank.us for rank in points["pynccl"].ranks)
    assert all(rank.is_correct and rank.us for rank in points["torch"].ranks)
    assert_gone(pids)


def test_collectives__tp_1_is_blocked_with_a_reason() -> None:
    assert KIND.blocked_by(context_of("tiny-deepseek", tp=1)) == (
        "TP 1 has no collectives: one rank holds the whole model."
    )
    assert KIND.blocked_by(context_of("tiny-deepseek", tp=2)) is None


def test_slowest__takes_the_slowest_rank_of_each_iteration() -> None:
    assert slowest([[1.0, 9.0], [5.0, 2.0]]) == [5.0, 9.0]


def test_bus_factor__follows_nccl_tests() -> None:
    assert bus_factor("all_reduce", 8) == pytest.approx(1.75)
    assert bus_factor("all_gather", 8) == pytest.approx(0.875)


def row(size_bytes: int, us: float) -> CollectiveRow:
    empty = dict.fromkeys(CollectiveRow.__struct_fields__) | {"note": ""}
    made = empty | {"backend": "torch", "operation": "all_reduce", "size_bytes": size_bytes, "us": us}
    return msgspec.convert(made, CollectiveRow)


def test_fit__finds_latency_and_bandwidth() -> None:
    rows = [row(size, 5.0 + size / 50e3) for size in (1 << 10, 1 << 15, 1 << 20, 1 << 25)]
    fit = fit_of(rows, "torch")
    assert fit is not None
    assert fit.alpha_us == pytest.approx(5.0)
    assert fit.beta_gb_s == pytest.approx(50.0)


def gpu_point(**changes: object) -> CollectivePoint:
    rank = {"rank": 0, "us": [30.0, 40.0], "graph_us": [20.0, 22.0], "is_correct": True, "kernel_us": 6.0}
    kernels = ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"]
    ranks = [rank | {"kernels": kernels}, rank | {"rank": 1, "graph_us": [25.0, 21.0], "kernel_us": 9.0} | changes]
    made = {"backend": "pynccl", "operation": "all_reduce", "size_bytes": 14336, "calls": 20, "ranks": ranks}
    return msgspec.convert(made, CollectivePoint)


def test_rows__graph_kernel_and_link_floor_stand_beside_each_other() -> None:
    environment = Environment(library="NCCL 2.28.9", link=PCIE5, device_name="x")
    (found,) = rows_of(CollectivesData(environment=environment, points=(gpu_point(),)), 2)
    assert (found.us, found.graph_us, found.kernel_us) == (35.0, 23.5, 6.0)
    assert found.algbw_gb_s == pytest.approx(14336 / 23.5e-6 / 1e9)
    assert found.busbw_gb_s == found.algbw_gb_s
    assert found.floor_us == pytest.approx(1.07 + 14336 / 56e3)
    assert found.note == "kernel ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def test_rows__a_wrong_result_on_one_rank_is_refused() -> None:
    data = CollectivesData(environment=Environment(), points=(gpu_point(is_correct=False),))
    (found,) = rows_of(data, 2)
    assert found.note == "refused: wrong result on rank 1"
    assert found.us is None
    assert found.busbw_gb_s is None


def test_unmeasured__a_path_says_its_reason_once() -> None:
    absent = [msgspec.structs.replace(row(size, 1.0), us=None, note="not measured: too large") for size in (1024, 2048)]
    custom = [msgspec.structs.replace(one, backend="custom") for one in absent]
    refused = msgspec.structs.replace(absent[0], note="refused: wrong result on rank 1")
    assert unmeasured_of([row(512, 1.0), *absent, *custom, refused]) == (
        "torch, not measured (all_reduce of 1,024, 2,048 bytes): too large",
        "custom, not measured: too large",
    )


def test_choices__stand_by_stretches_of_sizes() -> None:
    choices = [
        NcclChoice(operation="AllReduce", size_bytes=size, algorithm="Ring", protocol="LL" if size < 9000 else "Simple")
        for size in (4, 1024, 8192, 65536)
    ]
    assert choices_of(choices, (1024, 8192, 65536)) == (
        "AllReduce of 1,024 to 8,192 bytes: Ring, LL",
        "AllReduce of 65,536 bytes: Ring, Simple",
    )


def test_fit__two_sizes_are_not_enough() -> None:
    assert fit_of([row(1024, 5.0), row(2048, 6.0)], "torch") is None


@pytest.mark.proof
def test_collectives__a_path_that_does_not_load_is_a_note(tmp_path: Path) -> None:
    context = context_of("tiny-deepseek", tp=2)
    parameters = {"samples": 3, "sizes_bytes": [], "operations": ["all_reduce"], "backends": ["pynccl", "torch"]}
    result, _ = run(KIND, configure(KIND, context, **parameters), tmp_path)
    analysis = analyze(KIND, result, context)
    rows = schema.builtins(analysis.view)["bursts"]
    assert rows[0]["note"].startswith("not measured: ")
    assert rows[0]["ms"] is None
    assert rows[1]["ms"] > 0
    assert values(analysis)["collectives.burst_ms"] == rows[1]["ms"]
    assert "not measured" in render(KIND, analysis)
