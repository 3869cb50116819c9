"""A load generator as one writes it in an afternoon, with the faults that known clients have: what tests must catch."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec


class NaiveAnswer(msgspec.Struct, frozen=True):
    """What it believes of one request."""

    is_success: bool
    tokens: int
    """One for each event with text."""
    ttft_s: float | None
    times_s: list[float]
    """When it got round to each event."""


def naive_tokens(reads: Sequence[bytes]) -> int:
    """Events with text, each read parsed by itself: what does not parse is left out in silence."""
    found = 0
    for read in reads:
        for line in read.split(b"\n"):
            if line.startswith(b"data: {"):
                try:
                    choices = json.loads(line[6:]).get("choices") or [{}]
                except ValueError:
                    continue
                found += bool(choices[0].get("text") or choices[0].get("delta", {}).get("content"))
    return found


def naive_request(port: int, model: str, output: int, prompt: Sequence[int] = (1, 2, 3)) -> NaiveAnswer:
    """Send one request and read until the end, however long that takes; whatever comes with status 200 is a success."""
    body = json.dumps({"model": model, "prompt": list(prompt), "max_tokens": output, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    times: list[float] = []
    tokens = 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begin = time.perf_counter()
        connection.sendall(head + body)
        status = b""
        while read := connection.recv(65536):
            status = status or read[:15]
            now = time.perf_counter()
            count = naive_tokens([read])
            tokens += count
            times += [now] * count
            if b"[DONE]" in read:
                break
    return NaiveAnswer(status.endswith(b"200 OK"), tokens, times[0] - begin if times else None, times)


def naive_cell(port: int, model: str, output: int, requests: int, concurrency: int) -> list[NaiveAnswer]:
    """A cell: the same prompts every time, in threads."""
    with ThreadPoolExecutor(concurrency) as pool:
        return list(pool.map(lambda n: naive_request(port, model, output, [n + 1, 2, 3]), range(requests)))


def naive_peak_tok_s(times_s: Sequence[float]) -> int:
    """The fullest bin of one second."""
    return max(Counter(int(time_s) for time_s in times_s).values())
