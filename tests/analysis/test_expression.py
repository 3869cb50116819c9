"""The language of holds_if: what it takes, and what it says of the rest."""

from __future__ import annotations

import pytest

from campaign.analysis import check_syntax
from campaign.errors import ConfigError


@pytest.mark.parametrize(
    "expression",
    [
        'share("gemm") > share("allreduce")',
        "burst_ms / step_ms < 0.2",
        'share("moe_gemm") + share("gemm") > 0.3 and not busy_share("attention") >= 0.1',
        'calls("allreduce") <= 2 * 61 + 1',
        "0.1 < profile.idle_ms / profile.step_ms < 0.2",
        "profile.step_ms@b16 < 2 * profile.step_ms",
        'share("gemm@b16") > share("gemm")',
        'value("collectives-sweep.burst_ms") < 1e3',
        "macro.tpot_ms.c1 < 25 or -step_ms > -30",
    ],
)
def test_check_syntax__claims_are_taken(expression: str) -> None:
    check_syntax(expression)


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ('shares("gemm") > 0.1', "share()"),
        ('share("gem") > 0.1', "gemm"),
        ("step_m > 1", "step_ms"),
        ("profile.step > 1", "profile.step_ms"),
        ("profil.step_ms > 1", "profile.step_ms"),
        ('share("gemm")', "Compare it"),
        ("step_ms", "Compare it"),
        ("step_ms >", "cannot be read"),
        ("step_ms == 3", "<, <=, > and >="),
        ('__import__("os").system("true") > 0', "no function"),
        ("().__class__ > 0", "a name is words"),
        ("[1][0] > 0", "not understood"),
        ("(lambda: 1)() > 0", "no function"),
        ("step_ms ** 9 > 1", "not understood"),
        ('share(category="gemm") > 1', "in quotes"),
        ("share(gemm) > 1", "in quotes"),
        ("step_ms > True", "not understood"),
        ("9e999 > step_ms", "below 1e300"),
        ('"a" > step_ms', "not understood"),
        ("f'{step_ms}' > 1", "not understood"),
        ("(step_ms := 3) > 1", "not understood"),
        ("step_ms > 1 if 1 else 2", "not understood"),
        ("1 +" * 400 + " 1 > 0", "longer than"),
        ("(" * 300 + "1" + ")" * 300 + " > 0", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_check_syntax__refusals_name_what_exists(expression: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_syntax(expression)
    assert named in str(caught.value)
    assert "holds_if" in str(caught.value)
