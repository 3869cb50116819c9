"""A phase that a rule asks for, with its reason and what it costs."""

from __future__ import annotations

import msgspec


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that a rule asks for."""

    id: str
    """Id of the new phase; one a rule, so that a rule is heard once."""
    kind: str
    """Kind of the phase."""
    parameters: dict[str, object]
    """As a person would write them under `[[phase]]`."""
    rule: str
    """Name of the rule, as `[planner] off` names it."""
    reason: str
    """What was found, with its number, and what the phase is to show."""
    server_loads: int = 0
    """Server loads that it may cost."""
    minutes: float = 1.0
    """Measuring time, estimated."""
