"""The fault library, a warm process to fork runners from, and campaign folders at known places."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.files import TEMPORARY_PREFIX
from tests.reliability.drill import Runners
from tests.reliability.faults import compile_library
from tests.reliability.kinds import make_campaign
from tests.reliability.quick_server import Served
from tests.reliability.stretches import Stretches


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
def stretches(runners: Runners, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stretches]:
    """The whole small campaign, cut into a stretch a phase; its server answers until the end."""
    scratch = tmp_path_factory.mktemp("stretches")
    (scratch / "traces").mkdir()
    with Served(scratch / "traces") as served:
        unbegun = make_campaign(scratch / "before-environment", served)
        (unbegun / "state").mkdir()
        (unbegun / "state" / f"{TEMPORARY_PREFIX}left").touch()  # so that its removal is among the calls
        yield Stretches(runners, served, unbegun, scratch)
