"""What-if: an ordered table of small modules with one signature, and the ranking of next directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from campaign.analysis.scene import Scene
from campaign.analysis.whatif import amdahl, batching, communication, experts, kernels, speculation
from campaign.analysis.whatif.change import Change, Input

__all__ = ["CHANGES", "Change", "Input", "next_directions", "what_if"]

#: In the order in which the document lists them.
CHANGES: tuple[Callable[[Scene], tuple[Change, ...]], ...] = (
    amdahl.changes,
    communication.changes,
    kernels.changes,
    batching.changes,
    experts.changes,
    speculation.changes,
)
#: A direction that cannot bring more than this factor is not listed.
LEAST_FACTOR = 1.01


def what_if(scene: Scene) -> tuple[Change, ...]:
    """Every change that has numbers."""
    return tuple(change for changes in CHANGES for change in changes(scene))


def next_directions(changes: Sequence[Change]) -> tuple[Change, ...]:
    """What can be done, best first: numbers all measured or computed before assumed ones, then the expected gain.

    The expected gain is the geometric mean of the range's ends.
    """
    able = [c for c in changes if not c.is_bound and not c.id.startswith("batch.") and c.gain_high >= LEAST_FACTOR]
    return tuple(sorted(able, key=lambda c: (c.is_assumed, -round(c.gain_low * c.gain_high, 6), c.id)))
