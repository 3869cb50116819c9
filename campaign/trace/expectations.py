"""What the caller knows of the model against what was measured: physical floors and numbers of collectives."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from campaign.trace.result import TraceAnalysis


class Misclassified(msgspec.Struct, frozen=True, kw_only=True):
    """A category that is faster than the hardware can be."""

    category: str
    busy_ms_per_step: float | None
    """Measured; null where the category is absent."""
    floor_ms: float
    text: str


class CallCount(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives a step against the model's expectation."""

    name: str
    measured: float
    expected: int
    layers: int
    per_layer: int
    remainder: int
    """Calls outside the layers that were measured: measured − layers × per_layer, rounded."""
    is_expected: bool
    text: str


def misclassified(analysis: TraceAnalysis, floor_ms: Mapping[str, float]) -> tuple[Misclassified, ...]:
    """Categories whose busy time is below their physical floor: kernels of theirs must stand elsewhere.

    floor_ms: category → least time a step (weight bytes over bandwidth, ms). Floors of 0 or less are passed over.
    """
    if analysis.decode is None:
        return ()
    busy = {category.name: category.busy_ms_per_step for category in analysis.decode.categories}
    found = []
    for name, floor in floor_ms.items():
        measured = busy.get(name)
        if floor <= 0 or (measured is not None and measured >= floor):
            continue
        took = "has no kernels" if measured is None else f"takes {measured:.3f} ms a step"
        found.append(
            Misclassified(
                category=name,
                busy_ms_per_step=measured,
                floor_ms=floor,
                text=f"{name} {took}, below its floor of {floor:.3f} ms: some of its kernels are in another category.",
            )
        )
    return tuple(found)


def call_count(analysis: TraceAnalysis, name: str, *, layers: int, per_layer: int, expected: int) -> CallCount | None:
    """Explain the calls a step of a category as layers × per_layer + remainder; None where it does not occur.

    Example: 127 = 61 × 2 + 5.
    """
    if analysis.decode is None:
        return None
    measured = next((c.calls_per_step for c in analysis.decode.categories if c.name == name), None)
    if measured is None:
        return None
    remainder = round(measured) - layers * per_layer
    sign = "+" if remainder >= 0 else "−"
    is_expected = abs(measured - expected) < 0.5
    text = f"{measured:g} = {layers} × {per_layer} {sign} {abs(remainder)}"
    if not is_expected:
        text += f"; the model's arithmetic expects {expected}"
    return CallCount(
        name=name, measured=measured, expected=expected, layers=layers, per_layer=per_layer, remainder=remainder,
        is_expected=is_expected, text=text,
    )  # fmt: skip
