"""What a person may write for a macro phase."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Fraction = Annotated[float, msgspec.Meta(ge=0, le=1)]


class SloParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """slo = { ttft_ms = 2000, tpot_ms = 50 }."""

    ttft_ms: PositiveFloat | None = None
    """Limit of the time to the first token."""
    tpot_ms: PositiveFloat | None = None
    """Limit of the time per output token."""
    e2el_ms: PositiveFloat | None = None
    """Limit of the end-to-end latency."""


class MacroParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "macro"."""

    input_tokens: tuple[Positive, ...] | Positive = 128
    """Prompt lengths."""
    output_tokens: Positive = 32
    """Output length."""
    concurrency: tuple[Positive, ...] | Positive = (1, 2, 4, 8)
    """Requests at once, one cell each."""
    rate: tuple[PositiveFloat, ...] | PositiveFloat = ()
    """Requests a second, one open-loop cell each."""
    arrival: str = "poisson"
    """poisson, gamma, constant, or ramp (the rate grows evenly from `rate_from` to the rate)."""
    rate_from: NonNegative = 0.0
    """Requests a second at the start of a ramp."""
    burstiness: PositiveFloat = 1.0
    """Shape of the gamma process; below 1 = bursts."""
    repeats: Positive = 3
    """Repeats of each cell; three or more give a confidence interval."""
    requests: Positive | None = None
    """Requests a cell; default: twice the concurrency, at least eight."""
    slo: SloParameters = SloParameters()
    """Limits that goodput counts by."""
    ignore_eos: bool = True
    """Have answers go on to the asked length."""
    prompts: str = "auto"
    """auto (text where the server tokenises, else random ids), text, random, or the path of a JSONL file."""
    api: Literal["completions", "chat"] = "completions"
    """The endpoint; a chat's prompts are words, so that their lengths are only near the asked ones."""
    sampling: dict[str, float | int | bool | str] = msgspec.field(default_factory=lambda: {"temperature": 0})
    """Further fields of each request's body."""
    turns: Positive = 1
    """Turns of a session: each sends all before it, the server's answers too, and a new question."""
    think_s: NonNegative = 0.0
    """Pause between the turns of a session."""
    shared_prefix: Fraction = 0.0
    """Fraction of each prompt that all share."""
    processes: Positive = 1
    """Client processes to begin with."""
    max_failed: Fraction = 0.0
    """Fraction of a cell's requests that may fail."""
    seed: int = 1
    """Seed of prompts and arrivals."""
    idle_timeout_s: PositiveFloat = 120.0
    """A stream without a byte for so long has failed."""
    cell_deadline_s: PositiveFloat = 3600.0
    """A cell ends after so long."""
