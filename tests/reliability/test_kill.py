"""A runner or a measurement killed at calls that change the folder: nothing is lost, nothing is measured twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.conftest import FULL_OR_SAMPLE
from tests.reliability.drill import Runners
from tests.reliability.sweep import KILL, KILL_SCRIPT, TORN, TORN_SCRIPT, Base, Fault, sweep_and_say

KILLS = (KILL, TORN, KILL_SCRIPT, TORN_SCRIPT)


@pytest.mark.parametrize("fault", KILLS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("samples", FULL_OR_SAMPLE)
def test_kill__first_phase(runners: Runners, from_nothing: Base, tmp_path: Path, fault: Fault, samples: int) -> None:
    sweep_and_say(runners, from_nothing, tmp_path, fault, samples)


@pytest.mark.proof
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", KILLS, ids=lambda fault: fault.name)
def test_kill__rest_of_the_campaign(runners: Runners, interrupted: Base, tmp_path: Path, fault: Fault) -> None:
    sweep_and_say(runners, interrupted, tmp_path, fault, 0)
