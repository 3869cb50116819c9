"""Records a real server's streams as test data: `python -m tests.load.record_streams URL MODEL FOLDER ENGINE`.

Each file holds one exchange as the wire client read it, and what the server's own counter said of it. The server is a
vLLM of `make_thinking_model` with `--load-format dummy --reasoning-parser deepseek_r1`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from campaign import files, schema
from campaign.load.endpoint import Api, endpoint_of
from campaign.load.plan import Plan, Request
from campaign.load.scrape import Scraper
from campaign.load.wire import Wire
from campaign.server.tiny import make_tiny_model

END_OF_THOUGHT, END_OF_SEQUENCE = 1023, 1


def make_thinking_model(folder: Path) -> None:
    """A tiny model whose tokenizer knows the marks of reasoning as single tokens."""
    make_tiny_model(folder, "llama")
    path = folder / "tokenizer.json"
    text = path.read_text()
    added = []
    for token, name in ((1022, "<think>"), (END_OF_THOUGHT, "</think>")):
        text = text.replace(f'"<extra_{token}>"', f'"{name}"')
        added.append({"id": token, "content": name, "special": True, "normalized": False})
    tokenizer = json.loads(text)
    plain = {"single_word": False, "lstrip": False, "rstrip": False}
    tokenizer["added_tokens"] += [plain | token for token in added]
    path.write_text(json.dumps(tokenizer))


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange with a real server."""

    engine: str
    """Name and version of the server."""
    api: Api
    """The endpoint."""
    body: str
    """What was sent."""
    reads: list[str]
    """Each read as it came (latin-1, so that every byte is one character)."""
    stamps_us: list[int]
    """Arrival of each read, microseconds from the send."""
    generation_tokens: int
    """Change of the server's token counter."""
    prompt_tokens: int
    """Change of its prompt token counter."""


#: Name → endpoint and what its body holds beside the model and the stream options.
CASES: dict[str, tuple[Api, dict[str, Any]]] = {
    "completions": ("completions", {"prompt": [5, 6, 7, 8, 9], "max_tokens": 12, "temperature": 0}),
    "completions-ids": ("completions", {"prompt": [5, 6, 7], "max_tokens": 9, "return_token_ids": True}),
    "completions-half-characters": (
        "completions",
        {"prompt": [9, 9], "max_tokens": 24, "allowed_token_ids": list(range(130, 258)), "ignore_eos": True, "seed": 3},
    ),
    "completions-stop": (
        "completions",
        {"prompt": [5, 6], "max_tokens": 60, "logit_bias": {str(END_OF_SEQUENCE): 4.0}, "seed": 4},
    ),
    "chat-content": (
        "chat",
        {"messages": [{"role": "user", "content": "hello </think>"}], "max_tokens": 10, "ignore_eos": True},
    ),
    "chat-reasoning": (
        "chat",
        {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 10, "ignore_eos": True, "temperature": 0},
    ),
    "chat-reasoning-then-content": (
        "chat",
        {
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 40,
            "ignore_eos": True,
            "logit_bias": {str(END_OF_THOUGHT): 4.0},
            "seed": 4,
        },
    ),
    "completions-refused": ("completions", {"prompt": [5] * 600, "max_tokens": 5}),
}
#: The same with the token count only at the end.
FINAL_USAGE = ("completions", "chat-reasoning-then-content")


def record(url: str, model: str, engine: str, api: Api, fields: dict[str, Any], *, is_running_usage: bool) -> Recording:
    """One exchange, with the counters around it."""
    options = {"include_usage": True} | ({"continuous_usage_stats": True} if is_running_usage else {})
    body = msgspec.json.encode({"model": model, "stream": True, "stream_options": options} | fields)
    endpoint = endpoint_of(url, api=api)
    scraper = Scraper(endpoint)
    before = scraper.read()
    (exchange,) = Wire(Plan(requests=(Request(index=0, body=body),), concurrency=1), endpoint).run().exchanges
    after = scraper.read_settled(before, -1)
    assert before is not None and after is not None and exchange.sent_ns is not None
    sent_ns = exchange.sent_ns

    def change(name: str) -> int:
        return round(after.values[name] - before.values[name])

    return Recording(
        engine=engine,
        api=api,
        body=body.decode(),
        reads=[read.decode("latin-1") for read in exchange.reads],
        stamps_us=[round((stamp - sent_ns) / 1000) for stamp in exchange.stamps_ns],
        generation_tokens=change("generation_tokens_total"),
        prompt_tokens=change("prompt_tokens_total"),
    )


def main() -> None:
    """Record every case."""
    url, model, folder, engine = sys.argv[1:]
    for name, (api, fields) in CASES.items():
        for suffix, is_running in (("", True), *([("-final-usage", False)] if name in FINAL_USAGE else [])):
            made = record(url, model, engine, api, fields, is_running_usage=is_running)
            files.write_atomic(Path(folder) / f"{name}{suffix}.json", schema.encode_pretty(made))
            print(f"{name}{suffix}: {len(made.reads)} reads, {made.generation_tokens} tokens")


if __name__ == "__main__":
    main()
