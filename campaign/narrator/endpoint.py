"""One question to an OpenAI-compatible endpoint, with a deadline and a limit; a bad endpoint never stops a campaign."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import httpx

#: A reply is cut here: a babbling endpoint is not read to its end.
MOST_BYTES = 200_000


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the narrator is, and how long it may take."""

    url: str
    """Base URL without /v1."""
    model: str
    """Served model name."""
    api_key_env: str = ""
    """Name of the environment variable that holds the key; empty = none."""
    seed: int = 0
    """Sampling seed; temperature is 0."""
    max_tokens: int = 400
    """Longest reply, tokens."""
    timeout_s: float = 60.0
    """Deadline of one try, s, from connecting to the last byte."""
    tries: int = 3
    """Tries until it is given up."""
    pause_s: float = 1.0
    """Pause after the first failed try, s; doubled each time."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back."""

    text: str | None
    """The message; null where there was none."""
    problem: str = ""
    """Why there was none."""
    tries: int = 1
    """How many tries it took."""


def ask(endpoint: Endpoint, prompt: str) -> Reply:
    """Ask once, retried on failure; returns a problem instead of raising."""
    import httpx

    problem = ""
    for number in range(1, endpoint.tries + 1):
        try:
            return Reply(text=_ask_once(httpx, endpoint, prompt), tries=number)
        except (httpx.HTTPError, httpx.InvalidURL, _BadReply) as error:
            problem = f"{type(error).__name__}: {error}".removeprefix("_BadReply: ")
        if number < endpoint.tries:
            time.sleep(endpoint.pause_s * 2 ** (number - 1))
    return Reply(text=None, problem=problem, tries=endpoint.tries)


class _BadReply(Exception):
    """The endpoint answered something that is no completion."""


def _ask_once(http: Any, endpoint: Endpoint, prompt: str) -> str:
    """Chat, else plain completion: a model without a chat template refuses the first with 400 or 404."""
    limits = {"model": endpoint.model, "temperature": 0, "seed": endpoint.seed, "max_tokens": endpoint.max_tokens}
    key = os.environ.get(endpoint.api_key_env, "") if endpoint.api_key_env else ""
    deadline = time.monotonic() + endpoint.timeout_s
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with http.Client(timeout=endpoint.timeout_s, trust_env=False, headers=headers) as client:
        messages = [{"role": "user", "content": prompt}]
        url = f"{endpoint.url.rstrip('/')}/v1"
        status, data = _post(client, f"{url}/chat/completions", {**limits, "messages": messages}, deadline)
        if status in (400, 404):
            status, data = _post(client, f"{url}/completions", {**limits, "prompt": prompt}, deadline)
    if status != 200:
        raise _BadReply(f"HTTP {status}: {data[:200].decode(errors='replace')}")
    return _message(data)


def _post(client: httpx.Client, url: str, body: dict[str, Any], deadline: float) -> tuple[int, bytes]:
    with client.stream("POST", url, json=body) as reply:
        return reply.status_code, _read(reply, deadline)


def _read(reply: httpx.Response, deadline: float) -> bytes:
    data = b""
    for piece in reply.iter_bytes():
        data += piece
        if len(data) > MOST_BYTES:
            raise _BadReply(f"more than {MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise _BadReply("the reply did not end in time")
    return data


def _message(data: bytes) -> str:
    try:
        choice = json.loads(data)["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _BadReply(f"no chat completion: {data[:200].decode(errors='replace')}") from error
    if not isinstance(text, str):
        raise _BadReply("a completion without text")
    return text
