"""A runner or a measurement killed at calls that change the folder: nothing is lost, nothing is measured twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.drill import Runners
from tests.reliability.sweep import KILL, KILL_SCRIPT, TORN, TORN_SCRIPT, Base, Fault, Sweep

EVERY = (KILL, TORN, KILL_SCRIPT, TORN_SCRIPT)


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: fault.name)
@pytest.mark.parametrize("samples", [6, pytest.param(0, marks=[pytest.mark.proof, pytest.mark.timeout(3600)])])
def test_kill__first_phase(runners: Runners, from_nothing: Base, tmp_path: Path, fault: Fault, samples: int) -> None:
    sweep = Sweep(runners, from_nothing, tmp_path)
    total, files = sweep.count(fault)
    step = max(1, total // samples) if samples else 1
    happened = sweep.run(fault, range(1, total + 1, step))
    print(f"first phase: {fault.name} at {happened} of {total} calls ({dict(files)}): all holds")
    assert happened >= (total // step) - 2
