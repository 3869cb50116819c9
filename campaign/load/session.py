"""Sessions of several turns: each sends all before it, with the answers as the server gave them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from campaign.load.exchange import Exchange
from campaign.load.framing import parse_response
from campaign.load.plan import PromptForm, Request
from campaign.load.prompts import Prompt
from campaign.load.reply import DONE, Choice, decode_chunk, split_events


def form_of(prompt: Prompt) -> PromptForm:
    """What a prompt is, told from its JSON."""
    if prompt.json.startswith(b'"'):
        return "text"
    return "messages" if prompt.json.startswith(b"[{") else "ids"


def said_in(prompt: Prompt) -> bytes:
    """What a prompt adds to a session: its JSON without the brackets or quotes around it."""
    return prompt.json[1:-1]


def joined(form: PromptForm, parts: Iterable[bytes]) -> bytes:
    """Parts of a session as the value of a body's prompt: text runs on, ids and messages follow each other."""
    if form == "text":
        return b'"' + b"".join(parts) + b'"'
    return b"[" + b",".join(part for part in parts if part) + b"]"


class _Message(msgspec.Struct):
    content: str
    role: str = "assistant"


def stand_in_of(prompt: Prompt) -> bytes:
    """A prompt's words or ids in the place of an answer, as a part of a session."""
    if form_of(prompt) != "messages":
        return said_in(prompt)
    words = " ".join(message.content for message in msgspec.json.decode(prompt.json, type=list[_Message]))
    return msgspec.json.encode(_Message(content=words))


def answer_in(exchange: Exchange, form: PromptForm) -> bytes | None:
    """The server's answer as a part of the session; null where it failed, or did not tell the ids of its tokens.

    Of a chat's answer the content counts: reasoning is not sent back, as chat templates leave it out.
    """
    response = parse_response(exchange.reads, is_closed=exchange.outcome == "closed")
    if exchange.outcome != "complete" or response.status != 200:
        return None
    choices: list[Choice] = []
    for _, data in split_events(response.body):
        if data != DONE:
            try:
                chunk = decode_chunk(data)
            except msgspec.MsgspecError:
                return None
            if chunk.error is not None:
                return None
            choices += chunk.choices[:1]
    if form == "ids":
        ids = [token for choice in choices for token in choice.token_ids or ()]
        return ",".join(map(str, ids)).encode() if ids else None
    if form == "messages":
        content = "".join(choice.delta.content or "" for choice in choices if choice.delta)
        return msgspec.json.encode(_Message(content=content))
    return msgspec.json.encode("".join(choice.text or "" for choice in choices))[1:-1]


class Sessions:
    """The sessions of one cell as they go on."""

    def __init__(self) -> None:
        self._so_far: dict[int, tuple[list[bytes], bool]] = {}
        self._answers: dict[int, bytes | None] = {}

    def begin_turn(self, request: Request, exchange: Exchange) -> bytes:
        """The body of a request whose turn has come."""
        turn = request.turn
        if turn is None:
            return request.body
        parts: list[bytes] = []
        has_stand_in = False
        if request.after is not None:
            parts, has_stand_in = self._so_far.pop(request.after)
            answer = self._answers.pop(request.after, None)
            parts.append(turn.stand_in if answer is None else answer)
            has_stand_in = has_stand_in or answer is None
        parts.append(turn.said)
        self._so_far[request.index] = (parts, has_stand_in)
        exchange.has_stand_in = has_stand_in
        return turn.fields + joined(turn.form, parts) + b"}"

    def end_turn(self, request: Request, exchange: Exchange) -> None:
        """Take in the answer of a request that another follows."""
        if request.turn is not None and not request.turn.is_last:
            self._answers[request.index] = answer_in(exchange, request.turn.form)
