"""A disk that is full, breaks, refuses or takes half a write: the old files survive, it is named, a resume goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.drill import Runners
from tests.reliability.stretches import STRETCHES, Stretches
from tests.reliability.sweep import BROKEN, DENIED, FULL, SHORT, Fault, sweep_and_say

FAULTS = (FULL, BROKEN, DENIED, SHORT)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_disk__samples(runners: Runners, stretches: Stretches, tmp_path: Path, fault: Fault) -> None:
    sweep_and_say(runners, stretches.named("environment"), tmp_path, fault, 3)


@pytest.mark.proof
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("stretch", STRETCHES)
def test_disk__at_every_call(
    runners: Runners, stretches: Stretches, tmp_path: Path, stretch: str, fault: Fault
) -> None:
    sweep_and_say(runners, stretches.named(stretch), tmp_path, fault)
