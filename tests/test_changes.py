"""Numbers that moved between two revisions."""

import math

from campaign.changes import changed_numbers
from campaign.schema import Quantity, Source


def quantity(
    name: str, value: float | None, spread: float | None = None, attempt: int = 1, unit: str = "ms"
) -> Quantity:
    low, high = (None, None) if spread is None or value is None else (value - spread, value + spread)
    source = Source(phase="macro", attempt=attempt)
    return Quantity(name=name, value=value, unit=unit, low=low, high=high, source=source)


def test_changed_numbers__by_whether_intervals_overlap() -> None:
    before = [quantity("a", 10, 0.5), quantity("b", 10, 0.5), quantity("c", 10), quantity("same", 1, 1)]
    after = [quantity("a", 10.8, 0.4, 2), quantity("b", 12, 0.5, 2), quantity("c", 11, 0.1, 2), quantity("same", 1, 2)]
    changes = changed_numbers(before, after)
    assert [(c.name, c.verdict) for c in changes] == [("b", "moved"), ("c", "unknown noise"), ("a", "within noise")]
    assert (changes[0].difference, changes[0].relative) == (2, 0.2)
    assert changes[0].source == Source(phase="macro", attempt=2)


def test_changed_numbers__larger_changes_first() -> None:
    before = [quantity("a", 10, 0), quantity("b", -10, 0), quantity("c", 0, 0)]
    after = [quantity("a", 11, 0), quantity("b", -20, 0), quantity("c", 1, 0)]
    assert [(c.name, c.relative) for c in changed_numbers(before, after)] == [("c", None), ("b", -1.0), ("a", 0.1)]


def test_changed_numbers__missing_values_are_not_zero() -> None:
    before = [quantity("gone", 1), quantity("lost", 2), quantity("never", None), quantity("unit", 1, unit="us")]
    after = [quantity("lost", None), quantity("never", math.nan), quantity("new", 3, 0, 2), quantity("unit", 1)]
    changes = {(c.name, c.unit): c for c in changed_numbers(before, after)}
    assert {key: c.verdict for key, c in changes.items()} == {
        ("gone", "ms"): "disappeared",
        ("lost", "ms"): "disappeared",
        ("new", "ms"): "appeared",
        ("unit", "us"): "disappeared",
        ("unit", "ms"): "appeared",
    }
    assert changes["new", "ms"].difference is None
    assert changes["lost", "ms"].source == Source(phase="macro", attempt=1)
