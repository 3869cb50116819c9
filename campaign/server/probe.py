"""What a server answers: who it is, whether a completion comes back, whether its counters move."""

from __future__ import annotations

import os
from typing import Any

import httpx
import msgspec

from campaign.errors import ServerError
from campaign.server.record import ServerRecord


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one completion of one token."""

    is_answered: bool
    """Whether a token came back in time and the server counted it."""
    is_timeout: bool = False
    """Whether nothing came within the time-out."""
    problem: str = ""
    """What went wrong, with the server's own words."""


def headers(api_key_env: str) -> dict[str, str]:
    """The authorization header, where a key's variable is named and set."""
    key = os.environ.get(api_key_env, "") if api_key_env else ""
    return {"Authorization": f"Bearer {key}"} if key else {}


def client(record: ServerRecord, timeout_s: float) -> httpx.Client:
    """A client for one server: no proxies from the environment, short connects."""
    return httpx.Client(
        base_url=record.url,
        headers=headers(record.api_key_env),
        timeout=httpx.Timeout(timeout_s, connect=min(5.0, timeout_s)),
        trust_env=False,
    )


def served_models(record: ServerRecord, timeout_s: float = 5.0) -> tuple[str, ...] | None:
    """Names of the models a server lists; None where nobody answers as an OpenAI server.

    Raises `ServerError` where it wants an API key.
    """
    try:
        with client(record, timeout_s) as http:
            answer = http.get("/v1/models")
        if answer.status_code in (401, 403):
            raise ServerError(
                f"{record.url} wants an API key (HTTP {answer.status_code}). Name the variable that holds it in "
                "server.api_key_env.",
                cause="no API key",
            )
        listed = answer.json()
        return tuple(str(model["id"]) for model in listed["data"])
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


def counters(record: ServerRecord, timeout_s: float = 5.0) -> dict[str, float] | None:
    """Counters and gauges of `/metrics` without labels, summed over engines; None where there are none."""
    try:
        with client(record, timeout_s) as http:
            answer = http.get("/metrics")
            answer.raise_for_status()
    except httpx.HTTPError:
        return None
    found: dict[str, float] = {}
    for line in answer.text.splitlines():
        if line.startswith(("vllm:", "process_start_time_seconds")):
            name = line.partition("{")[0].partition(" ")[0]
            try:
                found[name] = found.get(name, 0.0) + float(line.rpartition(" ")[2])
            except ValueError:
                continue
    return found


def complete_one_token(record: ServerRecord, timeout_s: float, before: dict[str, float] | None) -> Answer:
    """Ask for one token and see the server's token counter move from where it was `before` (None = not published).

    `/health` is not asked: it only reads a flag, and stays 200 while a worker hangs.
    """
    body: dict[str, Any] = {"model": record.served_name, "prompt": "Hi", "max_tokens": 1, "temperature": 0.0}
    try:
        with client(record, timeout_s) as http:
            answer = http.post("/v1/completions", json=body)
    except httpx.TimeoutException:
        return Answer(is_answered=False, is_timeout=True, problem=f"no completion within {timeout_s:.0f} s")
    except httpx.HTTPError as error:
        return Answer(is_answered=False, problem=f"{type(error).__name__}: {error}")
    if answer.status_code != 200:
        return Answer(is_answered=False, problem=f"HTTP {answer.status_code}: {answer.text[:300]}")
    after = counters(record) if before else None
    name = "vllm:generation_tokens_total"
    if before and after and name in after and after[name] <= before.get(name, 0.0):
        return Answer(is_answered=False, problem=f"a completion came back but {name} did not move")
    return Answer(is_answered=True)


def has_profiler(record: ServerRecord) -> bool:
    """Whether `/start_profile` exists, asked by a GET, which starts nothing (405 if it exists, 404 if not)."""
    try:
        with client(record, 5.0) as http:
            return http.get("/start_profile").status_code == 405
    except httpx.HTTPError:
        return False
