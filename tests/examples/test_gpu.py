"""The campaigns measured on a real GPU, as they are kept: documents and results agree, on any machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from campaign.phases.catalog import KINDS
from campaign.runner.comparing import read_side
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import measured_on, read_all
from campaign.runner.writing import document_path, write

EXAMPLES = Path(__file__).resolve().parents[2] / "doc" / "examples"


@pytest.mark.parametrize("name", ["h200-qwen3-30b-a3b", "h200-kimi-mini-int4", "h200x2-qwen3-30b-a3b"])
def test_golden__gpu_example_is_what_its_results_say(tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    shutil.copytree(EXAMPLES / name, copy)
    campaign = OpenCampaign(copy, KINDS)
    state = campaign.store.load_state()
    assert state is not None
    path = document_path(campaign)
    shutil.rmtree(path.parent / "figures")  # so that they are drawn, not kept
    write(campaign, state)
    if os.environ.get("CAMPAIGN_GOLDEN") == "update":
        shutil.copytree(path.parent, EXAMPLES / name / "doc", dirs_exist_ok=True)
    assert path.read_bytes().decode() == (EXAMPLES / name / "doc" / "report.md").read_bytes().decode()
    drawn, kept = path.parent / "figures", EXAMPLES / name / "doc" / "figures"
    assert sorted(file.name for file in drawn.iterdir()) == sorted(file.name for file in kept.iterdir())
    assert all((drawn / file.name).read_bytes() == file.read_bytes() for file in kept.iterdir())


def test_device__is_that_of_the_results_not_of_this_machine() -> None:
    campaign = OpenCampaign(EXAMPLES / "h200-qwen3-30b-a3b", KINDS)
    state = campaign.store.load_state()
    assert state is not None
    readings = read_all(campaign, state)
    results = [reading.result for reading in readings.values()]
    assert measured_on(campaign.context, results).target.device == "cuda"
    assert b"Measured on a CPU" not in document_path(campaign).read_bytes()


def test_compare__knows_by_which_version_of_a_script_it_was_measured() -> None:
    side = read_side(str(EXAMPLES / "h200-qwen3-30b-a3b"), EXAMPLES, KINDS)
    assert side.facts["attention: script version"] == side.facts["gemm: script version"] == "1"
