"""A campaign folder of the Kimi target for importers to answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaign.phases.catalog import KINDS
from campaign.runner.opening import OpenCampaign

DATA = Path(__file__).resolve().parents[1] / "data"
CONFIG = """
[target]
model = "kimi"
tensor_parallel = 8
device = "NVIDIA RTX PRO 6000 Blackwell"

[[phase]]
kind = "macro"
[[phase]]
kind = "gemm"
batch = [1]
[[phase]]
kind = "collectives"
[[phase]]
kind = "profile"
[[phase]]
kind = "synthesis"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder, nothing measured."""
    home = tmp_path / "campaign"
    (home / "kimi").mkdir(parents=True)
    shutil.copyfile(DATA / "configs" / "kimi-k2.5.json", home / "kimi" / "config.json")
    (home / "campaign.toml").write_text(CONFIG)
    return home


@pytest.fixture
def campaign(folder: Path) -> OpenCampaign:
    """The folder opened."""
    return OpenCampaign(folder, KINDS)
