"""GuideLLM's report (`benchmarks.json`): one cell a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from campaign.importers.cells import CLIENT, Run, macro_of, number, told
from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.load.cell import Cell
from campaign.load.latency import Distribution


def _claims(_path: Path, head: bytes) -> bool:
    return (head.lstrip().startswith(b"{") and b'"benchmarks"' in head and b'"strategy"' in head) or _is_late(head)


def _is_late(head: bytes) -> bool:
    """A report whose configuration fills the first bytes."""
    return head.lstrip().startswith(b"{") and b'"guidellm_version"' in head


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return macro_of([run for file in files for run in _runs(file)], ask)


def _runs(path: Path) -> Iterator[Run]:
    try:
        document = json.loads(read_text(path))
        benchmarks = document["benchmarks"]
        if not benchmarks:
            raise ValueError("benchmarks is empty")
        version = str((document.get("metadata") or {}).get("guidellm_version") or "")
        for benchmark in benchmarks:
            yield _run(benchmark, version)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise unusable(path, f"is no whole report of GuideLLM ({error!r})", "Give its benchmarks.json.") from error


def _run(benchmark: dict[str, Any], version: str) -> Run:
    metrics, strategy = benchmark["metrics"], _strategy(benchmark)
    totals = metrics.get("request_totals") or benchmark.get("request_totals") or {}
    completed = int(totals["successful"])
    tokens_in, tokens_out = _mean(metrics, "prompt_token_count"), _mean(metrics, "output_token_count")
    name = str(strategy.get("type_") or strategy.get("type") or "")
    slots = {"synchronous": 1}.get(name, strategy.get("streams") if name == "concurrent" else None)
    start, end = number(benchmark.get("start_time")), number(benchmark.get("end_time"))
    duration_s = number(benchmark.get("duration"))
    if duration_s is None:
        duration_s = end - start if end is not None and start is not None else 0.0
    cell = Cell(
        repeat=1,
        concurrency_asked=int(slots) if slots is not None else None,
        concurrency_achieved=_mean(metrics, "request_concurrency"),
        rate_asked=number(strategy.get("rate")) if name in ("constant", "poisson") else None,
        rate_achieved=_mean(metrics, "requests_per_second"),
        input_tokens_asked=None if tokens_in is None else round(tokens_in),
        input_tokens_achieved=tokens_in,
        output_tokens_asked=None if tokens_out is None else round(tokens_out),
        output_tokens_achieved=tokens_out,
        prompts="not told",
        completed=completed,
        failed=int(totals.get("errored") or 0),
        cancelled=int(totals.get("incomplete") or 0),
        duration_s=duration_s,
        output_tok_s=_mean(metrics, "output_tokens_per_second"),
        ttft_ms=_distribution(metrics, "time_to_first_token_ms", completed),
        chunk_gap_ms=_distribution(metrics, "inter_token_latency_ms", completed),
        tpot_ms=_distribution(metrics, "inter_token_latency_ms", completed),
        e2el_ms=_distribution(metrics, "request_latency", completed, scale=1e3),
        client=CLIENT,
        flags=("lengths are means of what was achieved",),
    )
    return Run(
        cell=cell,
        tool="GuideLLM",
        started_at=_stamp(start),
        finished_at=_stamp(end),
        versions={"guidellm": version} if version else {},
    )


def _strategy(benchmark: dict[str, Any]) -> dict[str, Any]:
    """How load was made; its place moved between versions."""
    for holder in (benchmark.get("config"), benchmark.get("args"), benchmark.get("scheduler"), benchmark):
        if isinstance(holder, dict) and isinstance(holder.get("strategy"), dict):
            found: dict[str, Any] = holder["strategy"]
            return found
    raise KeyError("strategy")


def _summary(metrics: dict[str, Any], name: str) -> dict[str, Any]:
    whole = metrics.get(name) or {}
    found = whole.get("successful") or {}
    if not isinstance(found, dict):
        raise ValueError(f"{name}.successful is no summary")
    return found


def _mean(metrics: dict[str, Any], name: str) -> float | None:
    return number(_summary(metrics, name).get("mean"))


def _distribution(metrics: dict[str, Any], name: str, completed: int, *, scale: float = 1.0) -> Distribution:
    found = _summary(metrics, name)
    mean = number(found.get("mean"))
    if mean is None:
        return Distribution()
    inner = found.get("percentiles") or found
    values = {p: number(inner.get(f"p{p}")) for p in (50, 90, 95, 99)}
    median = number(found.get("median"))
    values[50] = median if median is not None else values[50]
    scaled = {p: None if value is None else value * scale for p, value in values.items()}
    return told(mean * scale, scaled, min(completed, int(number(found.get("count")) or completed)))


def _stamp(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


IMPORTER = Importer(
    name="guidellm",
    title="GuideLLM reports (benchmarks.json)",
    kinds=lambda _files: ("macro",),
    claims=_claims,
    read=_read,
)
