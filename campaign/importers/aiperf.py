"""AIPerf's summary (`profile_export_aiperf.json`): one cell a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from campaign.importers.cells import CLIENT, Run, macro_of, number, told
from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.load.cell import Cell
from campaign.load.latency import Distribution

_SECONDS = {"sec": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _claims(_path: Path, head: bytes) -> bool:
    is_summary = b'"request_throughput"' in head and b'"request_latency"' in head and b'"avg"' in head
    return head.lstrip().startswith(b"{") and is_summary


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return macro_of([_run(file) for file in files], ask)


def _run(path: Path) -> Run:
    try:
        return _run_of(json.loads(read_text(path)))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        what = f"is no whole summary of AIPerf ({error!r})"
        raise unusable(path, what, "Give its profile_export_aiperf.json.") from error


def _run_of(document: dict[str, Any]) -> Run:
    completed = int(_average(document, "request_count") or 0)
    config = document.get("input_config") or {}
    load = config.get("loadgen") or {}
    tokens_in, tokens_out = _average(document, "input_sequence_length"), _average(document, "output_sequence_length")
    is_closed = load.get("concurrency") is not None
    failed = sum(int(one["count"]) for one in document.get("error_summary") or ())
    cell = Cell(
        repeat=1,
        concurrency_asked=int(load["concurrency"]) if is_closed else None,
        rate_asked=None if is_closed else number(load.get("request_rate")),
        rate_achieved=_average(document, "request_throughput"),
        input_tokens_asked=None if tokens_in is None else round(tokens_in),
        input_tokens_achieved=tokens_in,
        output_tokens_asked=None if tokens_out is None else round(tokens_out),
        output_tokens_achieved=tokens_out,
        prompts="not told",
        completed=completed,
        failed=failed,
        errors=_errors(document),
        duration_s=(_average(document, "benchmark_duration") or 0.0) * _scale(document, "benchmark_duration", 1.0),
        output_tok_s=_average(document, "output_token_throughput"),
        ttft_ms=_distribution(document, "time_to_first_token", completed),
        # AIPerf's inter-token latency is (end − first token) / (tokens − 1) of a request: a TPOT.
        tpot_ms=_distribution(document, "inter_token_latency", completed),
        e2el_ms=_distribution(document, "request_latency", completed),
        client=CLIENT,
        flags=("stopped before its end",) if document.get("was_cancelled") else (),
    )
    version = str(document.get("aiperf_version") or "")
    models = (config.get("endpoint") or {}).get("model_names") or [""]
    return Run(
        cell=cell,
        model=str(models[0]),
        tool="AIPerf",
        started_at=str(document.get("start_time") or ""),
        finished_at=str(document.get("end_time") or ""),
        versions={"aiperf": version} if version else {},
    )


def _metric(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no metric")
    return found


def _average(document: dict[str, Any], name: str) -> float | None:
    return number(_metric(document, name).get("avg"))


def _scale(document: dict[str, Any], name: str, to_s: float) -> float:
    unit = str(_metric(document, name).get("unit") or "sec")
    if unit not in _SECONDS:
        raise ValueError(f"{name}: unit {unit!r} is no time")
    return _SECONDS[unit] / to_s


def _errors(document: dict[str, Any]) -> dict[str, int]:
    return {str(one["error_details"]["type"]): int(one["count"]) for one in document.get("error_summary") or ()}


def _distribution(document: dict[str, Any], name: str, completed: int) -> Distribution:
    mean = _average(document, name)
    if mean is None:
        return Distribution()
    found, scale = _metric(document, name), _scale(document, name, 1e-3)
    values = {p: number(found.get(f"p{p}")) for p in (50, 90, 95, 99)}
    return told(mean * scale, {p: None if v is None else v * scale for p, v in values.items()}, completed)


IMPORTER = Importer(
    name="aiperf",
    title="AIPerf summaries (profile_export_aiperf.json)",
    kinds=lambda _files: ("macro",),
    claims=_claims,
    read=_read,
)
