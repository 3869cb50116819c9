"""vLLM's /metrics beside a cell: counters before and after, gauges while it runs."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Mapping

import httpx
import msgspec

from campaign.load.endpoint import Endpoint

SAMPLE = re.compile(r"^(vllm:[a-zA-Z0-9_:]+)(?:\{(.*?)\})? +([-+0-9.eE]+|NaN|[+-]?Inf)", re.MULTILINE)
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


class Scraper:
    """Reads /metrics of one server; a server without it gives nulls, never an error."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._client = httpx.Client(verify=endpoint.is_verified if endpoint.is_tls else False, timeout=5.0)
        self._url = endpoint.url + "/metrics"
        self._headers = dict(endpoint.headers)

    def read(self) -> Scrape | None:
        """One reading; null where the server has no vLLM metrics or does not answer."""
        text = self.read_text()
        scrape = parse_metrics(text) if text else None
        return scrape if scrape and scrape.values else None

    def read_text(self) -> str | None:
        """The raw exposition; null where there is none."""
        try:
            answer = self._client.get(self._url, headers=self._headers)
        except httpx.HTTPError:
            return None
        return answer.text if answer.status_code == 200 else None

    def read_settled(self, before: Scrape | None, expected_tokens: int, patience_s: float = 3.0) -> Scrape | None:
        """A reading once the token counter moved by `expected_tokens`, or has stood still for a while."""
        end = time.monotonic() + patience_s
        last: float | None = None
        still = 0
        while True:
            scrape = self.read()
            if scrape is None or before is None:
                return scrape
            name = "generation_tokens_total"
            tokens = scrape.values.get(name)
            running = scrape.values.get("num_requests_running", 0)
            if tokens is None or (tokens - before.values.get(name, 0.0) == expected_tokens and running == 0):
                return scrape
            still = still + 1 if tokens == last and running == 0 else 0
            if still >= 8 or time.monotonic() > end:
                return scrape
            last = tokens
            time.sleep(0.1)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class Sampler(threading.Thread):
    """Keeps the raw text of /metrics at an interval while a cell runs; parsed afterwards."""

    def __init__(self, endpoint: Endpoint, interval_s: float) -> None:
        super().__init__(daemon=True)
        self._scraper = Scraper(endpoint)
        self._interval_s = interval_s
        self._end = threading.Event()
        self.texts: list[str] = []

    def run(self) -> None:
        """Sample until stopped."""
        while not self._end.wait(self._interval_s):
            text = self._scraper.read_text()
            if text is None:
                return
            self.texts.append(text)

    def stop(self) -> None:
        """End the sampling."""
        self._end.set()
        self.join()
        self._scraper.close()


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
