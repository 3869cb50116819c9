"""What every rule is given: one signature for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from campaign.analysis.facts import Facts
from campaign.analysis.readings import Readings
from campaign.analysis.scene import Scene, set_scene
from campaign.phases.kind import Material, Row
from campaign.planner.proposal import Proposal
from campaign.schema import Finding


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The campaign as rules see it."""

    scene: Scene
    """Numbers by name, and how the step divides."""
    findings: tuple[Finding, ...]
    """What the phases found by themselves."""
    rows: tuple[Row, ...]
    """The todo list."""

    def has(self, kind: str) -> bool:
        """Whether the todo list has a phase of that kind that can be measured here."""
        return any(row.kind == kind and row.status != "blocked" for row in self.rows)

    def share(self, *categories: str) -> float:
        """Measured share of the step of these categories together, a fraction."""
        shares = (self.scene.shares.find(name) for name in categories)
        return sum(share.share for share in shares if share is not None)


Rule = Callable[[View], Iterable[Proposal]]


def view_of(material: Material) -> View:
    """The view of what is known now."""
    return View(scene=set_scene(Readings(material.quantities), Facts()), findings=material.findings, rows=material.rows)
