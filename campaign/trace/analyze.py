"""Files and folders → `TraceAnalysis`: a process a rank, then the ranks side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from campaign.errors import TraceError
from campaign.trace import breakdown as reporting
from campaign.trace import categories, result, skew, table
from campaign.trace.annotations import announcements
from campaign.trace.cpu import analyze_host
from campaign.trace.devices import ranks_of
from campaign.trace.events import Floats, Ints
from campaign.trace.fallback import from_tables, reconcile, tables_in
from campaign.trace.gpu import analyze_device
from campaign.trace.ranked import NO_WALL, RankSteps
from campaign.trace.read import read_json
from campaign.trace.source import is_sqlite
from campaign.trace.statistics import quantile

Progress = Callable[[str, float], None]
_NS_A_MS: Final = 1e6
_TRACE_PATTERNS: Final = ("*.trace.json", "*.trace.json.gz", "*.sqlite")
_ANY_PATTERNS: Final = ("*.json", "*.json.gz")


def analyze(
    paths: Sequence[Path],
    *,
    trim: int | None = None,
    step_regex: str | None = None,
    extra_categories: Sequence[tuple[str, str]] = (),
    processes: int | None = None,
    progress: Progress | None = None,
) -> result.TraceAnalysis:
    """Analyse the traces of one run, any number of ranks.

    trim: decode steps left out at the start; None = as many as are unsteady, 0 = none. step_regex chooses the
    annotations that are steps. extra_categories: (category, pattern) pairs tried first. progress(file, share) is
    called as files are read. Raises `TraceError` where no file holds a usable trace, `UsageError` for a bad pattern.
    """
    announcements((), step_regex)
    known = categories.table(extra_categories)
    tables = text_tables(paths)
    if tables:
        return from_tables(tables, known)
    files, skipped = find_files(paths)
    found = _read_all(files, step_regex, tuple(extra_categories), processes, progress)
    problems: list[str] = []
    ranks = _numbered([rank for rank in found if not isinstance(rank, str)], problems, skipped)
    skipped += [text for text in found if isinstance(text, str)]
    if not ranks:
        listed = "; ".join(skipped[:3])
        raise TraceError(
            f"no usable trace in {', '.join(map(str, paths))} ({listed}). Give the files of a profiled run."
        )
    return _assemble(ranks, trim, problems, skipped)


def text_tables(paths: Sequence[Path]) -> list[Path]:
    """The text tables, where the paths hold nothing else: tables named, or folders without a trace file."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            if _in_folder(path):
                return []
            found += tables_in(path)
        elif path.suffix == ".txt":
            found.append(path)
        else:
            return []
    return found


def find_files(paths: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """The trace files at the given paths (folders are searched); raises `TraceError` where a path has none."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = _in_folder(path)
            if not inside:
                raise TraceError(f"{path}: holds no trace files (*.trace.json, *.trace.json.gz, *.sqlite).")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise TraceError(f"{path}: does not exist. Give a trace file or the profiler's folder.")
    unique = list(dict.fromkeys(files))
    kept = [file for file in unique if ".async_llm." not in file.name]
    return kept or unique, [f"{file.name}: written by the API server" for file in unique if kept and file not in kept]


def _in_folder(folder: Path) -> list[Path]:
    for patterns in (_TRACE_PATTERNS, _ANY_PATTERNS):
        for pattern_path in (folder, *(() if patterns is _ANY_PATTERNS else _subfolders(folder))):
            found = sorted({file for pattern in patterns for file in pattern_path.glob(pattern) if file.is_file()})
            if found:
                return found
    return []


def _subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def _read_all(
    files: Sequence[Path],
    step_regex: str | None,
    extra: tuple[tuple[str, str], ...],
    processes: int | None,
    progress: Progress | None,
) -> list[RankSteps | str]:
    workers = min(len(files), processes or os.cpu_count() or 1)
    if workers <= 1:
        return [one for file in files for one in _read_one(file, step_regex, extra, progress)]
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    has_threads = threading.active_count() > 1
    context = multiprocessing.get_context("spawn" if has_threads else "fork")
    found: dict[Path, list[RankSteps | str]] = {}
    try:
        with ProcessPoolExecutor(workers, mp_context=context) as pool:
            jobs = {pool.submit(_read_one, file, step_regex, extra, None): file for file in files}
            for job in as_completed(jobs):
                found[jobs[job]] = job.result()
                if progress is not None:
                    progress(str(jobs[job]), 1.0)
    except BrokenProcessPool as error:
        raise TraceError(
            f"a process that read {len(files)} traces was killed (memory?). Run again with `--processes 1`."
        ) from error
    return [one for file in files for one in found[file]]


def _read_one(
    file: Path, step_regex: str | None, extra: tuple[tuple[str, str], ...], progress: Progress | None
) -> list[RankSteps | str]:
    """Every rank in a file (an nsys export may hold several), or why it has none."""
    known = categories.table(extra)
    if is_sqlite(file):
        from campaign.trace.nsys import read_sqlite

        found = ranks_of(read_sqlite(file), step_regex)
        return [analyze_device(trace, known, step_regex) for trace in found]
    trace = read_json(file, (lambda share: progress(str(file), share)) if progress is not None else None)
    if progress is not None:
        progress(str(file), 1.0)
    if len(trace.device):
        return [analyze_device(one, known, step_regex) for one in ranks_of(trace, step_regex)]
    host = analyze_host(trace, known, step_regex)
    if host is None:
        return [f"{file.name}: {'; '.join(trace.problems) or 'no kernels and no step annotations'}"]
    return [host]


def _numbered(ranks: list[RankSteps], problems: list[str], skipped: list[str]) -> list[RankSteps]:
    """Ranks in order, each number once: of several files of a rank the last by name stands (the newest profile)."""
    by_rank: dict[int, RankSteps] = {}
    unnamed = []
    for one in ranks:
        if one.rank is None:
            unnamed.append(one)
        elif one.rank in by_rank:
            older, newer = sorted((by_rank[one.rank], one), key=lambda r: (_stamp(r.path), r.path))
            by_rank[one.rank] = newer
            skipped.append(f"{Path(older.path).name}: an earlier profile of rank {one.rank}")
        else:
            by_rank[one.rank] = one
    free = (number for number in range(len(ranks) + len(by_rank)) if number not in by_rank)
    for one, number in zip(unnamed, list(free), strict=False):
        by_rank[number] = replace(one, rank=number)
    ordered = [by_rank[number] for number in sorted(by_rank)]
    if len({one.device for one in ordered}) > 1:
        problems.append("some ranks have device events and some have none; those without are left out")
        ordered = [one for one in ordered if one.device == "gpu"]
    world = max((one.world_size or 0 for one in ordered), default=0)
    if world > len(ordered):
        problems.append(f"{len(ordered)} of {world} ranks have a trace here")
    return ordered


def _stamp(path: str) -> int:
    return max((int(part) for part in Path(path).name.split(".") if part.isdigit()), default=0)


def _assemble(
    ranks: list[RankSteps], trim: int | None, problems: list[str], skipped: list[str]
) -> result.TraceAnalysis:
    meeting = skew.meet(ranks)
    counts = {len(rank.steps) for rank in ranks}
    if len(counts) > 1:
        problems.append(f"ranks have {min(counts)} to {max(counts)} steps; means use the steps that all have")
    batches = table.batches(ranks)
    chosen = {batch: _of_batch(ranks, batch, trim, meeting) for batch in batches}
    main = chosen[batches[0]] if batches else None
    return result.TraceAnalysis(
        device=ranks[0].device,
        ranks=tuple(_rank(rank, main[1][i] if main else None) for i, rank in enumerate(ranks)),
        steps=_steps(ranks, meeting),
        decode=main[0] if main else None,
        decode_by_batch=tuple(chosen[batch][0] for batch in batches[1:]),
        skew=skew.skew(ranks, main[2], meeting) if main else result.Skew(why="no decode steps"),
        collective_steps=skew.by_step(ranks, meeting),
        representative=main[3] if main else result.Representative(),
        layer=_layer(ranks[0]),
        steps_found_by=ranks[0].found_by,
        problems=tuple(problems),
        skipped_files=tuple(skipped),
    )


_OfBatch = tuple[result.Breakdown, list[result.Breakdown], Ints, result.Representative]


def _of_batch(ranks: list[RankSteps], batch: int | None, trim: int | None, meeting: skew.Meeting) -> _OfBatch:
    """The breakdown of one batch size: mean over ranks, of each rank, the steps kept, and what they are worth."""
    selections = table.select(ranks, batch, trim)
    tables = [table.rows(rank, selection.index) for rank, selection in zip(ranks, selections, strict=True)]
    calls = [
        skew.rank_collectives(rank, place, selection.index, meeting)
        for place, (rank, selection) in enumerate(zip(ranks, selections, strict=True))
    ]
    each = [
        reporting.breakdown(rows, selection, batch=batch, device=rank.device, collectives=mine, compiled=rank.compiled)
        for rows, selection, rank, mine in zip(tables, selections, ranks, calls, strict=True)
    ]
    if len(ranks) == 1:
        mean_table, mean = tables[0], each[0]
    else:
        mean_table = table.mean_rows(tables)
        mean = reporting.breakdown(
            mean_table,
            selections[0],
            batch=batch,
            device=ranks[0].device,
            collectives=skew.mean_collectives(calls),
            compiled=ranks[0].compiled,
        )
    return mean, each, selections[0].index, skew.representative(tables, mean_table, mean.wall_ms)


def _rank(rank: RankSteps, decode: result.Breakdown | None) -> result.Rank:
    return result.Rank(
        rank=rank.rank or 0,
        file=rank.path,
        events=rank.events,
        steps_total=len(rank.steps),
        problems=rank.problems,
        notes=rank.notes,
        device_name=rank.device_name,
        device_number=rank.device_number,
        world_size=rank.world_size,
        steps_found_by=rank.found_by,
        outside_events=rank.outside,
        outside_ms=rank.outside_ns / _NS_A_MS,
        whole=reporting.whole(rank.whole_ns.tolist(), rank.whole_calls.tolist(), rank.whole_span_ns),
        reconciliation=reconcile(rank),
        decode=decode,
    )


def _steps(ranks: Sequence[RankSteps], meeting: skew.Meeting) -> result.Steps:
    groups = {kind: _group(ranks, kind, meeting) for kind in ("decode", "prefill", "mixed")}
    return result.Steps(decode=groups["decode"], prefill=groups["prefill"], mixed=groups["mixed"])


def _group(ranks: Sequence[RankSteps], kind: str, meeting: skew.Meeting) -> result.StepGroup:
    first = ranks[0]
    index = np.array([i for i, step in enumerate(first.steps) if step.kind == kind], np.int64)
    wall = first.wall_ns[index]
    known: Floats = wall[wall != NO_WALL] / _NS_A_MS
    calls = [skew.rank_collectives(r, i, index[index < len(r.steps)], meeting) for i, r in enumerate(ranks)]
    return result.StepGroup(
        count=len(index),
        batch_sizes=tuple(sorted({b for b in (first.steps[i].batch for i in index.tolist()) if b is not None})),
        wall_ms=result.SpreadMs(median=quantile(known, 0.5), p10=quantile(known, 0.1), p90=quantile(known, 0.9)),
        collectives=skew.mean_collectives(calls) if kind != "decode" else (),
    )


def _layer(rank: RankSteps) -> result.Layer | None:
    if not rank.layer:
        return None
    total = sum(kernel.us + kernel.gap_us for kernel in rank.layer)
    return result.Layer(repeats=rank.layer_repeats, total_us=total, kernels=rank.layer)
