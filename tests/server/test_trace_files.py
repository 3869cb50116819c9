"""Whether a trace file is whole."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from campaign.errors import ServerError
from campaign.server import trace_files

JSON = b'{"traceEvents": [' + b",".join(b'{"name": "x", "ts": %d}' % i for i in range(50_000)) + b"]}"


def test_fault__whole_cut_and_grown(tmp_path: Path) -> None:
    data = gzip.compress(JSON)
    path = tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.17.pt.trace.json.gz"
    path.write_bytes(data)
    assert trace_files.fault(path) is None
    for cut in (0, 5, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        assert trace_files.fault(path) is not None, cut
    for text in (JSON[:-2], JSON[:-1], JSON[:1000], b""):
        path.write_bytes(gzip.compress(text))
        assert trace_files.fault(path) == "JSON does not end"
    path.write_bytes(gzip.compress(JSON.replace(b'"x"', b'"}]\\\\\\"{["').replace(b"},", b"},\n")))
    assert trace_files.fault(path) is None
    path.write_bytes(data[:100] + bytes([data[100] ^ 255]) + data[101:])
    assert trace_files.fault(path) is not None


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("dp0_pp0_tp1_dcp0_ep1_rank1.1795960871419139703.pt.trace.json.gz", 1),
        ("mine_dp0_pp0_tp11_dcp0_ep1_rank11.17.pt.trace.json.gz", 11),
        ("host_1234-rank-3.1795.pt.trace.json.gz", 3),
        ("host_1234.async_llm.1795.pt.trace.json.gz", None),
    ],
)
def test_rank__names_of_all_releases(name: str, rank: int | None, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert [trace_files.rank(path) for path in trace_files.traces(tmp_path)] == ([] if rank is None else [rank])


def test_by_rank__newest_of_each(tmp_path: Path) -> None:
    old, new, other = (tmp_path / f"rank{n}.pt.trace.json" for n in ("0.1", "0.2", "1.1"))
    for index, path in enumerate((old, new, other)):
        path.touch()
        os.utime(path, (index, index))
    assert trace_files.by_rank([new, other, old]) == {0: new, 1: other}


def test_space__told_where_and_how_much(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=rf"{tmp_path} has \d+ MiB free; \d+ MiB are wanted for traces"):
        trace_files.check_space(tmp_path, 1 << 60, "traces")
    trace_files.check_space(tmp_path, 1, "traces")
