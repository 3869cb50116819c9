"""The fault library, a warm process to fork runners from, and campaign folders at known places."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.measurement import read_points
from campaign.store import Store
from tests.reliability.drill import Runners, wait_until
from tests.reliability.faults import compile_library
from tests.reliability.kinds import make_campaign
from tests.reliability.sweep import Base

#: Points of a sweep: a few in `make test`, all of them (0) in `make proof`.
FULL_OR_SAMPLE = [3, pytest.param(0, marks=[pytest.mark.proof, pytest.mark.timeout(7200)], id="every")]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded fault library."""
    return compile_library(tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="session")
def runners(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    """Runners forked from one warm process."""
    with Runners(library, tmp_path_factory.mktemp("output")) as made:
        yield made


@pytest.fixture(scope="session")
def unbegun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign folder that has not begun; copied, never run."""
    return make_campaign(tmp_path_factory.mktemp("campaign") / "unbegun")


@pytest.fixture
def campaign_folder(unbegun: Path, tmp_path: Path) -> Path:
    """A fresh copy of it."""
    return Path(shutil.copytree(unbegun, tmp_path / "campaign")).resolve()


@pytest.fixture(scope="session")
def from_nothing(unbegun: Path) -> Base:
    """From an empty folder to the first phase, measured and written up."""
    return Base(folder=unbegun, until="environment")


@pytest.fixture(scope="session")
def interrupted(unbegun: Path, runners: Runners, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """From a second phase that was interrupted between its points to the end of the campaign."""
    scratch = tmp_path_factory.mktemp("interrupted")
    for number in range(1, 6):  # a last point may be quicker than the signal
        folder = Path(shutil.copytree(unbegun, scratch / f"interrupted-{number}")).resolve()
        points = Store(folder).results_folder / "gemm" / "1" / "result.points.jsonl"
        run = runners.begin(folder)
        wait_until(lambda path=points: len(read_points(path)) >= 1, timeout_s=300)
        run.send(signal.SIGTERM)
        if run.wait().code == 130 and len(read_points(points)) < 3:
            return Base(folder=folder, until=None)
    raise AssertionError("five times the last point was quicker than the signal")
