"""facts: numbers known only from notes; there is nothing to measure."""

from __future__ import annotations

import msgspec

from campaign import schema
from campaign.phases.kind import Analysis, Context, PhaseKind
from campaign.schema import Quantity, Result, Source


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "facts"; has no parameters but `imports`."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing: facts are only imported."""


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that notes say."""

    text: str
    """The notes' statement, a plain sentence."""
    name: str = ""
    """Dotted name of its number, where it has one, e.g. `gemm.us.moe_gate_up`."""
    value: float | None = None
    """The number; null where the notes give only a range, or words."""
    unit: str = ""
    low: float | None = None
    """Lower end of the range."""
    high: float | None = None
    """Upper end of the range."""


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    source: str
    """Whose notes these are."""
    noted_at: str
    """When they were written down."""
    facts: tuple[Fact, ...]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of facts.md.j2."""

    source: str
    """Whose notes these are."""
    noted_at: str
    """When they were written down; may be empty."""
    facts: tuple[Fact, ...]
    """text, name, value, unit, low, high."""


def _analyze(result: Result, _context: Context) -> Analysis:
    data = schema.decode(bytes(result.data), Data)
    quantities = tuple(
        Quantity(
            name=fact.name,
            value=fact.value,
            unit=fact.unit,
            low=fact.low,
            high=fact.high,
            source=Source(phase="facts", attempt=result.attempt, pointer=f"/facts/{number}", origin="noted"),
            note=fact.text,
        )
        for number, fact in enumerate(data.facts)
        if fact.name
    )
    view = View(source=data.source, noted_at=data.noted_at, facts=data.facts)
    return Analysis(view=view, quantities=quantities)


KIND = PhaseKind(
    name="facts",
    title="Known only from notes",
    parameters=Parameters,
    script_version=1,
    server="none",
    configure=lambda _parameters, _context: Config(),
    points=lambda _config: (),
    analyze=_analyze,
    template="facts.md.j2",
    blocked_by=lambda _context: 'facts are not measured: write imports = ["facts.toml"]',
)
