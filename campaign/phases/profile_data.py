"""What a profile asks, and what its script writes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from campaign.phases.kind import ServerAccess, Target
from campaign.trace import TraceAnalysis

Positive = Annotated[int, msgspec.Meta(ge=1)]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "profile"."""

    batch: tuple[Positive, ...] | Positive = 1
    """Concurrent requests under the profiler; one point each."""
    steps: Positive = 50
    """Decode steps to record; bounds the size of the traces."""
    input_tokens: Positive = 128
    """Prompt length."""
    step_regex: str = ""
    """Names of step annotations, where the engine's are not recognised."""
    categories: dict[str, str] = {}
    """Name pattern → category, looked at before the shipped table."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the model's arithmetic says of a decode step."""

    allreduces_per_step: int | None = None
    layers: int | None = None
    message_bytes_per_token: int | None = None
    """Bytes of one all-reduce at batch 1."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The script's config."""

    target: Target
    server: ServerAccess
    batch: tuple[int, ...]
    steps: int
    input_tokens: int
    step_regex: str = ""
    categories: dict[str, str] = {}
    expected: Expected = Expected()


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One profiled batch."""

    batch: int
    traces: tuple[str, ...]
    """One file a rank, relative to the campaign folder."""
    trace_bytes: int
    """Size of all of them."""
    unprofiled_tpot_ms: float | None
    """Mean TPOT of the warm-up round just before, profiler off."""
    stop_s: float
    """How long the profiler took to write."""
    analysis: TraceAnalysis
    floor_ms: dict[str, float] = {}
    """Physical floor of a step by category, where the device's peaks are known."""
    weight_bytes: float | None = None
    """Weight bytes that a rank reads in a step at this batch."""


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The profile's result."""

    captures: tuple[Capture, ...]
