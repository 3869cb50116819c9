"""What every law and every what-if is given: one signature for all of them."""

from __future__ import annotations

import msgspec

from campaign.analysis.facts import Facts
from campaign.analysis.interval import Interval
from campaign.analysis.readings import CAPACITY_LIMITED, Readings
from campaign.analysis.shares import Shares
from campaign.analysis.wording import category


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The campaign's numbers, ready to be asked."""

    readings: Readings
    """Quantities by name."""
    shares: Shares
    """How the decode step divides."""
    facts: Facts
    """The target."""

    @property
    def step_ms(self) -> float | None:
        """The profiled decode step."""
        return self.shares.step_ms or None

    @property
    def batch(self) -> int:
        """Tokens in the profiled step."""
        return int(self.readings.value("profile.batch") or 1)

    def exposed_ms(self, category: str) -> Interval | None:
        """Exposed time of a category with unclassified time counted both ways, ms a step."""
        share, step_ms = self.shares.find(category), self.step_ms
        if share is None or step_ms is None:
            return None
        return Interval(share.low * step_ms, share.high * step_ms)

    @property
    def gemm_ms(self) -> Interval | None:
        """Exposed time of all weight-reading kernels, unclassified time counted once, ms a step."""
        known = [interval for name in ("gemm", "moe_gemm") if (interval := self.exposed_ms(name)) is not None]
        if not known or self.step_ms is None:
            return None
        low = sum(interval.low for interval in known)
        return Interval(low, min(self.step_ms, low + max(i.high - i.low for i in known)))

    def macro(self, quantity: str, concurrency: int) -> tuple[str, Interval] | None:
        """Name and value of a macro quantity at that concurrency; the shortest input where several were measured."""
        prefix = f"macro.{quantity}.c{concurrency}"
        names = [n for n in self.readings.names if n == prefix or n.startswith(prefix + ".")]
        for name in sorted(names, key=lambda n: (len(n), n)):
            value = self.readings.interval(name)
            if value is not None:
                return name, value
        return None

    def word(self, name: str) -> str:
        """A category as a sentence calls it; a CPU's idle time is the host's code outside any known op."""
        return "host code outside any known op" if name == "idle" and self.facts.is_cpu else category(name)

    def is_capacity_limited(self, name: str) -> bool:
        """Whether the cell of that macro quantity could not hold its concurrency."""
        quantity = self.readings.find(name)
        return quantity is not None and CAPACITY_LIMITED in quantity.note


def set_scene(readings: Readings, facts: Facts) -> Scene:
    """The scene of a campaign's quantities."""
    return Scene(readings=readings, shares=Shares(readings, is_idle_mixed=facts.is_cpu), facts=facts)
