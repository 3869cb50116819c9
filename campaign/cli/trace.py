"""`campaign trace`: profiler traces analysed without a campaign."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from campaign.trace import Breakdown, TraceAnalysis, TraceDiff

#: Unclassified kernels below this share of the busy time are summed up in the text (the JSON lists all).
_SMALLEST_SHARE = 0.0001


@click.command("trace")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "is_json", is_flag=True, help="Print the analysis as JSON.")
@click.option("--trim", type=click.IntRange(min=0), help="Decode steps left out at the start (default: the unsteady).")
@click.option("--step-regex", metavar="R", help="Annotations that are steps, e.g. 'ProfilerStep#'.")
@click.option("--diff", "pair", nargs=2, type=click.Path(path_type=Path), metavar="A B", help="Compare two runs.")
@click.option("--perfetto", type=click.Path(path_type=Path), metavar="OUT", help="Write one median step to a file.")
@click.option("--processes", type=click.IntRange(min=1), help="At most so many processes (default: one a rank).")
def trace(
    paths: tuple[Path, ...],
    *,
    is_json: bool,
    trim: int | None,
    step_regex: str | None,
    pair: tuple[Path, Path] | None,
    perfetto: Path | None,
    processes: int | None,
) -> None:
    """Where every microsecond of a decode step went: profiler files or folders in, the breakdown out."""
    from campaign import schema
    from campaign.errors import UsageError
    from campaign.trace import analyze, diff

    if pair is not None:
        before, after = (analyze([path], trim=trim, step_regex=step_regex, processes=processes) for path in pair)
        change = diff(before, after, (str(pair[0]), str(pair[1])))
        _print(schema.encode_pretty(change).decode() if is_json else diff_text(change))
        return
    if not paths:
        raise UsageError(
            "trace: no path given. Write `python -m campaign trace PATH …` or `python -m campaign trace --diff A B`."
        )
    found = analyze(
        paths, trim=trim, step_regex=step_regex, processes=processes, progress=None if is_json else _progress
    )
    if perfetto is not None:
        from campaign.trace.perfetto import export_step

        export_step(Path(found.ranks[0].file), perfetto, step_regex=step_regex)
    _print(schema.encode_pretty(found).decode() if is_json else analysis_text(found))


def _print(text: str) -> None:
    click.echo(text.rstrip("\n"))


def _progress(file: str, share: float) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{Path(file).name[:60]:60} {100 * share:3.0f} %", nl=share >= 1, err=True)


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def analysis_text(found: TraceAnalysis) -> str:
    """The analysis as a page of text."""
    lines = [
        f"{rank.rank}: {Path(rank.file).name}, {rank.events} events"
        + (f", device {rank.device_number}" if rank.device_number is not None else "")
        for rank in found.ranks
    ]
    lines += [f"  problem: {text}" for text in found.problems]
    lines += [f"  problem, rank {rank.rank}: {text}" for rank in found.ranks for text in rank.problems]
    notes = dict.fromkeys(text for rank in found.ranks for text in rank.notes)
    lines += [f"  note: {text}" for text in notes]
    lines += [f"  skipped: {text}" for text in found.skipped_files]
    kinds = found.steps
    lines.append(
        f"steps by {found.steps_found_by}: {kinds.decode.count} decode, {kinds.prefill.count} prefill, "
        f"{kinds.mixed.count} mixed"
    )
    if found.decode is None:
        lines.append("no decode steps; the whole file by category:")
        lines += [
            f"  {c.name:11} {c.busy_ms_per_step:10.3f} ms {c.calls_per_step:8.0f} calls" for c in found.ranks[0].whole
        ]
        return "\n".join(lines)
    lines += _decode_lines(found.decode)
    skew = found.skew
    if skew.slowest_rank is not None:
        spread = _number(skew.spread_ms_per_step)
        lines.append(f"\nthe others wait for rank {skew.slowest_rank}; spread {spread} ms a step")
    if found.layer is not None:
        lines.append(f"\none layer ({found.layer.repeats} in a row, {found.layer.total_us:.1f} µs):")
        lines += [f"  {k.us:9.2f} µs  gap {k.gap_us:7.2f}  {k.category:11} {k.name[:60]}" for k in found.layer.kernels]
    if found.representative.text:
        lines.append(f"\n{found.representative.text}")
    return "\n".join(lines)


def _decode_lines(decode: Breakdown) -> list[str]:
    wall = decode.wall_ms
    lines = [
        f"\ndecode, batch {decode.batch if decode.batch is not None else '–'}: {decode.steps} steps "
        f"({decode.trimmed} trimmed, {decode.without_wall} without a known end), "
        f"{_number(wall.mean)} ms (median {_number(wall.median)}, p10 {_number(wall.p10)}, p90 {_number(wall.p90)})",
        f"  {'category':11} {'calls':>8} {'busy ms':>9} {'exposed ms':>11} {'of step':>8} {'µs a call':>10}",
    ]
    lines += [
        f"  {c.name:11} {c.calls_per_step:8.1f} {c.busy_ms_per_step:9.3f} {c.exposed_ms_per_step:11.3f} "
        f"{_percent(c.share_of_wall):>8} {_number(c.us_per_call, 2):>10}"
        for c in decode.categories
    ]
    reasons = ", ".join(f"{reason} {ms:.3f}" for reason, ms in decode.idle.items())
    idle = _number(decode.idle_ms_per_step)
    lines.append(f"  {'idle':11} {'':8} {'':9} {idle:>11} {_percent(decode.idle_share):>8}  {reasons}")
    lines.append("  kernels:")
    lines += [
        f"    {k.busy_ms_per_step:8.3f} ms {k.calls_per_step:7.1f} × {k.us_per_call:8.2f} µs  "
        f"{k.category:11} {k.name[:60]}"
        for k in decode.kernels[:15]
    ]
    lines += [
        f"  {c.kernel[:50]}: {c.calls_per_step:g} × {c.us_per_call:.2f} µs, waiting "
        f"{_number(c.wait_us_per_call, 2)}, transfer {_number(c.transfer_us_per_call, 2)}: {c.verdict} ({c.why})"
        for c in decode.collectives
    ]
    lines += _unclassified_lines(decode)
    lines += [
        f"  compiled: {k.name} {k.busy_ms_per_step:.3f} ms, "
        f"between {k.before_category or '–'} and {k.after_category or '–'}"
        for k in decode.compiled
    ]
    return lines


def _unclassified_lines(decode: Breakdown) -> list[str]:
    """How much no rule knows, and every kernel of it that is a ten-thousandth of the busy time or more."""
    other = next((c for c in decode.categories if c.name == "other"), None)
    if other is None:
        return ["  unclassified: nothing"]
    lines = [
        f"  unclassified: {_percent(other.share_of_wall, 2)} of the step, {_percent(decode.unclassified_share, 2)} of "
        f"the busy time, {len(decode.unclassified)} kernels:"
    ]
    shown = [one for one in decode.unclassified if one.share_of_busy >= _SMALLEST_SHARE]
    lines += [f"    {_percent(one.share_of_busy, 2):>7} {one.name[:90]}" for one in shown]
    rest = decode.unclassified[len(shown) :]
    if rest:
        lines.append(f"    {_percent(sum(one.share_of_busy for one in rest), 2):>7} {len(rest)} smaller ones")
    return lines


def diff_text(change: TraceDiff) -> str:
    """The comparison as a table of text."""
    lines = [*change.notes, f"{'ms a step':40} {'before':>9} {'after':>9} {'change':>9}  beyond noise"]
    verdicts = {True: "yes", False: "no", None: "–"}
    lines += [
        f"{one.name[:40]:40} {_number(one.before_ms):>9} {_number(one.after_ms):>9} {one.difference_ms:>+9.3f}  "
        f"{verdicts[one.is_beyond_noise]}"
        for one in (change.wall, change.idle, *change.categories, *change.kernels[:20])
    ]
    return "\n".join(lines)
