"""From what a person asks for to the plan of a cell: lengths, arrivals, turns, prompts."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import msgspec

from campaign.load.arrivals import Arrival, TraceLine, offsets_s
from campaign.load.plan import Limits, Plan, Request, Turn
from campaign.load.prompts import Prompts, Sampling
from campaign.load.session import form_of, joined, said_in, stand_in_of

#: Makes a fresh source of prompts from a seed.
PromptFactory = Callable[[str], Prompts]
#: Warm-up answers are no longer than this: kernels depend on the batch, not on the answer's length.
WARM_UP_OUTPUT = 64


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """One load: how many requests, how long, how many at once or how often."""

    requests: int
    """How many requests a cell sends (of the first turn, where there are turns)."""
    input_tokens: int
    """Prompt length."""
    output_tokens: int
    """Output length."""
    concurrency: int | None = None
    """Slots; null = no cap (needs a rate or a trace)."""
    rate: float | None = None
    """Requests a second; null = closed loop."""
    arrival: Arrival = Arrival()
    """How requests of a rate come in."""
    trace: tuple[TraceLine, ...] = ()
    """A trace to replay instead (its times and lengths)."""
    turns: int = 1
    """Turns of a session; each sends the session so far and a new question of `input_tokens`."""
    think_s: float = 0.0
    """Pause between the turns of a session."""
    cancel_share: float = 0.0
    """Fraction of the requests whose client hangs up, spread evenly; not in sessions or replays."""
    cancel_after_reads: int = 8
    """After so many reads of the answer."""


def seed_text(seed: int, *parts: object) -> str:
    """The seed of one purpose; different for every cell, repeat and warm-up round."""
    return "/".join(map(str, (seed, *parts)))


def seed_number(text: str) -> int:
    """A seed text as a number to record."""
    return zlib.crc32(text.encode())


def plan_of(load: Load, prompts: Prompts, sampling: Sampling, *, model: str, seed: str, limits: Limits) -> Plan:
    """The plan of one cell."""
    if load.trace:
        requests = _replay(load.trace, prompts, sampling, model)
    elif load.turns > 1:
        requests = _sessions(load, prompts, sampling, model, seed)
    else:
        requests = _single(load, prompts, sampling, model, seed)
    return Plan(requests=tuple(requests), concurrency=load.concurrency, limits=limits)


def warm_up_plan(load: Load, prompts: Prompts, sampling: Sampling, *, model: str, limits: Limits) -> Plan:
    """One warm-up round: as many requests as run at once in the cell, all at once."""
    count = load.concurrency or min(load.requests, 8)
    output = min(load.output_tokens, WARM_UP_OUTPUT)
    first = Load(requests=count, input_tokens=load.input_tokens, output_tokens=output, concurrency=count)
    return plan_of(first, prompts, sampling, model=model, seed="", limits=limits)


def _single(load: Load, prompts: Prompts, sampling: Sampling, model: str, seed: str) -> list[Request]:
    due = _due(load, load.requests, seed)
    requests = []
    for index in range(load.requests):
        prompt = prompts.draw(load.input_tokens)
        output = prompt.output_tokens or load.output_tokens
        requests.append(
            Request(
                index=index,
                body=sampling.body(model, prompt, output),
                input_tokens=prompt.tokens,
                output_tokens=output,
                due_s=due[index],
                cancel_after_reads=load.cancel_after_reads if _is_cancelled(load, index) else None,
            )
        )
    return requests


def _is_cancelled(load: Load, index: int) -> bool:
    """Whether the share of cancelled requests grows past a whole one with this request."""
    return int((index + 1) * load.cancel_share) > int(index * load.cancel_share)


def _due(load: Load, count: int, seed: str) -> Sequence[float | None]:
    return [None] * count if load.rate is None else offsets_s(load.arrival, load.rate, count, seed + "/arrivals")


def _replay(trace: Sequence[TraceLine], prompts: Prompts, sampling: Sampling, model: str) -> list[Request]:
    requests = []
    for index, line in enumerate(trace):
        prompt = prompts.draw(line.input_tokens)
        requests.append(
            Request(
                index=index,
                body=sampling.body(model, prompt, line.output_tokens),
                input_tokens=prompt.tokens,
                output_tokens=line.output_tokens,
                due_s=line.time_s,
            )
        )
    return requests


def _sessions(load: Load, prompts: Prompts, sampling: Sampling, model: str, seed: str) -> list[Request]:
    """Sessions: a turn sends all before it, the server's answers too, and a new question.

    The bodies made here hold stand-ins of the asked length for the answers, which are not there yet.
    """
    due = _due(load, load.requests, seed)
    requests: list[Request] = []
    for session in range(load.requests):
        parts: list[bytes] = []
        length: int | None = 0
        before = None
        for number in range(load.turns):
            prompt = prompts.draw(load.input_tokens)
            form, said, stand_in = form_of(prompt), said_in(prompt), b""
            asked = sampling.with_token_ids() if form == "ids" else sampling
            if number:
                stand_in = stand_in_of(prompts.draw(load.output_tokens))
                parts.append(stand_in)
                length = length + load.output_tokens if length is not None else None
            parts.append(said)
            length = length + prompt.tokens if length is not None and prompt.tokens is not None else None
            fields = asked.fields(model, load.output_tokens)
            turn = Turn(form=form, fields=fields, said=said, stand_in=stand_in, is_last=number == load.turns - 1)
            requests.append(
                Request(
                    index=len(requests),
                    body=fields + joined(form, parts) + b"}",
                    input_tokens=length,
                    output_tokens=load.output_tokens,
                    due_s=due[session] if number == 0 else None,
                    after=before,
                    think_s=load.think_s if number else 0.0,
                    turn=turn,
                )
            )
            before = requests[-1].index
    return requests
