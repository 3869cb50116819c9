"""Which prompts a load uses: the choice of a person, and what the server makes possible."""

from __future__ import annotations

from pathlib import Path

import msgspec

from campaign.errors import UsageError
from campaign.load.corpus import read_text_ids
from campaign.load.endpoint import Api, Endpoint
from campaign.load.prompts import Prompts, RandomIds, RandomWords, SharedPrefix, TextIds, Texts
from campaign.load.workload import PromptFactory


class PromptChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks for."""

    kind: str = "auto"
    """auto (text where the server tokenises, else random), text, random, or the path of a JSONL file."""
    api: Api = "completions"
    """chat takes no token ids."""
    vocab_size: int = 256
    """Random ids are drawn below it."""
    shared_prefix: float = 0.0
    """Fraction of each prompt that a group shares."""
    groups: int = 1
    """Different shared prefixes."""


def choose_prompts(choice: PromptChoice, endpoint: Endpoint, model: str) -> PromptFactory:
    """A maker of prompt sources by seed; raises `UsageError` where the choice cannot be met."""
    if choice.kind not in ("auto", "text", "random"):
        texts = read_prompts(Path(choice.kind))
        return lambda seed: Texts(seed, texts, choice.api)
    if choice.api == "chat":
        return RandomWords
    corpus = read_text_ids(endpoint, model) if choice.kind != "random" else None
    if corpus is None and choice.kind == "text":
        raise UsageError(f"{endpoint.url} has no /tokenize, so text of exact length cannot be made. Use random ids.")

    def make(seed: str) -> Prompts:
        source = RandomIds(seed, 0, choice.vocab_size) if corpus is None else TextIds(seed, corpus)
        return SharedPrefix(source, choice.shared_prefix, choice.groups) if choice.shared_prefix > 0 else source

    return make


class _Turn(msgspec.Struct):
    value: str = ""
    content: str = ""


class _Line(msgspec.Struct):
    prompt: str | None = None
    text: str | None = None
    conversations: list[_Turn] | None = None
    messages: list[_Turn] | None = None
    output_tokens: int | None = None
    output_len: int | None = None


def read_prompts(path: Path) -> list[tuple[str, int | None]]:
    """Prompts with their output lengths (null = not said) from a JSON list or JSON lines.

    Forms: {"prompt": …} (or "text", with "output_tokens" or "output_len"), ShareGPT's {"conversations": [{"value": …}]}
    and {"messages": [{"content": …}]}, of which the first turn counts. Raises `UsageError` naming the line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    found: list[tuple[str, int | None]] = []
    is_list = data.lstrip().startswith(b"[")
    try:
        lines = msgspec.json.decode(data, type=list[msgspec.Raw]) if is_list else data.splitlines()
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: is no JSON list: {error}. Write one JSON object a line.") from error
    for number, line in enumerate(lines, 1):
        if not bytes(line).strip():
            continue
        try:
            text, output = _prompt_of(msgspec.json.decode(line, type=_Line))
        except msgspec.MsgspecError as error:
            raise UsageError(f'{path}:{number}: {error}. Write {{"prompt": "…", "output_tokens": 64}}.') from error
        if text:
            found.append((text, output))
    if not found:
        raise UsageError(f'{path}: holds no prompt. Write one {{"prompt": "…"}} a line.')
    return found


def _prompt_of(line: _Line) -> tuple[str, int | None]:
    turns = line.conversations or line.messages or []
    first = (turns[0].value or turns[0].content) if turns else ""
    output = line.output_tokens if line.output_tokens is not None else line.output_len
    return line.prompt or line.text or first, output
