"""Several devices or processes in one file: each device is a rank, equal to its truth to the nanosecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from campaign.cli.trace import analysis_text
from campaign.trace import TraceAnalysis, analyze
from tests.trace import generator
from tests.trace.files import Row, merged, one_process, rows_of
from tests.trace.generator import Run, Shape
from tests.trace.test_ground_truth import assert_equal, assert_run


def analysis_of(rows: list[Row], head: dict[str, Any], folder: Path, layout: str) -> TraceAnalysis:
    path = folder / "rank0.1.pt.trace.json"
    path.write_text(generator.render(rows, head, layout))
    return analyze([path], trim=0)


def run_of(seed: int) -> Run:
    shape = Shape(
        seed=seed, ranks=2 + seed % 2, steps=11, batches=(4, 16), is_graph=seed % 2 == 0, slow_rank=1,
        has_fragment=False, is_async=seed % 3 == 0,
    )  # fmt: skip
    return generator.simulate(shape)


@pytest.mark.parametrize("seed", range(6))
def test_devices__of_one_process_are_ranks_equal_to_their_truth(seed: int, tmp_path: Path) -> None:
    run = run_of(seed)
    found = analysis_of(one_process(run), generator.header(run, 0), tmp_path, generator.LAYOUTS[seed])
    assert [rank.rank for rank in found.ranks] == list(range(len(run.ranks)))
    assert [rank.device_number for rank in found.ranks] == list(range(len(run.ranks)))
    assert "each is shown as a rank" in " ".join(found.ranks[0].notes)
    assert_run(run, found)


@pytest.mark.parametrize("seed", range(4))
def test_devices__of_a_merged_file_keep_their_own_launches(seed: int, tmp_path: Path) -> None:
    run = run_of(seed)
    found = analysis_of(merged(run), generator.header(run, 0), tmp_path, "dump")
    assert [rank.rank for rank in found.ranks] == list(range(len(run.ranks)))
    assert_run(run, found)


@pytest.mark.parametrize("seed", range(4))
def test_devices__driven_by_one_thread_share_its_annotations(seed: int, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=seed, steps=10, is_graph=seed % 2 == 0, has_fragment=False))
    rows = rows_of(run, 0)
    second = []
    for row in rows:
        arguments = {**row.get("args", {})}
        if row.get("ph") == "X" and "correlation" in arguments:
            arguments["correlation"] += 1_000_000
            is_host = row["cat"] == "cuda_runtime"
            at = {"ts": row["ts"] + (100 if is_host else 777), "pid": row["pid"] if is_host else 1}
            second.append({**row, **at, "args": arguments})
    found = analysis_of(rows + second, generator.header(run, 0), tmp_path, "lines")
    assert [rank.device_number for rank in found.ranks] == [0, 1]
    truth = generator.truth(run, 0)
    for rank in found.ranks:
        assert rank.decode is not None
        assert rank.problems == ()
        assert_equal(rank.decode, truth)
        assert rank.decode.host.launches_per_step == found.ranks[0].decode.host.launches_per_step  # type: ignore[union-attr]


def test_devices__are_told_apart_in_the_text(tmp_path: Path) -> None:
    run = run_of(2)
    text = analysis_text(analysis_of(one_process(run), generator.header(run, 0), tmp_path, "lines"))
    assert "1: rank0.1.pt.trace.json" in text
    assert ", device 1" in text
    assert text.count("note: the file holds the kernels of 2 devices") == 1


def test_devices__a_stray_context_on_another_device_makes_no_rank(tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=3, steps=14, layers=4))
    rows = generator.chrome_events(run, 0)
    kernels = [row for row in rows if row.get("cat") == "kernel"]
    for row in kernels[100:102]:
        row["pid"] = 5
    found = analysis_of(rows, generator.header(run, 0), tmp_path, "lines")
    assert [(rank.rank, rank.device_number) for rank in found.ranks] == [(0, 0)]
    assert "2 events on devices that run hardly a kernel" in " ".join(found.ranks[0].notes)
    assert_run(run, found)
