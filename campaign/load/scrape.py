"""Reads vLLM's /metrics beside a cell: before, after, and while it runs."""

from __future__ import annotations

import threading
import time

import httpx

from campaign.load.counters import CACHE_INFO, LABEL, Scrape, parse_metrics
from campaign.load.endpoint import Endpoint


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

    def read_kv_capacity(self) -> int | None:
        """Tokens that the KV caches of all engines hold (blocks × block size); null where the server does not tell."""
        total = 0
        for labels in CACHE_INFO.findall(self.read_text() or ""):
            fields = dict(LABEL.findall(labels))
            blocks, size = fields.get("num_gpu_blocks", ""), fields.get("block_size", "")
            if blocks.isdigit() and size.isdigit():
                total += int(blocks) * int(size)
        return total or None

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
        # Sooner at first, so that short cells have samples too.
        while not self._end.wait(self._interval_s * (0.3 if len(self.texts) < 3 else 1.0)):
            text = self._scraper.read_text()
            if text is None:
                return
            self.texts.append(text)

    def stop(self) -> None:
        """End the sampling."""
        self._end.set()
        self.join()
        self._scraper.close()
