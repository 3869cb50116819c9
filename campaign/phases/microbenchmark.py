"""What gemm, collectives and attention share: checks of parameters, the kind, makers of numbers and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from campaign.errors import ConfigError
from campaign.phases.kind import Analysis, Context, PhaseKind
from campaign.schema import Finding, Quantity, Result, Source

#: How the note of a row begins whose result is wrong rather than missing.
REFUSED = "refused"


class Maker(Protocol):
    """Makes quantities of one source."""

    def __call__(self, name: str, value: float | None, unit: str, note: str = "") -> Quantity: ...


def check_counts(name: str, values: Sequence[int]) -> None:
    """Raises `ConfigError` unless there are values and all are 1 or more."""
    if not values or min(values) < 1:
        raise ConfigError(f"{name} = {list(values)}: write one or more whole numbers above 0, e.g. [1, 16].")


def check_samples(samples: int) -> None:
    """Raises `ConfigError` where a median would say nothing."""
    if samples < 3:
        raise ConfigError(f"samples = {samples}: write 3 or more.")


def makers_of(phase: str, result: Result) -> tuple[Maker, Maker]:
    """Makers of numbers that were measured at the result's points, and of numbers computed from the model."""
    measured = Source(phase=phase, attempt=result.attempt, pointer="/points")
    return _maker(measured), _maker(Source(phase=phase, attempt=result.attempt, origin="computed"))


def _maker(source: Source) -> Maker:
    def make(name: str, value: float | None, unit: str, note: str = "") -> Quantity:
        return Quantity(name=name, value=value, unit=unit, source=source, note=note)

    return make


def findings_of(
    phase: str, what: str, rows: Iterable[tuple[str, str, str]], drift: tuple[str, ...]
) -> tuple[Finding, ...]:
    """A finding for each refused row and one for a device that changed meanwhile.

    `rows` are (the rest of the id, what was measured, the row's note); `what` is measured, in the plural.
    """
    found = [
        Finding(id=f"{phase}.refused.{key}", text=f"{told}: {note}.", severity="broken")
        for key, told, note in rows
        if note.startswith(REFUSED)
    ]
    if drift:
        text = f"The device changed during {what}: {'; '.join(drift)}."
        found.append(Finding(id=f"{phase}.drift", text=text, severity="notice"))
    return tuple(found)


def microbenchmark(
    name: str,
    title: str,
    *,
    parameters: type[msgspec.Struct],
    configure: Callable[[Any, Context], msgspec.Struct],
    points: Callable[[Any], tuple[str, ...]],
    analyze: Callable[[Result, Context], Analysis],
    blocked_by: Callable[[Context], str | None] = lambda _context: None,
    script_version: int = 1,
) -> PhaseKind:
    """The kind of a phase that has the device to itself, needs no server, and writes one section of its name."""
    return PhaseKind(
        name=name,
        title=title,
        parameters=parameters,
        script_version=script_version,
        server="none",
        configure=configure,
        points=points,
        analyze=analyze,
        template=f"{name}.md.j2",
        uses_device=True,
        blocked_by=blocked_by,
    )
