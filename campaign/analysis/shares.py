"""Shares of a decode step as intervals that count unclassified time both ways."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from campaign.analysis.interval import Interval
from campaign.analysis.readings import UNKNOWN, Readings

#: No claim on the bottleneck while more of the step than this is unclassified.
UNCLASSIFIED_LIMIT = 0.05


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One category's part of the step's wall, `profile.exposed_ms.<category>` / `profile.step_ms`."""

    category: str
    """Category, or `idle`."""
    share: float
    """Measured exposed time over wall, a fraction."""
    low: float
    """Fraction that is certainly its own: noise, and kernels of other categories that may stand in it."""
    high: float
    """Fraction it could reach if all unclassified time were its own."""
    exposed_ms: float
    """Measured exposed time a step."""
    busy_ms: float | None = None
    """Sum of its kernel times a step."""
    floor_ms: float | None = None
    """Physical floor, where known."""
    is_misclassified: bool = False
    """Measured below its floor: some of its kernels stand in another category."""


class Shares:
    """How one decode step divides; empty where no profile was measured."""

    def __init__(self, readings: Readings, *, is_idle_mixed: bool = False) -> None:
        """`is_idle_mixed`: idle holds work without a name of its own (a CPU's compiled graph), not only waiting."""
        self.step_ms = readings.value("profile.step_ms")
        self._is_idle_mixed = is_idle_mixed
        self._readings = readings
        self._by_category: dict[str, Share] = {}
        self.unclassified = 0.0
        self.displaced = 0.0
        if self.step_ms:
            self._read(self.step_ms)

    def _read(self, step_ms: float) -> None:
        exposed = self._readings.keys("profile.exposed_ms")
        known = sum(exposed.get(name, 0.0) for name in UNKNOWN) / step_ms
        stated = self._readings.value("profile.unclassified_share")
        self.unclassified = min(1.0, max(known, stated or 0.0))
        gaps = {name: self._gap_ms(name, exposed) for name in exposed if name not in UNKNOWN}
        #: Time that stands in other named categories, since "other" is too small for what a floor asks.
        self.displaced = max([0.0, *(gap / step_ms - self.unclassified for gap in gaps.values())])
        for name, ms in exposed.items():
            self._by_category[name] = self._share(name, ms, step_ms, gaps.get(name, 0.0) / step_ms)
        idle_ms = self._readings.value("profile.idle_ms")
        if idle_ms is not None:
            share = idle_ms / step_ms
            self._by_category["idle"] = Share(category="idle", share=share, low=share, high=share, exposed_ms=idle_ms)

    def _gap_ms(self, name: str, exposed: dict[str, float]) -> float:
        """How far the category's busy time lies below its floor."""
        floor_ms = self._readings.value(f"model.floor_ms.{name}")
        busy_ms = self._readings.value(f"profile.busy_ms.{name}")
        measured = exposed[name] if busy_ms is None else busy_ms
        return max(0.0, (floor_ms or 0.0) - measured)

    def _share(self, name: str, ms: float, step_ms: float, gap: float) -> Share:
        share, noise = ms / step_ms, self._noise(name, ms / step_ms)
        is_known = name not in UNKNOWN
        lent = 0.0 if gap > 0 else self.displaced
        return Share(
            category=name,
            share=share,
            low=max(0.0, noise.low - lent) if is_known else 0.0,
            high=min(1.0, noise.high + max(self.unclassified, gap)) if is_known else noise.high,
            exposed_ms=ms,
            busy_ms=self._readings.value(f"profile.busy_ms.{name}"),
            floor_ms=self._readings.value(f"model.floor_ms.{name}"),
            is_misclassified=gap > 0,
        )

    def _noise(self, name: str, share: float) -> Interval:
        """The interval of the share itself over steps, where the profile states one."""
        stated = self._readings.interval(f"profile.share.{name}")
        if stated is None:
            return Interval(share, share)
        return Interval(min(share, stated.low), max(share, stated.high))

    def __iter__(self) -> Iterator[Share]:
        return iter(self._by_category.values())

    def __len__(self) -> int:
        return len(self._by_category)

    def find(self, category: str) -> Share | None:
        """The share of a category or of `idle`."""
        return self._by_category.get(category)

    def ranked(self) -> list[Share]:
        """Named categories and idle, largest first; unclassified ones left out."""
        return sorted((s for s in self if s.category not in UNKNOWN), key=lambda s: (-s.share, s.category))

    def given_to(self, category: str, receiver: str | None) -> Interval | None:
        """The share of `category` if all unclassified time belonged to `receiver` (None: to none that is named).

        Every way to divide the unclassified time is a mixture of these cases, so what holds in each of them
        holds for a formula that is linear in shares.
        """
        share = self.find(category)
        if share is None:
            return self._absent(receiver == category)
        noise = self._noise(category, share.share) if category != "idle" else Interval(share.low, share.high)
        if category in UNKNOWN:
            return noise if receiver is None else Interval(0.0, noise.high)
        low = noise.low - (0.0 if share.is_misclassified else self.displaced)
        grown = max(self.unclassified, share.high - noise.high) if receiver == category else 0.0
        return Interval(max(0.0, low + grown if receiver == category else low), min(1.0, noise.high + grown))

    def _absent(self, is_receiver: bool) -> Interval | None:
        """A category without a kernel of its own: nothing, or what stands unclassified."""
        if not len(self):
            return None
        idle = self.find("idle") if self._is_idle_mixed else None
        most = self.unclassified * is_receiver + (idle.share if idle else 0.0)
        return Interval(0.0, min(1.0, most))

    def busy(self, category: str) -> Interval | None:
        """The category's part of all kernel time, unclassified kernels counted both ways; None without a profile."""
        busy_ms = self._readings.keys("profile.busy_ms")
        total = sum(busy_ms.values())
        if not total:
            return None
        unknown = sum(busy_ms.get(name, 0.0) for name in UNKNOWN) / total
        share = busy_ms.get(category, 0.0) / total
        if category in UNKNOWN:
            return Interval(0.0, share)
        return Interval(share, min(1.0, share + unknown))
