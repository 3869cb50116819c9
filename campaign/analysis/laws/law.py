"""One law that ties phases together, and what became of it."""

from __future__ import annotations

import msgspec

HOLDS = "holds"
BROKEN = "broken"
NOT_TESTABLE = "not testable"


class Law(msgspec.Struct, frozen=True, kw_only=True):
    """A law with what it expects and what was measured."""

    id: str
    """Stable id, e.g. `collective_calls`."""
    law: str
    """The law in words."""
    status: str
    """holds, broken or not testable."""
    unit: str = ""
    """Unit of the three numbers."""
    expected: float | None = None
    """What the law expects."""
    measured: float | None = None
    """What was measured."""
    difference: float | None = None
    """measured − expected."""
    explained_by: str = ""
    """What accounts for the difference, each part with its number."""
    unexplained: float | None = None
    """What is left of the difference."""
    note: str = ""
    """What follows from it, or why it cannot be tested."""

    @property
    def ratio(self) -> float | None:
        """measured / expected."""
        if self.measured is None or not self.expected:
            return None
        return self.measured / self.expected


def not_testable(id_: str, law: str, *missing: str) -> Law:
    """A law whose numbers were not measured; `missing` names them."""
    return Law(id=id_, law=law, status=NOT_TESTABLE, note=f"{', '.join(missing)} not measured")
