"""Numbers inside sentences."""

from __future__ import annotations

import pytest

from campaign.analysis.wording import amount, amounts, digits, percents, whole
from campaign.render.numbers import num


@pytest.mark.parametrize(
    "value", [0.0123, 0.999, 0.9999, 9.996, 10.0, 12.34, 99.95, 127.0, 1125.4, 14336.0, 1e7, -3.21, 0.0]
)
def test_digits__like_the_templates_filter(value: float) -> None:
    assert digits(value) == str(num(value))


def test_amount__units() -> None:
    assert amount(11.17, "ms") == "11.2 ms"
    assert amount(56.0, "us") == "56.0 µs"
    assert amount(0.515, "share") == "51.5 %"
    assert amount(127.0, "1") == whole(127.0) == "127"
    assert amount(14336.0, "B") == "14,336 bytes"
    assert amount(None, "ms") == "– ms"


def test_amounts__one_amount_where_both_ends_print_alike() -> None:
    assert amounts(10.51, 10.52, "ms") == "10.5 ms"
    assert amounts(10.5, 14.9, "ms") == "10.5 to 14.9 ms"
    assert percents(0.0959, 0.3137) == "9.6 to 31.4 %"
    assert percents(0.2, 0.2) == "20.0 %"
