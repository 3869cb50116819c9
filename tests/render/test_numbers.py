"""Numbers as readers see them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign.render import column, fixed, num, percent, shares, signed


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (127, "127"),
        (1125, "1,125"),
        (1125.4, "1,125"),
        (11.17, "11.2"),
        (2.0, "2.00"),
        (0.47, "0.470"),
        (9.995, "9.99"),
        (9.999, "10.0"),
        (0.1 + 0.2, "0.300"),
        (-4.345, "-4.34"),
        (0.0000123, "0.0000123"),
        (3.2e-7, "3.20e-7"),
        (6.03e9, "6,030,000,000"),
        (1.5e16, "1.50e16"),
        (True, "yes"),
    ],
)
def test_num__three_significant_digits(value: float | None, shown: str) -> None:
    assert num(value) == shown


def test_num__text_is_no_number() -> None:
    with pytest.raises(TypeError):
        num("3")  # type: ignore[arg-type]


def test_fixed_percent_signed__by_example() -> None:
    assert [fixed(1.005, 1), fixed(-0.04, 1), fixed(None, 2), fixed(12345.678, 2)] == ["1.0", "0.0", "–", "12,345.68"]
    assert [percent(0.515), percent(None), percent(1, 0)] == ["51.5 %", "–", "100 %"]
    assert [signed(1.5), signed(-1.5), signed(0.0), signed(None)] == ["+1.50", "-1.50", "0", "–"]


def test_column__has_one_precision() -> None:
    assert column([11.17, 2.08, 1.31, 1.12, 0.81, 0.47, 4.72, None]) == [
        *("11.17", "2.08", "1.31", "1.12", "0.81", "0.47", "4.72", "–")
    ]
    assert column([127, 1, None]) == ["127", "1", "–"]
    assert column([1234.5, 1500.25]) == ["1,234", "1,500"]
    assert column([]) == []


def test_shares__add_up_as_printed() -> None:
    assert shares([1, 1, 1]) == ["33.4", "33.3", "33.3"]
    assert shares([11.17, 2.08, 1.31, 1.12, 0.81, 0.47, 4.72]) == ["51.5", "9.6", "6.0", "5.2", "3.7", "2.2", "21.8"]
    assert shares([1, None, 1], places=0) == ["50", "–", "50"]
    assert shares([0, 0]) == ["–", "–"]
    assert shares([1, 1], total=4) == ["25.0", "25.0"]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40), st.integers(0, 3))
def test_shares__sum_of_the_printed_numbers_is_exactly_100(values: list[float], places: int) -> None:
    shown = shares(values, places)
    if sum(values) == 0:
        assert set(shown) == {"–"}
        return
    assert sum(round(float(s) * 10**places) for s in shown) == 100 * 10**places
    for value, printed in zip(values, shown, strict=True):
        assert abs(float(printed) - 100 * value / sum(values)) <= 1.001 * 10**-places
