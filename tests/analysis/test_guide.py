"""The guide names what exists."""

from __future__ import annotations

import re
from pathlib import Path

from campaign.analysis.expression import FUNCTIONS, check_syntax
from campaign.analysis.readings import ALIASES
from campaign.planner import RULES

GUIDE = (Path(__file__).parents[2] / "doc" / "guide" / "thinking.md").read_text(encoding="utf-8")


def test_guide__names_every_short_name_function_and_rule() -> None:
    quoted = set(re.findall(r"`([^`\n]+)`", GUIDE))
    assert set(ALIASES) <= quoted
    assert set(RULES) <= quoted
    assert all(f"`{name}(" in GUIDE for name in FUNCTIONS)


def test_guide__its_belief_can_be_read() -> None:
    (expression,) = re.findall(r"^holds_if = '(.+)'$", GUIDE, re.MULTILINE)
    check_syntax(expression)
