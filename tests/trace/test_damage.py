"""Damaged and unusual files: read right, or right on what remains with the loss counted; never a traceback."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest

from campaign.errors import TraceError
from campaign.trace import TraceAnalysis, analyze, careful
from tests.trace import generator
from tests.trace.damage import HEAD, LOSS, ROWS, RUN, SAME, SECRET, TEXT, whole_events_of
from tests.trace.generator import Shape


def analysis_of(data: bytes, folder: Path, name: str = "rank0.1.pt.trace.json") -> TraceAnalysis:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return analyze([folder / name], trim=0)


def figures(analysis: TraceAnalysis) -> Any:
    """What must not change: everything of the decode step but the kernels' spelling."""
    decode = analysis.decode
    assert decode is not None
    return decode.wall_ms, decode.idle, decode.categories, decode.steps, analysis.steps.decode, analysis.steps.prefill


def problems(analysis: TraceAnalysis) -> str:
    return " | ".join((*analysis.problems, *(p for rank in analysis.ranks for p in rank.problems)))


@pytest.mark.parametrize("kind", SAME)
def test_damage__read_as_if_nothing_were_wrong(kind: str, tmp_path: Path) -> None:
    reference = analysis_of(TEXT.encode(), tmp_path / "whole")
    found = analysis_of(SAME[kind](), tmp_path)
    assert figures(found) == figures(reference)
    assert problems(found) == ""


@pytest.mark.parametrize("kind", LOSS)
def test_damage__right_on_the_rest_and_the_loss_is_counted(kind: str, tmp_path: Path) -> None:
    reference = analysis_of(TEXT.encode(), tmp_path / "whole")
    data, text = LOSS[kind]
    found = analysis_of(data(), tmp_path)
    assert figures(found) == figures(reference)
    assert text in problems(found)


@pytest.mark.parametrize("share", [0.99, 0.9, 0.75, 0.6])
def test_damage__cut_text_gives_what_is_whole(share: float, tmp_path: Path) -> None:
    cut = TEXT[: TEXT.index('"ts": ', int(len(TEXT) * share)) + 12]
    found, whole = analysis_of(cut.encode(), tmp_path), analysis_of(whole_events_of(cut), tmp_path / "whole")
    assert "it is cut" in problems(found)
    assert figures(found) == figures(whole)
    assert found.ranks[0].whole == whole.ranks[0].whole


@pytest.mark.parametrize("lost", [1, 10, 400, 5000])
def test_damage__cut_gzip_gives_what_is_whole_and_says_so(lost: int, tmp_path: Path) -> None:
    data = gzip.compress(TEXT.encode(), 1)
    found = analysis_of(data[:-lost], tmp_path, "rank0.pt.trace.json.gz")
    assert "ends early" in problems(found)
    if lost <= 10:
        reference = analysis_of(TEXT.encode(), tmp_path / "whole")
        assert figures(found) == figures(reference)


GZIPPED = gzip.compress(TEXT.encode(), 1)


@pytest.mark.parametrize("data", [GZIPPED, GZIPPED + gzip.compress(b"\n"), GZIPPED[:-5000], GZIPPED + b"garbage" * 99])
def test_damage__zlib_reads_what_isal_reads(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "rank0.pt.trace.json.gz"
    with_isal = analysis_of(data, tmp_path, name)
    monkeypatch.setitem(sys.modules, "isal", None)
    assert analysis_of(data, tmp_path, name) == with_isal


def test_damage__flipped_bits_in_gzip_are_a_problem(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(TEXT.encode(), 1))
    for at in range(len(data) // 2, len(data) // 2 + 40):
        data[at] ^= 0xFF
    try:
        found = analysis_of(bytes(data), tmp_path, "rank0.pt.trace.json.gz")
    except TraceError as error:
        assert "no usable trace" in str(error)
        return
    assert "gzip" in problems(found)


def test_damage__zero_length_kernels_count_as_calls(tmp_path: Path) -> None:
    row = next(row for row in ROWS if row.get("cat") == "kernel" and row["name"] == SECRET)
    steps = [e.start for e in RUN.ranks[0].events if e.key == "unknown"]
    extra = [{**row, "ts": start, "dur": 0} for start in steps]
    # each carries its own launch, as the kernel it stands beside
    beside = {e.start: e.correlation for e in RUN.ranks[0].events if e.key == "unknown"}
    for one in extra:
        one["args"] = {**row["args"], "correlation": beside[one["ts"]]}
    found = analysis_of(generator.render([*ROWS, *extra], HEAD, "lines").encode(), tmp_path)
    reference = analysis_of(TEXT.encode(), tmp_path / "whole")
    assert found.decode is not None
    assert reference.decode is not None
    calls = {c.name: c.calls_per_step for c in found.decode.categories}
    before = {c.name: c.calls_per_step for c in reference.decode.categories}
    assert calls["other"] == before["other"] + 1
    assert found.decode.wall_ms == reference.decode.wall_ms


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\x1f\x8b", b"hello", b"\x00" * 5000, b'{"traceEvents": []}'])
def test_damage__nothing_usable_is_one_clear_error(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no usable trace"):
        analysis_of(data, tmp_path)


def test_damage__missing_path_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist"):
        analyze([tmp_path / "no.json"])
    with pytest.raises(TraceError, match="holds no trace files"):
        analyze([tmp_path])


def test_damage__front_end_trace_is_skipped_not_called_rank_0(tmp_path: Path) -> None:
    generator.write(RUN, tmp_path)
    (tmp_path / "host_1.async_llm.2.pt.trace.json").write_text(
        generator.render([r for r in ROWS if r.get("cat") == "cpu_op"], {}, "dump")
    )
    found = analyze([tmp_path], trim=0)
    assert [rank.rank for rank in found.ranks] == [0]
    assert "API server" in found.skipped_files[0]


def test_damage__one_rank_cut_short_is_named(tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=4, ranks=2, steps=14))
    paths = generator.write(run, tmp_path)
    text = paths[1].read_text()
    paths[1].write_text(text[: int(len(text) * 0.8)])
    found = analyze(paths, trim=0)
    assert len(found.ranks) == 2
    assert "steps" in problems(found) or "could not be read" in problems(found)


def without_host(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in rows if r.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def test_no_annotations__graph_launches_or_repeats_are_steps_and_that_is_said(tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=2, steps=12, layers=8, prefill_every=0, has_fragment=False, overlap=0.0))
    rows = [r for r in generator.chrome_events(run, 0) if r.get("cat") != "user_annotation"]
    by_graph = analysis_of(generator.render(rows, HEAD, "lines").encode(), tmp_path)
    by_repeat = analysis_of(generator.render(without_host(rows), HEAD, "lines").encode(), tmp_path)
    assert by_graph.steps_found_by == "graph launches"
    assert by_repeat.steps_found_by == "repeating kernels"
    truth = [s for s in generator.truth(run, 0) if s.wall is not None]
    mean_ms = sum(s.wall or 0 for s in truth) / len(truth) / 1e6
    for found in (by_graph, by_repeat):
        assert "no step annotations" in " ".join(found.ranks[0].notes)
        assert found.steps.decode.count == 12
        assert found.decode is not None
        assert found.decode.wall_ms.mean == pytest.approx(mean_ms, rel=0.02)


def test_device_annotations__stand_in_for_the_hosts(tmp_path: Path) -> None:
    rows = without_host(ROWS)
    events = RUN.ranks[0].events
    for number, (name, _, _) in enumerate(RUN.ranks[0].annotations):
        mine = [e for e in events if e.step == number and e.key not in ("sample", "copy")]
        if mine:
            begin, end = min(e.start for e in mine) - 1, max(e.end for e in mine) + 1
            at = {"ts": begin, "dur": end - begin, "pid": 0, "tid": 7}
            rows.append({"ph": "X", "cat": "gpu_user_annotation", "name": name, **at, "args": {}})
            rows.append({"ph": "X", "cat": "gpu_user_annotation", "name": name, **at, "tid": 23, "args": {}})
    found = analysis_of(generator.render(_ordered(rows), HEAD, "lines").encode(), tmp_path)
    reference = analysis_of(TEXT.encode(), tmp_path / "whole")
    assert found.steps_found_by == "device annotations"
    assert found.decode is not None
    assert reference.decode is not None
    assert found.decode.categories == reference.decode.categories
    assert found.decode.wall_ms == reference.decode.wall_ms


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: r[k] for k in ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")} for r in rows]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1e3", 1_000_000),
        ("0.0005", 0),
        ("12345678901234.567", 12345678901234567),
        ("1e999999", None),
        ("-1E999999", None),
        ("1e999990", None),
        ("1e40", None),
        ("9" * 5000, None),
        ("1e-999999", 0),
        ("nan", None),
        ("sNaN", None),
        ("inf", None),
        ("-Infinity", None),
        ("", None),
        (None, None),
        (True, None),
    ],
)
def test_nanoseconds__whatever_is_written_is_a_time_or_none(written: object, expected: int | None) -> None:
    assert careful.nanoseconds(written) == expected
