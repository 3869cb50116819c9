"""A cell in the form of `vllm bench serve --save-result --save-detailed`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from campaign.load import latency
from campaign.load.cell import Cell
from campaign.load.record import Record

PERCENTILES = (50, 90, 95, 99)


def vllm_result(cell: Cell, records: Sequence[Record], *, model: str, burstiness: float = 1.0) -> dict[str, Any]:
    """The result object of vLLM's own client: times in seconds, summaries in ms; null where nothing is known.

    Its percentiles are over all completed requests, without the sample limits of a cell.
    """
    done = [r for r in records if r.is_completed]
    duration = cell.duration_s
    tokens_in, tokens_out = sum(r.input_tokens or 0 for r in done), sum(r.output_tokens or 0 for r in done)
    itls = [latency.itls_ns(r) for r in done]
    result: dict[str, Any] = {
        "date": datetime.now(UTC).strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(records),
        "request_rate": "inf" if cell.rate_asked is None else cell.rate_asked,
        "burstiness": burstiness,
        "max_concurrency": cell.concurrency_asked,
        "duration": duration,
        "completed": cell.completed,
        "failed": cell.failed,
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": _rate(cell.completed, duration),
        "request_goodput": cell.goodput.req_s if cell.goodput else None,
        "output_throughput": _rate(tokens_out, duration),
        "total_token_throughput": _rate(tokens_in + tokens_out, duration),
        "max_output_tokens_per_s": cell.output_tok_s_peak,
        "max_concurrent_requests": cell.concurrency_peak,
    }
    for name, samples in (
        ("ttft", [latency.ttft_ns(r) for r in done]),
        ("tpot", [latency.tpot_ns(r) for r in done]),
        ("itl", [value for values in itls if values for value in values]),
        ("e2el", [latency.e2el_ns(r) for r in done]),
    ):
        result |= _summary(name, [value / 1e6 for value in samples if value is not None])
    return result | _details(records)


def _rate(count: float, duration_s: float) -> float | None:
    return count / duration_s if duration_s else None


def _summary(name: str, samples: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(samples)
    if not ordered:
        keys = ("mean", "median", "std", *(f"p{p}" for p in PERCENTILES))
        return {f"{key}_{name}_ms": None for key in keys}
    mean = math.fsum(ordered) / len(ordered)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in ordered) / len(ordered))
    head = {"mean": mean, "median": latency.percentile(ordered, 50), "std": deviation}
    tail = {f"p{p}": latency.percentile(ordered, p) for p in PERCENTILES}
    return {f"{key}_{name}_ms": value for key, value in (head | tail).items()}


def _details(records: Sequence[Record]) -> dict[str, Any]:
    def seconds(value: float | None) -> float | None:
        return None if value is None else value / 1e9

    return {
        "input_lens": [r.input_tokens for r in records],
        "output_lens": [r.output_tokens or 0 for r in records],
        "ttfts": [seconds(latency.ttft_ns(r)) for r in records],
        "itls": [[gap / 1e9 for gap in latency.chunk_gaps_ns(r)] for r in records],
        "start_times": [seconds(r.sent_ns) for r in records],
        "generated_texts": ["" for _ in records],
        "errors": [r.error for r in records],
    }
