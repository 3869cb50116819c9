"""What a person may write for a macro phase."""

from __future__ import annotations

from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
PositiveFloat = Annotated[float, msgspec.Meta(gt=0)]
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
    """poisson, gamma or constant."""
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
