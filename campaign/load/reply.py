"""What an answer says: server-sent events out of a body, and the record of one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from campaign.load.exchange import Exchange
from campaign.load.framing import Response, parse_response
from campaign.load.record import Record

DONE = b"[DONE]"
#: Events of one read are a burst where they came within this part of the wait before them.
BURST = 0.1


class Usage(msgspec.Struct):
    """Token counts as the server states them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Delta(msgspec.Struct):
    """What a chat chunk adds."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class Choice(msgspec.Struct):
    """One choice of a chunk."""

    text: str | None = None
    delta: Delta | None = None
    token_ids: list[int] | None = None
    """Ids of the chunk's tokens, where they were asked for (an extension of vLLM's)."""
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    """One event of a stream, as far as it matters here."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def split_events(body: bytes) -> Iterator[tuple[int, bytes]]:
    """The data of each whole event with the body offset of its last byte, by the rules of server-sent events."""
    if b"\r" in body or body.startswith(b":") or b"\n:" in body:
        yield from _split_events_by_line(body)
        return
    start = 0
    while (end := body.find(b"\n\n", start)) >= 0:
        block = body[start:end]
        if block.startswith(b"data: ") and b"\n" not in block:
            yield end - 1, block[6:]
        elif block.strip():
            yield from _split_events_by_line(block + b"\n\n", start)
        start = end + 2


def _split_events_by_line(body: bytes, base: int = 0) -> Iterator[tuple[int, bytes]]:
    data: list[bytes] = []
    last, position = 0, 0
    for line in body.splitlines(keepends=True):
        text = line.rstrip(b"\r\n")
        if text == line:
            break
        if not text:
            if data:
                yield base + last, b"\n".join(data)
            data = []
        else:
            name, _, value = text.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
                last = position + len(text) - 1
        position += len(line)


class _Stream:
    """The events of one answer, added up."""

    def __init__(self, sent_ns: int) -> None:
        self._sent_ns = sent_ns
        self.times: list[int] = []
        self.counts: list[int] | None = []
        self.usage: Usage | None = None
        self.counted = 0
        self.error = ""
        self.finish_reason: str | None = None
        self.is_done = False
        self.shared_reads = 0
        self._last_read = -1
        self._is_burst = False

    def add(self, data: bytes, stamp_ns: int, since_ns: int, read: int, *, is_followed: bool) -> None:
        """Take one event that came in read number `read`, none of which had arrived before `since_ns`.

        `is_followed` = the read holds later bytes too, whose stamp it has.
        """
        if data == DONE:
            self.is_done = True
            return
        try:
            chunk = decode_chunk(data)
        except msgspec.MsgspecError as error:
            self.error = self.error or f"malformed event: {error}"
            return
        if chunk.error is not None or chunk.object == "error":
            self.error = self.error or f"in-band error: {_message_of(chunk)}"
            return
        usage = chunk.usage
        grown = 0
        if usage is not None and usage.completion_tokens is not None:
            self.usage = usage
            grown = usage.completion_tokens - self.counted
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        if grown <= 0 and not _has_content(choice):
            return
        self.times.append(self._time_of(stamp_ns, since_ns, read))
        # After the last token come the usage and the end, which the server adds at once.
        self.shared_reads += is_followed and not self._is_burst and choice.finish_reason is None
        if usage is None:
            self.counts = None
        elif self.counts is not None:
            self.counts.append(max(grown, 0))
            self.counted += max(grown, 0)

    def _time_of(self, stamp_ns: int, since_ns: int, read: int) -> int:
        """When an event came; those of one read are told apart (by a nanosecond) where they are known to be one burst.

        All of a read has the stamp of its last segment. What came within the last tenth of the wait for it came
        together, after that wait; of the rest nothing finer is known than that time, and they stay one chunk.
        """
        if read != self._last_read:
            before_ns = self.times[-1] if self.times else self._sent_ns
            self._is_burst = stamp_ns - since_ns <= BURST * (stamp_ns - before_ns)
            self._last_read = read
            return stamp_ns
        return self.times[-1] + 1 if self._is_burst else stamp_ns


def _has_content(choice: Choice) -> bool:
    delta = choice.delta
    if delta is None:
        return bool(choice.text)
    return bool(delta.content or delta.reasoning or delta.reasoning_content or delta.tool_calls)


def _message_of(chunk: Chunk) -> str:
    if isinstance(chunk.error, dict):
        return str(chunk.error.get("message", chunk.error))[:200]
    return str(chunk.error or chunk.message)[:200]


def record_of(exchange: Exchange, start_ns: int) -> Record:
    """Parse the raw reads of one exchange; times become relative to `start_ns`."""
    response = parse_response(exchange.reads, is_closed=exchange.outcome == "closed")
    stream = _Stream((exchange.sent_ns or start_ns) - start_ns)
    if response.status == 200:
        blank = len("\r\n\r\n") if b"\r" in response.body else len("\n\n")
        for offset, data in split_events(response.body):
            read = response.read_of(offset)
            stamp_ns = exchange.stamps_ns[read]
            since_ns = exchange.since_ns[read] if exchange.since_ns else exchange.sent_ns or start_ns
            is_followed = response.is_in_read(offset + 1 + blank, read)
            stream.add(data, stamp_ns - start_ns, since_ns - start_ns, read, is_followed=is_followed)
    final = stream.usage.completion_tokens if stream.usage else None
    counts = stream.counts
    if counts is None and final is not None and final == len(stream.times):
        counts = [1] * len(stream.times)
    elif counts is not None and sum(counts) != (final or 0):
        counts = None
    return Record(
        index=exchange.index,
        due_ns=_relative(exchange.due_ns, start_ns),
        sent_ns=_relative(exchange.sent_ns, start_ns),
        end_ns=_relative(exchange.end_ns, start_ns),
        chunk_ns=tuple(stream.times),
        chunk_tokens=None if counts is None else tuple(counts),
        input_tokens=stream.usage.prompt_tokens if stream.usage else None,
        output_tokens=final,
        error=_error_of(exchange, response, stream),
        is_cancelled=exchange.outcome == "cancelled" and not stream.error,
        has_stand_in=exchange.has_stand_in,
        finish_reason=stream.finish_reason,
        shared_reads=stream.shared_reads,
    )


def _relative(time_ns: int | None, start_ns: int) -> int | None:
    return None if time_ns is None else time_ns - start_ns


def _error_of(exchange: Exchange, response: Response, stream: _Stream) -> str:
    if response.status is not None and response.status != 200:
        error = f"http {response.status}: {response.body[:200].decode('utf-8', 'replace').strip()}"
    elif stream.error or exchange.outcome == "cancelled":
        error = stream.error
    elif response.problem:
        error = f"malformed http: {response.problem}"
    elif not response.is_complete:
        name = "cut" if exchange.outcome == "closed" else exchange.outcome
        error = f"{name}: {exchange.detail} after {len(stream.times)} events"
    elif not stream.is_done and stream.finish_reason is None:
        error = "incomplete: the stream ended without a finish reason"
    else:
        error = "" if stream.times else "empty: no event carried content"
    return error
