"""Prompts: token ids of exact length, text from a file, a shared prefix; fresh for every cell and repeat."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from campaign.load.endpoint import Api


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt as it goes into a body."""

    json: bytes
    """The value of `prompt` (completions) or `messages` (chat)."""
    tokens: int | None = None
    """Its exact length; null where only the server can count it."""
    output_tokens: int | None = None
    """Output length that belongs to it (files that say one)."""


class Prompts(Protocol):
    """A source of fresh prompts."""

    label: str
    """What they are made of, for the cell."""

    def draw(self, tokens: int) -> Prompt:
        """The next prompt, of `tokens` tokens where the source can make exact lengths."""


class RandomIds:
    """Random token ids: exact, need no tokenizer; they distort routing and acceptance of real weights."""

    label = "random"

    def __init__(self, seed: str, low: int = 0, high: int = 256) -> None:
        self._random = random.Random(seed)
        self._words = [str(i) for i in range(low, high)]

    def draw(self, tokens: int) -> Prompt:
        """Ids drawn evenly from the range."""
        return _ids_prompt(self._random.choices(self._words, k=tokens))


class TextIds:
    """Slices of a tokenised text at random places: exact lengths with the statistics of text."""

    label = "text"

    def __init__(self, seed: str, corpus: Sequence[int]) -> None:
        self._random = random.Random(seed)
        self._words = [str(i) for i in corpus]

    def draw(self, tokens: int) -> Prompt:
        """A slice that starts anywhere and wraps around."""
        start = self._random.randrange(len(self._words))
        words = self._words[start : start + tokens]
        while len(words) < tokens:
            words += self._words[: tokens - len(words)]
        return _ids_prompt(words)


class SharedPrefix:
    """The first part of each prompt is one of a few prefixes: what a prefix cache lives on."""

    def __init__(self, source: RandomIds | TextIds, share: float, groups: int = 1) -> None:
        self._source = source
        self._share = share
        self._groups = groups
        self._prefixes: dict[tuple[int, int], bytes] = {}
        self._turn = 0
        self.label = f"shared prefix {share:.0%}, {groups} group{'s' if groups > 1 else ''}, {source.label}"

    def draw(self, tokens: int) -> Prompt:
        """Prefix of the next group plus a fresh rest."""
        length = min(tokens - 1, round(tokens * self._share))
        group, self._turn = self._turn % self._groups, self._turn + 1
        key = (group, length)
        if key not in self._prefixes:
            self._prefixes[key] = self._source.draw(length).json[1:-1] if length > 0 else b""
        rest = self._source.draw(tokens - max(0, length)).json[1:-1]
        prefix = self._prefixes[key]
        return Prompt(json=b"[" + (prefix + b"," if prefix else b"") + rest + b"]", tokens=tokens)


class RandomWords:
    """Random words for chat endpoints, which take no token ids: the length is only near the one asked for."""

    label = "random words"

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def draw(self, tokens: int) -> Prompt:
        """About one word a token."""
        words = ("".join(self._random.choices("aeioulnrst", k=3)) for _ in range(tokens))
        return Prompt(json=_message(" ".join(words)))


class Texts:
    """Prompts from a file, in an order of their own for each seed, over and over."""

    label = "file"

    def __init__(self, seed: str, prompts: Sequence[tuple[str, int | None]], api: Api) -> None:
        order = list(prompts)
        random.Random(seed).shuffle(order)
        self._order = self._cycle(order)
        self._api = api

    @staticmethod
    def _cycle(order: list[tuple[str, int | None]]) -> Iterator[tuple[str, int | None]]:
        while True:
            yield from order

    def draw(self, tokens: int) -> Prompt:
        """The next text; `tokens` is not used."""
        text, output = next(self._order)
        json = _message(text) if self._api == "chat" else msgspec.json.encode(text)
        return Prompt(json=json, output_tokens=output)


def _ids_prompt(words: Sequence[str]) -> Prompt:
    return Prompt(json=b"[" + ",".join(words).encode() + b"]", tokens=len(words))


def _message(text: str) -> bytes:
    return msgspec.json.encode([{"role": "user", "content": text}])


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What a body holds beside the prompt."""

    api: Api = "completions"
    """completions or chat."""
    ignore_eos: bool = True
    """Have vLLM go on to the asked length (an extension of vLLM's)."""
    running_usage: bool = True
    """Ask for the token count with each chunk (an extension of vLLM's)."""
    token_ids: bool = False
    """Ask for the ids of the answer's tokens (an extension of vLLM's)."""
    parameters: dict[str, float | int | bool | str] = msgspec.field(default_factory=lambda: {"temperature": 0})
    """Further fields of the body, e.g. temperature, top_p."""

    def body(self, model: str, prompt: Prompt, output_tokens: int) -> bytes:
        """The JSON body of one streamed request."""
        return self.fields(model, output_tokens) + prompt.json + b"}"

    def with_token_ids(self) -> Sampling:
        """The same, asking for the ids of the answers where the server's extensions are asked for at all."""
        return msgspec.structs.replace(self, token_ids=self.running_usage)

    def fields(self, model: str, output_tokens: int) -> bytes:
        """The body up to the value of its prompt."""
        options = {"include_usage": True} | ({"continuous_usage_stats": True} if self.running_usage else {})
        fields: dict[str, object] = {"model": model, "max_tokens": output_tokens, "stream": True}
        fields["stream_options"] = options
        if self.ignore_eos:
            fields["ignore_eos"] = True
        if self.token_ids:
            fields["return_token_ids"] = True
        fields |= self.parameters
        name = b"messages" if self.api == "chat" else b"prompt"
        return msgspec.json.encode(fields)[:-1] + b',"' + name + b'":'
