"""Streams recorded from a real vLLM, as they came and cut in every way: the tokens are the server's own count."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign.load.exchange import Exchange
from campaign.load.record import Record
from campaign.load.reply import record_of
from campaign.load.session import answer_in
from tests.load.naive import naive_tokens
from tests.load.record_streams import Recording

FOLDER = Path(__file__).parents[1] / "data" / "streams"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def recording(name: str) -> Recording:
    """A recorded stream."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=Recording)


def exchange_of(reads: list[bytes], stamps_ns: list[int]) -> Exchange:
    """An exchange that ended well."""
    return Exchange(index=0, sent_ns=0, stamps_ns=stamps_ns, reads=reads, end_ns=stamps_ns[-1], outcome="complete")


def as_it_came(made: Recording) -> Exchange:
    """The exchange with its own reads."""
    reads = [read.encode("latin-1") for read in made.reads]
    return exchange_of(reads, [stamp * 1000 for stamp in made.stamps_us])


def read_whole(name: str) -> Record:
    """The record of a stream as it came."""
    return record_of(as_it_came(recording(name)), 0)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "completions-refused"])
def test_stream__tokens_are_the_servers_however_it_is_cut(name: str) -> None:
    made = recording(name)
    whole = record_of(as_it_came(made), 0)
    assert (whole.error, whole.output_tokens, whole.input_tokens) == ("", made.generation_tokens, made.prompt_tokens)
    if not name.endswith("final-usage"):
        assert whole.chunk_tokens is not None and sum(whole.chunk_tokens) == made.generation_tokens
    data = b"".join(read.encode("latin-1") for read in made.reads)
    rng = random.Random(name)
    for pieces in (1, 2, 7, 60, len(data)):
        places = (
            sorted(rng.sample(range(1, len(data)), pieces - 1)) if pieces < len(data) else list(range(1, len(data)))
        )
        reads = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
        cut = record_of(exchange_of(reads, list(range(1, len(reads) + 1))), 0)
        assert (cut.error, cut.chunk_tokens, len(cut.chunk_ns)) == ("", whole.chunk_tokens, len(whole.chunk_ns))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "completions-refused"])
def test_stream__torn_anywhere_it_is_a_failure_with_the_tokens_that_came(name: str) -> None:
    made = recording(name)
    data = b"".join(read.encode("latin-1") for read in made.reads)
    before = 0
    for place in range(1, data.index(b"data: [DONE]"), 37):
        torn = exchange_of([data[:place]], [1])
        torn.outcome = "closed"
        record = record_of(torn, 0)
        assert record.error
        assert before <= (record.output_tokens or 0) <= made.generation_tokens
        before = record.output_tokens or 0


def test_stream__reasoning_counts_and_the_role_does_not() -> None:
    reasoning, content = read_whole("chat-reasoning"), read_whole("chat-content")
    assert (len(reasoning.chunk_ns), len(content.chunk_ns)) == (10, 10)
    made = recording("chat-reasoning-then-content")
    assert any('"role":"assistant","content":""' in read for read in made.reads)
    assert any('"reasoning":' in read for read in made.reads) and any('"content":"' in read for read in made.reads[2:])
    assert sum(read_whole("chat-reasoning-then-content").chunk_tokens or ()) == 40


def test_stream__tokens_that_are_half_a_character_are_tokens() -> None:
    """Their text is empty: who counts texts misses most of them."""
    made = recording("completions-half-characters")
    assert naive_tokens([read.encode("latin-1") for read in made.reads]) < made.generation_tokens / 2
    assert sum(read_whole("completions-half-characters").chunk_tokens or ()) == made.generation_tokens == 24


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("final-usage")])
def test_stream__without_running_usage_what_is_unknown_is_null(name: str) -> None:
    """The server put two tokens in some event, or half a character: which one, nothing says."""
    hidden = read_whole(name)
    assert hidden.output_tokens == recording(name).generation_tokens > len(hidden.chunk_ns)
    assert hidden.chunk_tokens is None


def test_stream__a_refusal_is_a_failure_with_the_servers_words() -> None:
    refused = read_whole("completions-refused")
    assert refused.error.startswith("http 400: ")
    assert "512" in refused.error
    assert refused.output_tokens is None


def choices_of(made: Recording) -> list[dict[str, Any]]:
    """The first choice of each event, read the plain way from the whole body."""
    text = "".join(made.reads).encode("latin-1").decode()
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return [event["choices"][0] for event in events if event["choices"]]


def test_stream__its_answer_for_the_next_turn() -> None:
    made = recording("completions-ids")
    ids = answer_in(as_it_came(made), "ids")
    expected = [token for choice in choices_of(made) for token in choice["token_ids"]]
    assert ids is not None and [int(word) for word in ids.split(b",")] == expected
    assert len(expected) == made.generation_tokens
    plain = recording("completions")
    assert answer_in(as_it_came(plain), "ids") is None  # the server was not asked for them
    text = answer_in(as_it_came(plain), "text")
    assert text is not None and json.loads(b'"' + text + b'"') == "".join(c["text"] for c in choices_of(plain))
    assert answer_in(as_it_came(recording("completions-refused")), "text") is None


def test_stream__an_answer_in_a_chat_is_its_content_without_the_reasoning() -> None:
    made = recording("chat-reasoning-then-content")
    message = json.loads(answer_in(as_it_came(made), "messages") or b"{}")
    content = "".join(choice["delta"].get("content") or "" for choice in choices_of(made))
    reasoning = "".join(choice["delta"].get("reasoning") or "" for choice in choices_of(made))
    assert message == {"role": "assistant", "content": content}
    assert content and reasoning
