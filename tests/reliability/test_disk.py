"""A disk that is full, breaks, or takes half a write: the old files survive, the message names it, a resume goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.conftest import FULL_OR_SAMPLE
from tests.reliability.drill import Runners
from tests.reliability.sweep import BROKEN, FULL, FULL_BOTH, SHORT, Base, Fault, sweep_and_say


@pytest.mark.parametrize("fault", [FULL, FULL_BOTH, BROKEN, SHORT], ids=lambda fault: fault.name)
@pytest.mark.parametrize("samples", FULL_OR_SAMPLE)
def test_disk__first_phase(runners: Runners, from_nothing: Base, tmp_path: Path, fault: Fault, samples: int) -> None:
    sweep_and_say(runners, from_nothing, tmp_path, fault, samples)
