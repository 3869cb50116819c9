"""nsys exports: the same figures as from a Chrome trace of the same run."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from campaign.errors import TraceError
from campaign.trace import analyze
from tests.trace import generator
from tests.trace.generator import KERNELS, Run, Shape


def write_sqlite(run: Run, path: Path) -> Path:
    """The tables of an export that matter here, one device a rank."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, demangledName INTEGER, shortName INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
            correlationId INTEGER, bytes INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
            correlationId INTEGER, nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER,
            textId INTEGER);
        """
    )
    ids: dict[str, int] = {}
    mine = run.ranks[0]
    for event in mine.events:
        row = (event.start, event.end, 0, event.stream, event.correlation)
        if event.key in ("copy", "fill"):
            connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?,?,?,?,?,4)", row)
        else:
            name = ids.setdefault(KERNELS[event.key][0], len(ids))
            connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,?,?,?,0)", (*row, name))
    for name_text, start, duration, correlation in mine.launches:
        name = ids.setdefault(name_text + "_v10000", len(ids))
        call = (start, start + duration, 800, correlation, name)
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?,?)", call)
    for label, start, duration in mine.annotations:
        name = ids.setdefault(label, len(ids))
        connection.execute("INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,800,?)", (start, start + duration, name))
    connection.executemany("INSERT INTO StringIds VALUES (?,?)", [(n, text) for text, n in ids.items()])
    connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200')")
    connection.commit()
    connection.close()
    return path


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
    assert "--cuda-graph-trace=node" in analyze([path]).ranks[0].problems[0]


def test_nsys__another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (a INTEGER)")
    with pytest.raises(TraceError, match="holds no kernels"):
        analyze([path])
