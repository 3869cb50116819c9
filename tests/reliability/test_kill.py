"""A runner or a measurement killed at calls that change the folder: nothing is lost, nothing is measured twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.reliability.drill import Runners
from tests.reliability.faults import SCRIPT
from tests.reliability.stretches import STRETCHES, Stretches
from tests.reliability.sweep import KILL, KILL_SCRIPT, TORN, TORN_SCRIPT, Fault, Sweep, sweep_and_say

KILLS = (KILL, TORN, KILL_SCRIPT, TORN_SCRIPT)
#: The last stretch reads results and measures nothing.
EVERYWHERE = [(name, fault) for name in STRETCHES for fault in KILLS if (name, fault.roles) != ("synthesis", SCRIPT)]


@pytest.mark.parametrize("fault", KILLS, ids=str)
@pytest.mark.parametrize("stretch", ["environment"])
def test_kill__samples(runners: Runners, stretches: Stretches, tmp_path: Path, stretch: str, fault: Fault) -> None:
    sweep_and_say(runners, stretches.named(stretch), tmp_path, fault, 3)


def test_kill__samples_of_a_phase_with_ranks_and_one_with_a_server(
    runners: Runners, stretches: Stretches, tmp_path: Path
) -> None:
    for stretch in ("macro", "collectives"):
        sweep_and_say(runners, stretches.named(stretch), tmp_path / stretch, KILL, 1)


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_kill__number_of_points(runners: Runners, stretches: Stretches, tmp_path: Path) -> None:
    """Counted in a run of each stretch; the sweeps below kill at every one of them."""
    total: Counter[str] = Counter()
    for fault in (KILL, KILL_SCRIPT):
        for name in STRETCHES:
            scratch = tmp_path / f"{fault.name} {name}"
            scratch.mkdir()
            hit, _ = Sweep(runners, stretches.named(name), scratch).count(fault)
            total[fault.name] += len(hit)
    print(f"points to be killed at, in {len(STRETCHES)} stretches: {total.total()}: {dict(total)}")
    assert min(total.values()) > 0


@pytest.mark.proof
@pytest.mark.timeout(14400)
@pytest.mark.parametrize(("stretch", "fault"), EVERYWHERE, ids=str)
def test_kill__at_every_call(
    runners: Runners, stretches: Stretches, tmp_path: Path, stretch: str, fault: Fault
) -> None:
    sweep_and_say(runners, stretches.named(stretch), tmp_path, fault)
