"""Runs ended at random moments by random signals, resumed until the campaign is done."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from campaign.runner.survey import survey
from campaign.store import Store
from tests.reliability.drill import Runners, damage, measured_twice, outcome, temporaries
from tests.reliability.stretches import Stretches

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize(
    ("runs", "seed"), [(2, 1), pytest.param(200, 2, marks=[pytest.mark.proof, pytest.mark.timeout(14400)])]
)
def test_soak__ends_as_if_never_interrupted(
    runners: Runners, stretches: Stretches, tmp_path: Path, runs: int, seed: int
) -> None:
    """The whole small campaign: ranks, an attached server and its profiler among it."""
    unbegun = stretches.named("environment").folder
    chance = random.Random(seed)
    begun = time.monotonic()
    expected, whole_s = _uninterrupted(runners, unbegun, tmp_path / "whole")
    ended: Counter[str] = Counter()
    campaigns = killed = 0
    while killed < runs:
        campaigns += 1
        folder = Path(shutil.copytree(unbegun, tmp_path / f"soak-{campaigns}")).resolve()
        while True:
            is_killed = killed < runs and _run(runners, folder, chance, whole_s, ended)
            killed += is_killed
            assert damage(folder) == []
            survey(folder)
            if not is_killed:
                break
        last = runners.resume(folder)
        assert last.code == 0, last.output
        state = Store(folder).load_state()
        assert state is not None
        assert outcome(state) == expected
        assert (measured_twice(folder), temporaries(folder)) == ([], [])
        shutil.rmtree(folder)
    took_s = time.monotonic() - begun
    print(f"soak: {killed} runs ended by {dict(ended)} in {campaigns} campaigns, {took_s:.0f} s; every end as expected")


def _uninterrupted(runners: Runners, unbegun: Path, folder: Path) -> tuple[object, float]:
    shutil.copytree(unbegun, folder)
    begun = time.monotonic()
    ended = runners.resume(folder.resolve())
    assert ended.code == 0, ended.output
    state = Store(folder).load_state()
    assert state is not None
    return outcome(state), time.monotonic() - begun


def _run(runners: Runners, folder: Path, chance: random.Random, whole_s: float, ended: Counter[str]) -> bool:
    """One run, ended by a signal at a random moment; False where it was done before that."""
    run = runners.begin(folder)
    number = chance.choice(SIGNALS)
    deadline = time.monotonic() + chance.uniform(0, whole_s * 0.8)
    while time.monotonic() < deadline and run.is_alive():
        time.sleep(0.005)
    is_sent = run.send(number)
    result = run.wait()
    assert "Traceback" not in result.output, result.output
    assert result.code in (0, 130, -signal.SIGKILL), result.output
    if not is_sent or result.code == 0:
        return False
    ended[number.name] += 1
    return True
