"""campaign.toml: what is right is read, what is wrong is said with key, line and what to write instead."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from campaign.config import Config, duration_s, parse
from campaign.errors import ConfigError
from campaign.phases import environment
from campaign.phases.kind import PhaseKind


class Sweep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a kind made for this test."""

    size_bytes: int = 1


KINDS: tuple[PhaseKind, ...] = (
    environment.KIND,
    dataclasses.replace(environment.KIND, name="sweep", parameters=Sweep),
)
GOOD = """\
[campaign]
title = "T"

[target]
model = "m"
tensor_parallel = 2

[[phase]]
kind = "environment"

[[phase]]
kind = "sweep"
size_bytes = 7

[[hypothesis]]
claim = "c"
holds_if = "1 > 0"
"""


def read(text: str) -> Config:
    return parse(text, KINDS, name="campaign.toml")


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def test_config__reads_what_is_right() -> None:
    config = read(GOOD)
    assert config.campaign.title == "T"
    assert config.target.tensor_parallel == 2
    assert [(phase.id, phase.kind) for phase in config.phases] == [("environment", "environment"), ("sweep", "sweep")]
    assert config.phases[1].typed == Sweep(size_bytes=7)
    assert config.hypotheses[0].claim == "c"
    assert config.planner.follow_ups == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title =", "titel =", ["campaign.toml:2: campaign.titel", "Did you mean title?"]),
        ("[target]", "[taget]", ["campaign.toml:4: taget", "Did you mean target?"]),
        ("tensor_parallel = 2", "tensor_parallel = 0", ["campaign.toml:6: target.tensor_parallel", "below 1"]),
        (
            "tensor_parallel = 2",
            'tensor_parallel = "two"',
            ["campaign.toml:6: target.tensor_parallel", "Expected `int`"],
        ),
        ('kind = "sweep"', 'kind = "swep"', ["campaign.toml:12: phase[1].kind", "Did you mean sweep?"]),
        ("size_bytes = 7", "size_byte = 7", ["campaign.toml:13: phase[1].size_byte", "Did you mean size_bytes?"]),
        ("size_bytes = 7", "size_bytes = []", ["campaign.toml:13: phase[1].size_bytes", "Expected `int`"]),
        ('claim = "c"\n', "", ["campaign.toml:15: hypothesis[0]", "claim"]),
        ('kind = "sweep"\n', 'kind = "environment"\n', ["phase[1]"]),
        ('model = "m"\n', "", ["campaign.toml:4: target.model", "is missing"]),
        ("[campaign]", "[campaign", ["campaign.toml: ", "line 1"]),
    ],
)
def test_config__names_key_line_and_remedy(old: str, new: str, expected: list[str]) -> None:
    text = complaint(GOOD.replace(old, new, 1))
    for part in expected:
        assert part in text


def test_config__refuses_ids_that_name_other_sections() -> None:
    assert "names another section" in complaint(GOOD.replace('kind = "sweep"', 'kind = "sweep"\nid = "summary"'))


def test_config__refuses_ids_that_could_leave_the_folder() -> None:
    assert "cannot be an id" in complaint(GOOD.replace('kind = "sweep"', 'kind = "sweep"\nid = "../up"'))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("60m", 3600), ("1.5h", 5400), ("soon", None), ("5", None)])
def test_duration__reads_seconds_minutes_hours(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds
