"""Generated traces: every figure equals the truth to the nanosecond."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from campaign.trace import Breakdown, TraceAnalysis, analyze
from campaign.trace.read import read_json
from tests.trace import generator
from tests.trace.generator import LAYOUTS, Shape, StepTruth


def nanoseconds(mean_ms: float | None, steps: int) -> int:
    """The sum over steps behind a mean; a mean off by a nanosecond anywhere gives another integer."""
    assert mean_ms is not None
    total = mean_ms * 1e6 * steps
    assert abs(total - round(total)) < 0.01
    return round(total)


def kept(steps: list[StepTruth], batch: int) -> list[StepTruth]:
    return [s for s in steps if s.kind == "decode" and s.batch == batch and s.wall is not None]


def assert_equal(found: Breakdown, steps: list[StepTruth]) -> None:
    assert found.batch is not None
    mine = kept(steps, found.batch)
    count = len(mine)
    assert found.steps == count
    if not count:
        return
    names = {name for s in mine for name in (*s.busy, *s.exposed)}
    by_name = {c.name: c for c in found.categories}
    assert set(by_name) == names
    for name, category in by_name.items():
        assert nanoseconds(category.busy_ms_per_step, count) == sum(s.busy.get(name, 0) for s in mine), name
        assert nanoseconds(category.exposed_ms_per_step, count) == sum(s.exposed.get(name, 0) for s in mine), name
        assert round(category.calls_per_step * count) == sum(s.calls.get(name, 0) for s in mine), name
    assert nanoseconds(found.wall_ms.mean, count) == sum(s.wall or 0 for s in mine)
    assert nanoseconds(found.idle_ms_per_step, count) == sum(s.idle or 0 for s in mine)
    assert nanoseconds(sum(found.idle.values()), count) == sum(s.idle or 0 for s in mine)


def assert_run(run: generator.Run, analysis: TraceAnalysis) -> None:
    truths = [generator.truth(run, rank) for rank in range(len(run.ranks))]
    for kind, group in (
        ("decode", analysis.steps.decode),
        ("prefill", analysis.steps.prefill),
        ("mixed", analysis.steps.mixed),
    ):
        assert group.count == sum(1 for s in truths[0] if s.kind == kind)
    decode_batches = {s.batch for s in truths[0] if s.kind == "decode"}
    assert {b.batch for b in (analysis.decode, *analysis.decode_by_batch) if b is not None} == decode_batches
    outside = 3 if run.shape.has_fragment else 0
    for rank, steps in zip(analysis.ranks, truths, strict=True):
        assert rank.problems == ()
        assert rank.outside_events == outside
        if rank.decode is not None:
            assert_equal(rank.decode, steps)
    if len(run.ranks) == 1:
        for one in analysis.decode_by_batch:
            assert_equal(one, truths[0])
    elif analysis.decode is not None and analysis.decode.steps:
        assert_skew(run, analysis, truths)


def assert_skew(run: generator.Run, analysis: TraceAnalysis, truths: list[list[StepTruth]]) -> None:
    decode = analysis.decode
    assert decode is not None
    assert decode.batch is not None
    waits = [sum(s.wait for s in kept(steps, decode.batch)) for steps in truths]
    transfers = [sum(s.transfer for s in kept(steps, decode.batch)) for steps in truths]
    assert [nanoseconds(w, decode.steps) for w in analysis.skew.wait_ms_per_step] == waits
    assert nanoseconds((analysis.skew.transfer_ms_per_step or 0) * len(truths), decode.steps) == sum(transfers)
    assert analysis.skew.method == "clock"
    assert waits[analysis.skew.slowest_rank or 0] == min(waits)


def check(shape: Shape, folder: Path, layout: str, *, is_gzip: bool = False) -> None:
    run = generator.simulate(shape)
    paths = generator.write(run, folder, layout=layout, is_gzip=is_gzip)
    assert_run(run, analyze(paths, trim=0, processes=1))


@pytest.mark.parametrize("seed", range(20))
def test_truth__random_runs_equal_to_the_nanosecond(seed: int, tmp_path: Path) -> None:
    check(generator.random_shape(seed), tmp_path, LAYOUTS[seed % len(LAYOUTS)], is_gzip=seed % 3 == 0)


@pytest.mark.proof
@pytest.mark.parametrize("start", range(1000, 2000, 50))
def test_truth__a_thousand_random_runs(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 50):
        check(generator.random_shape(seed), tmp_path / str(seed), LAYOUTS[seed % len(LAYOUTS)], is_gzip=seed % 2 == 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truth__every_layout_gives_the_same_analysis(layout: str, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=5, ranks=2, slow_rank=1, batches=(4, 16), steps=12))
    reference = analyze(generator.write(run, tmp_path / "reference"), trim=0, processes=1)
    other = analyze(generator.write(run, tmp_path / layout, layout=layout, is_gzip=True), trim=0, processes=1)
    assert other.decode == reference.decode
    assert other.decode_by_batch == reference.decode_by_batch
    assert other.skew == reference.skew


#: Microseconds since 1970, as older profilers write them.
SINCE_1970_US = 1_764_500_000_000_000


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truth__times_since_1970_are_read_as_fast_and_as_exactly(layout: str, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=6, batches=(4, 16), steps=12))
    (path,) = generator.write(run, tmp_path, layout=layout)
    reference, notes = analyze([path], trim=0, processes=1), read_json(path).notes
    path.write_text(
        re.sub(r'("ts":\s*)(\d+)', lambda m: f"{m.group(1)}{int(m.group(2)) + SINCE_1970_US}", path.read_text())
    )
    assert read_json(path).notes == notes  # which say how many events the fast path left over
    assert analyze([path], trim=0, processes=1).decode == reference.decode


@pytest.mark.parametrize("step_regex", [None, r"ProfilerStep#"])
def test_truth__plain_profiler_steps_count_as_decode(step_regex: str | None, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=3, annotation="profiler", prefill_every=0, has_fragment=False))
    paths = generator.write(run, tmp_path)
    found = analyze(paths, trim=0, step_regex=step_regex).decode
    assert found is not None
    mine = kept(generator.truth(run, 0), 4)
    assert found.steps == len(mine)
    assert nanoseconds(found.wall_ms.mean, len(mine)) == sum(s.wall or 0 for s in mine)


@pytest.mark.parametrize("slow", range(4))
def test_truth__the_straggler_is_found_without_collective_metadata(slow: int, tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=slow, ranks=4, slow_rank=slow, steps=16, layers=6, overlap=0.0))
    skew = analyze(generator.write(run, tmp_path), trim=0, processes=1).skew
    assert skew.slowest_rank == slow
    assert max(range(4), key=lambda rank: skew.arrived_last[rank]) == slow


def test_truth__several_processes_give_the_same_as_one(tmp_path: Path) -> None:
    run = generator.simulate(Shape(seed=9, ranks=3))
    paths = generator.write(run, tmp_path, is_gzip=True)
    assert analyze(paths, processes=3) == analyze(paths, processes=1)
