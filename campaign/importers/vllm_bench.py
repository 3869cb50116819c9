"""What `vllm bench serve --save-result` writes: the Python client, the Rust client, and `--append-result`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from campaign.importers.cells import CLIENT, MOST, Run, macro_of, number, told
from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.load.cell import Cell, Goodput
from campaign.load.latency import Distribution, distribution

_LATENCIES = ("ttft", "tpot", "itl", "e2el")
_PERCENTILES = (90, 95, 99)


def _claims(_path: Path, head: bytes) -> bool:
    is_object = head.lstrip().startswith(b"{")
    return is_object and b'"num_prompts"' in head and (b'"total_output_tokens"' in head or b'"request_rate"' in head)


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return macro_of([run for file in files for run in _runs(file)], ask)


def _runs(path: Path) -> Iterator[Run]:
    for place, document in _documents(path):
        try:
            yield _run(document)
        except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
            what = f"{place}is no whole result of vllm bench serve ({error!r})"
            raise unusable(path, what, "Give the file as --save-result or --append-result wrote it.") from error


def _documents(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The result objects of a file: one, or one a line."""
    text = read_text(path)
    try:
        whole = json.loads(text)
    except ValueError:
        return [(f"line {n}: ", _line(path, n, line)) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    return [("", whole)] if isinstance(whole, dict) else [("", {})]


def _line(path: Path, place: int, line: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise unusable(path, f"line {place}: {error}", "Give one result object a line.") from error
    return document


def _run(document: dict[str, Any]) -> Run:
    completed, duration_s = int(document["completed"]), float(document["duration"])
    if not 0 <= duration_s <= MOST or not 0 <= completed <= MOST:
        raise ValueError("a negative or endless duration or count")
    tokens_in, tokens_out = int(document["total_input_tokens"]), int(document["total_output_tokens"])
    failed = _failed(document, completed)
    asked_in, asked_out = _asked(document, completed, tokens_in), _asked(document, completed, tokens_out)
    rate, slots = document.get("request_rate"), document.get("max_concurrency")
    if slots is None and rate in (None, "inf"):
        slots = int(document["num_prompts"])  # without a cap and a rate the client sends all requests at once
    cell = Cell(
        repeat=1,
        concurrency_asked=int(slots) if slots is not None else None,
        concurrency_peak=int(number(document.get("max_concurrent_requests")) or 0),
        rate_asked=None if rate in (None, "inf") else number(rate),
        rate_achieved=number(document.get("request_throughput")),
        input_tokens_asked=asked_in,
        input_tokens_achieved=tokens_in / completed if completed else None,
        output_tokens_asked=asked_out,
        output_tokens_achieved=tokens_out / completed if completed else None,
        prompts="not told",
        completed=completed,
        failed=failed,
        errors=_errors(document),
        duration_s=duration_s,
        tokens_received=tokens_out,
        output_tok_s=number(document.get("output_throughput")),
        output_tok_s_peak=number(document.get("max_output_tokens_per_s")),
        goodput=_goodput(document, tokens_out),
        client=CLIENT,
        flags=("lengths are means of what was achieved",) if asked_in is not None else (),
    )
    cell = msgspec.structs.replace(cell, **_distributions(document, completed))
    stamp = _stamp(str(document.get("date", "")))
    return Run(cell=cell, model=str(document.get("model_id") or ""), tool="vllm bench serve", finished_at=stamp)


def _asked(_document: dict[str, Any], completed: int, tokens: int) -> int | None:
    """The form does not tell the lengths asked for; loads are told apart by those achieved."""
    return round(tokens / completed) if completed else None


def _failed(document: dict[str, Any], completed: int) -> int:
    for name in ("failed", "failed_requests"):
        value = document.get(name)
        if value is not None:
            return len(value) if isinstance(value, list) else int(value)
    return max(0, int(document["num_prompts"]) - completed)


def _errors(document: dict[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in document.get("errors") or ():
        if text:
            name = str(text).strip().split("\n")[-1].split(":", 1)[0][:60]
            counts[name] = counts.get(name, 0) + 1
    return counts


def _goodput(document: dict[str, Any], tokens_out: int) -> Goodput | None:
    good, rate, all_tok_s = (
        number(document.get(name)) for name in ("request_goodput", "request_throughput", "output_throughput")
    )
    if good is None or not rate:
        return None
    return Goodput(req_s=good, tok_s=(all_tok_s or 0.0) * good / rate if tokens_out else 0.0, share=good / rate)


def _stamp(date: str) -> str:
    """20260213-101112 → 2026-02-13T10:11:12, the client's local time; empty where it is none."""
    if not re.fullmatch(r"\d{8}-\d{6}", date):
        return ""
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return ""


def _distributions(document: dict[str, Any], completed: int) -> dict[str, Distribution]:
    """From the requests themselves where they are in the file, else as summarised there."""
    if document.get("ttfts") and document.get("itls") is not None and document.get("output_lens"):
        return _detailed(document)
    found = {}
    for name in _LATENCIES:
        percentiles = {p: number(document.get(f"p{p}_{name}_ms")) for p in _PERCENTILES}
        percentiles[50] = number(document.get(f"median_{name}_ms", document.get(f"p50_{name}_ms")))
        mean = number(document.get(f"mean_{name}_ms"))
        found[name] = told(mean, percentiles, completed) if mean is not None else Distribution()
    # What vLLM calls ITL is the gap between chunks; it is one a token only where chunks hold one each.
    return {
        "ttft_ms": found["ttft"], "tpot_ms": found["tpot"], "chunk_gap_ms": found["itl"], "e2el_ms": found["e2el"],
    }  # fmt: skip


def _detailed(document: dict[str, Any]) -> dict[str, Distribution]:
    errors = document.get("errors") or [""] * len(document["ttfts"])
    rows = list(zip(document["ttfts"], document["itls"], document["output_lens"], errors, strict=True))
    done = [(float(ttft) * 1e3, [float(g) * 1e3 for g in gaps], int(n)) for ttft, gaps, n, e in rows if not e]
    gaps_ms = [gap for _, gaps, _ in done for gap in gaps]
    is_one_each = all(len(gaps) == n - 1 for _, gaps, n in done)
    return {
        "ttft_ms": distribution(ttft for ttft, _, _ in done),
        "chunk_gap_ms": distribution(gaps_ms),
        "itl_ms": distribution(gaps_ms if is_one_each else ()),
        "tpot_ms": distribution(math.fsum(gaps) / (n - 1) for _, gaps, n in done if n > 1),
        "e2el_ms": distribution(ttft + math.fsum(gaps) for ttft, gaps, _ in done),
    }


IMPORTER = Importer(
    name="vllm-bench",
    title="vllm bench serve results (--save-result, --append-result)",
    kinds=lambda _files: ("macro",),
    claims=_claims,
    read=_read,
)
