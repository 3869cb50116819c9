"""The macro phase's config and result."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from campaign.load.arrivals import Arrival
from campaign.load.cell import Cell, CellSummary
from campaign.load.endpoint import Api
from campaign.load.plan import Limits
from campaign.load.slo import Slo
from campaign.load.workload import Load
from campaign.phases.kind import ServerAccess


class MacroConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What `campaign.measure.macro` is given."""

    server: ServerAccess
    """Where to send requests."""
    input_tokens: tuple[int, ...]
    """Prompt lengths of the grid."""
    output_tokens: int
    """Output length."""
    concurrency: tuple[int, ...]
    """Slots of the closed-loop cells."""
    rate: tuple[float, ...] = ()
    """Requests a second of the open-loop cells."""
    arrival: Arrival = Arrival()
    """How requests of a rate arrive."""
    repeats: int = 3
    """Repeats of each cell."""
    requests: int | None = None
    """Requests a cell; null = twice the concurrency, at least eight."""
    slo: Slo = Slo()
    """Limits of a good request."""
    ignore_eos: bool = True
    """Answers go on to the asked length."""
    prompts: str = "auto"
    """auto, text, random, or the path of a JSONL file."""
    shared_prefix: float = 0.0
    """Fraction of each prompt that all prompts share."""
    vocab_size: int = 256
    """Random ids are drawn below it."""
    processes: int = 1
    """Client processes to begin with."""
    max_failed: float = 0.0
    """Fraction of a cell's requests that may fail."""
    device: str = "cpu"
    """cuda or cpu: what the server runs on."""
    seed: int = 1
    """Seed of prompts and arrivals."""
    limits: Limits = Limits()
    """When the client gives up."""
    # What a campaign did not ask for is not there, so that results from before these could be asked for stay current.
    api: Api | UnsetType = UNSET
    """The endpoint, where it is not completions."""
    sampling: dict[str, float | int | bool | str] | UnsetType = UNSET
    """Further fields of each body, where they are not a temperature of 0."""
    turns: int | UnsetType = UNSET
    """Turns of a session, where there are several."""
    think_s: float | UnsetType = UNSET
    """Pause between turns, where there is one."""


class MacroPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One grid point: a load and its repeat."""

    key: str
    """The point's key, e.g. `i128-c4-r1`."""
    load: Load
    repeat: int


class MacroData(msgspec.Struct, frozen=True, kw_only=True):
    """The macro result: the form of `load --json` and what else was seen."""

    schema: str = "campaign-load"
    schema_version: int = 1
    cells: tuple[Cell, ...] = ()
    """Every cell, invalid ones too."""
    summary: tuple[CellSummary, ...] = ()
    """Valid repeats joined."""
    kv_capacity_tokens: int | None = None
    """Tokens that the server's KV cache holds; null where it does not tell."""
    raw_file: str = ""
    """Name of the file beside the result with every request's raw times."""


def points_of(config: MacroConfig) -> tuple[MacroPoint, ...]:
    """The grid, repeats outermost, so that a drift of the machine shows between repeats and not between cells."""
    points: list[MacroPoint] = []
    common: dict[str, Any] = {"output_tokens": config.output_tokens, "turns": config.turns or 1}
    common["think_s"] = config.think_s or 0.0
    for repeat in range(1, config.repeats + 1):
        for length in config.input_tokens:
            for slots in config.concurrency:
                count = config.requests or max(2 * slots, 8)
                load = Load(requests=count, input_tokens=length, concurrency=slots, **common)
                points.append(MacroPoint(key=f"i{length}-c{slots}-r{repeat}", load=load, repeat=repeat))
            for rate in config.rate:
                load = Load(
                    requests=config.requests or max(16, round(10 * rate)),
                    input_tokens=length,
                    rate=rate,
                    arrival=config.arrival,
                    **common,
                )
                points.append(MacroPoint(key=f"i{length}-q{rate:g}-r{repeat}", load=load, repeat=repeat))
    return tuple(points)
