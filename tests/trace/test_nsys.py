"""nsys exports: the same figures as from a Chrome trace of the same run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from campaign.errors import TraceError
from campaign.trace import analyze
from campaign.trace.perfetto import export_step
from tests.trace import generator
from tests.trace.files import SCHEMAS, write_sqlite
from tests.trace.generator import Shape
from tests.trace.test_ground_truth import assert_run


@pytest.mark.parametrize("seed", range(4))
def test_nsys__gives_what_the_chrome_trace_gives(seed: int, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=seed, steps=12, is_graph=seed % 2 == 0))
    chrome = analyze(generator.write(run, tmp_path), trim=0)
    nsys = analyze([write_sqlite(run, tmp_path / "report.sqlite")], trim=0)
    assert nsys.decode is not None
    assert chrome.decode is not None
    assert nsys.decode.categories == chrome.decode.categories
    assert nsys.decode.wall_ms == chrome.decode.wall_ms
    assert nsys.decode.idle == chrome.decode.idle
    assert nsys.ranks[0].device_name == "NVIDIA H200"


def test_nsys__graphs_traced_whole_are_a_problem(tmp_path: Path) -> None:
    path = write_sqlite(generator.simulate(Shape(seed=1)), tmp_path / "report.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER)")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1, 2)")
    assert "1 CUDA graphs were traced whole" in " ".join(analyze([path]).ranks[0].problems)


def test_nsys__another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(TraceError, match="holds no kernels"):
        analyze([path])


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("is_one_gpu", [False, True])
def test_nsys__processes_are_ranks_equal_to_their_truth(schema: str, is_one_gpu: bool, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=7, ranks=3, steps=12, batches=(4, 16), slow_rank=2, has_fragment=False))
    path = write_sqlite(run, tmp_path / "report.sqlite", schema=SCHEMAS[schema], is_one_gpu=is_one_gpu)
    found = analyze([path], trim=0)
    assert [rank.rank for rank in found.ranks] == [0, 1, 2]
    assert_run(run, found)
    assert found.skew.slowest_rank == 2


def test_nsys__a_step_is_written_for_perfetto(tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=7, ranks=2, steps=12, prefill_every=0, has_fragment=False))
    path = write_sqlite(run, tmp_path / "report.sqlite")
    count = sum(1 for event in run.ranks[0].events if event.step == 5)
    assert export_step(path, tmp_path / "step.json") == count


def test_nsys__two_nodes_are_not_taken_for_two_profiles_of_one(tmp_path: Path) -> None:
    schema = SCHEMAS["2022"]  # names no processes: ranks are numbered file by file
    for node in range(2):
        run = generator.simulate(Shape(seed=node, ranks=2, steps=6, has_fragment=False))
        write_sqlite(run, tmp_path / f"node{node}.sqlite", schema=schema)
    found = analyze([tmp_path], trim=0)
    assert [rank.rank for rank in found.ranks] == [0, 1, 2, 3]
    assert found.skipped_files == ()


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId", "CUPTI_ACTIVITY_KIND_KERNEL has no correlationId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "streamId", "has no streamId"),
        ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName", ""),
        ("NVTX_EVENTS", "textId", ""),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "end", "CUPTI_ACTIVITY_KIND_RUNTIME has no end"),
    ],
)
def test_nsys__a_missing_column_is_tolerated_and_said(table: str, column: str, text: str, tmp_path: Path) -> None:
    schema = dict(SCHEMAS["2025"])
    schema[table] = " ".join(one for one in schema[table].split() if one != column)
    if column == "demangledName":
        schema[table] = schema[table].replace("shortName ", "")
    run = generator.simulate(Shape(seed=2, steps=12, layers=8, prefill_every=0, has_fragment=False, overlap=0.0))
    found = analyze([write_sqlite(run, tmp_path / "report.sqlite", schema=schema)], trim=0)
    assert text in " ".join(found.ranks[0].problems)
    assert found.steps.decode.count == 12
    if not text:
        assert_run(run, found)


@pytest.mark.parametrize("table", ["StringIds", "TARGET_INFO_GPU", "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_MEMCPY"])
def test_nsys__a_missing_table_is_no_exception(table: str, tmp_path: Path) -> None:
    schema = {name: columns for name, columns in SCHEMAS["2025"].items() if name != table}
    run = generator.simulate(Shape(seed=1, steps=8))
    assert analyze([write_sqlite(run, tmp_path / "report.sqlite", schema=schema)], trim=0).ranks[0].events > 100


def test_nsys__rows_without_times_are_counted(tmp_path: Path) -> None:
    path = write_sqlite(generator.simulate(Shape(seed=1)), tmp_path / "report.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId) VALUES (NULL, 5, 0)")
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId) VALUES ('x', 5, 0)")
    assert "2 rows without whole times" in " ".join(analyze([path]).ranks[0].problems)


def test_nsys__graphs_traced_whole_stand_as_device_time_of_no_category(tmp_path: Path) -> None:
    columns = "start end deviceId streamId correlationId graphId globalPid"
    schema = SCHEMAS["2025"] | {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE": columns}
    run = generator.simulate(Shape(seed=1, steps=12, prefill_every=0))
    path = write_sqlite(run, tmp_path / "report.sqlite", schema=schema)
    with sqlite3.connect(path) as connection:
        inside = "FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY correlationId HAVING COUNT(*) > 5"
        connection.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE "
            f"SELECT MIN(start), MAX(end), deviceId, 7, correlationId, 1, globalPid {inside}"
        )
        connection.execute(
            f"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId IN (SELECT correlationId {inside})"
        )
    found = analyze([path], trim=0)
    assert "12 CUDA graphs were traced whole" in " ".join(found.ranks[0].problems)
    assert found.decode is not None
    assert found.decode.unclassified[0].name == "CUDA graph (traced whole)"
    assert (found.decode.unclassified_share or 0) > 0.5
