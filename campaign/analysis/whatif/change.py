"""One change of the target and what a step would take: formula, inputs, range, and what would break it."""

from __future__ import annotations

import msgspec


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One number that goes into a formula."""

    name: str
    """Quantity's name, or the assumption's."""
    value: float
    """Its value; the lower end where it is a range."""
    unit: str
    """Its unit."""
    high: float | None = None
    """Upper end of a range."""
    is_assumed: bool = False
    """Assumed, not measured nor computed from the model."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What would be if."""

    id: str
    """Stable id, e.g. `free.allreduce`."""
    change: str
    """The change in words."""
    formula: str
    """How the step is computed."""
    inputs: tuple[Input, ...]
    """The numbers in the formula."""
    step_ms_low: float
    """Shortest step that the inputs allow (time per token where tokens a step change)."""
    step_ms_high: float
    """Longest."""
    gain_low: float
    """Step now over the longest."""
    gain_high: float
    """Step now over the shortest."""
    tok_s_low: float
    """Output tokens per second of the batch at the longest."""
    tok_s_high: float
    """At the shortest."""
    assumption: str
    """What would break it."""
    is_bound: bool = False
    """An upper bound (something free), nothing that can be done as such."""
    is_assumed: bool = False
    """A number in it is neither measured nor computed."""


def changed(
    *,
    id_: str,
    change: str,
    formula: str,
    inputs: tuple[Input, ...],
    now_ms: float,
    step_ms: tuple[float, float],
    batch: int,
    assumption: str,
    is_bound: bool = False,
) -> Change:
    """A change from the step now (ms) to a range of steps (ms) at a batch (tokens a step)."""
    low, high = min(step_ms), max(step_ms)
    return Change(
        id=id_,
        change=change,
        formula=formula,
        inputs=inputs,
        step_ms_low=low,
        step_ms_high=high,
        gain_low=now_ms / high,
        gain_high=now_ms / low,
        tok_s_low=batch * 1e3 / high,
        tok_s_high=batch * 1e3 / low,
        assumption=assumption,
        is_bound=is_bound,
        is_assumed=any(number.is_assumed for number in inputs),
    )
