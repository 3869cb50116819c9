"""What a cell sends and when: requests with their bodies and due times, and the cell's limits."""

from __future__ import annotations

from typing import Literal

import msgspec

#: What a prompt is: token ids, one text, or the messages of a chat.
PromptForm = Literal["ids", "text", "messages"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of a session: its body is made when the answer before it is there."""

    form: PromptForm
    """What the session's prompts are."""
    fields: bytes
    """The JSON body up to the prompt's value."""
    said: bytes
    """What this turn adds to the session: ids, text or messages, without the brackets or quotes around them."""
    stand_in: bytes = b""
    """What is sent for the answer before it where the server's own cannot be had."""
    is_last: bool = False
    """Nothing follows, so that its answer is not looked at."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a cell."""

    index: int
    """Position in the plan, from 0."""
    body: bytes
    """JSON body as it goes over the wire."""
    input_tokens: int | None = None
    """Prompt length asked for; null where only the server can count it."""
    output_tokens: int = 0
    """Output length asked for."""
    due_s: float | None = None
    """Intended send time from the start of the cell; null = as soon as a slot is free."""
    after: int | None = None
    """Index of the request that must end first (the turn before)."""
    think_s: float = 0.0
    """Pause between the end of `after` and this request."""
    cancel_after_reads: int | None = None
    """Hang up after so many reads; null = never."""
    turn: Turn | None = None
    """Its place in a session, whose answers replace the stand-ins of `body`; null = a request by itself."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When the client gives up."""

    idle_timeout_s: float = 120.0
    """A stream without a byte for so long has failed (`stalled`)."""
    deadline_s: float = 3600.0
    """A cell ends after so long; what is unfinished then has failed (`deadline`)."""
    reconnect_s: float = 30.0
    """How long a request waits for a server that refuses connections."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All requests of one cell and how many may run at once."""

    requests: tuple[Request, ...]
    """In the order of sending."""
    concurrency: int | None = None
    """Most requests in flight; null = no cap (open loop)."""
    limits: Limits = Limits()
    """When the client gives up."""

    @property
    def is_closed_loop(self) -> bool:
        """Whether requests wait for free slots instead of due times."""
        return all(r.due_s is None for r in self.requests)


def split_plan(plan: Plan, ways: int) -> list[Plan]:
    """The plan dealt to `ways` processes: chains of turns stay together, slots are shared out evenly."""
    ways = max(1, min(ways, plan.concurrency or len(plan.requests)))
    home: dict[int, int] = {}
    hands: list[list[Request]] = [[] for _ in range(ways)]
    turn = 0
    for request in plan.requests:
        if request.after is not None and request.after in home:
            place = home[request.after]
        else:
            place, turn = turn % ways, turn + 1
        home[request.index] = place
        hands[place].append(request)
    slots = _shares(plan.concurrency, ways)
    return [
        Plan(requests=tuple(hand), concurrency=slot, limits=plan.limits)
        for hand, slot in zip(hands, slots, strict=True)
        if hand
    ]


def _shares(total: int | None, ways: int) -> list[int | None]:
    if total is None:
        return [None] * ways
    return [total // ways + (1 if i < total % ways else 0) for i in range(ways)]
