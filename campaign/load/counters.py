"""vLLM's counters and gauges: parsing the exposition, changes over a cell."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import msgspec

SAMPLE = re.compile(r"^(vllm:[a-zA-Z0-9_:]+)(?:\{(.*?)\})? +([-+0-9.eE]+|NaN|[+-]?Inf)", re.MULTILINE)
CACHE_INFO = re.compile(r"^vllm:cache_config_info\{(.*?)\}", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
POSITION = re.compile(r'position="(\d+)"')

#: Counters whose change over a cell is kept, without the `vllm:` prefix.
COUNTERS = (
    "generation_tokens_total",
    "prompt_tokens_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "num_preemptions_total",
    "request_success_total",
    "request_prefill_time_seconds_sum",
    "request_queue_time_seconds_sum",
    "request_decode_time_seconds_sum",
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
)
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of /metrics, summed over engines."""

    values: dict[str, float]
    """Metric name without `vllm:` → value."""
    per_position: tuple[float, ...] = ()
    """Accepted draft tokens by position; empty without speculation."""

    def get(self, name: str) -> float | None:
        """The value of `name`, null where the server does not report it."""
        return self.values.get(name)


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the counters over a cell and the gauges meanwhile."""

    deltas: dict[str, float]
    """Counter → change."""
    running: tuple[float, ...] = ()
    """num_requests_running, as sampled."""
    waiting: tuple[float, ...] = ()
    """num_requests_waiting, as sampled."""
    kv_usage: tuple[float, ...] = ()
    """kv_cache_usage_perc (a fraction), as sampled."""
    accepted_per_position: tuple[float, ...] = ()
    """Change of accepted draft tokens by position."""

    def delta(self, name: str) -> float | None:
        """Change of the counter `name`, null where the server does not report it."""
        return self.deltas.get(name)


def parse_metrics(text: str) -> Scrape:
    """The vLLM metrics of a Prometheus text exposition, summed over their labels."""
    values: dict[str, float] = defaultdict(float)
    positions: dict[int, float] = defaultdict(float)
    for name, labels, number in SAMPLE.findall(text):
        short = name.removeprefix("vllm:")
        if short in COUNTERS or short in GAUGES:
            values[short] += float(number)
        elif short == PER_POSITION and (found := POSITION.search(labels)):
            positions[int(found.group(1))] += float(number)
    return Scrape(values=dict(values), per_position=tuple(positions[i] for i in sorted(positions)))


def watch_of(before: Scrape | None, after: Scrape | None, texts: list[str]) -> Watch | None:
    """Changes between two readings with the samples between them; null where the server reports nothing."""
    if before is None or after is None:
        return None
    samples = [parse_metrics(text) for text in texts]

    def gauge(name: str) -> tuple[float, ...]:
        return tuple(s.values[name] for s in samples if name in s.values)

    positions = zip(after.per_position, before.per_position or (0.0,) * len(after.per_position), strict=False)
    return Watch(
        deltas=_deltas(before.values, after.values),
        running=gauge("num_requests_running"),
        waiting=gauge("num_requests_waiting"),
        kv_usage=gauge("kv_cache_usage_perc"),
        accepted_per_position=tuple(late - early for late, early in positions),
    )


def _deltas(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: after[name] - before.get(name, 0.0) for name in COUNTERS if name in after}
