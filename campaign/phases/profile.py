"""profile: where every microsecond of a decode step goes, by batch size."""

from __future__ import annotations

from typing import Annotated

import msgspec

from campaign import schema
from campaign.errors import ConfigError
from campaign.model import read_model_file, shard
from campaign.phases.kind import Analysis, Context, Figure, PhaseKind, ServerAccess, Target
from campaign.schema import Finding, Quantity, Result, Source
from campaign.trace import TraceAnalysis

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "profile"."""

    batch: tuple[Positive, ...] | Positive = (1,)
    """Concurrent requests under the profiler; one point each."""
    steps: Positive = 50
    """Decode steps to record; bounds the size of the traces."""
    input_tokens: Positive = 128
    """Prompt length."""
    step_regex: str = ""
    """Names of step annotations, where the engine's are not recognised."""
    categories: dict[str, str] = {}
    """Name pattern → category, before the shipped table."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The script's config."""

    target: Target
    server: ServerAccess
    batch: tuple[int, ...]
    steps: int
    input_tokens: int
    step_regex: str = ""
    categories: dict[str, str] = {}


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One profiled batch."""

    batch: int
    traces: tuple[str, ...]
    """One file a rank, beside the result."""
    trace_bytes: int
    """Size of all of them."""
    unprofiled_tpot_ms: float | None
    """Mean TPOT of the warm-up round just before, profiler off."""
    stop_s: float
    """How long the profiler took to write."""
    analysis: TraceAnalysis


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The profile's result."""

    captures: tuple[Capture, ...]
    had_profiler_at_first_load: bool = False
    """Whether the server of the macro phase carried the profiler too (profile_ready)."""
