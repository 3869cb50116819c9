"""The campaigns measured on a real GPU, as they are kept: documents and results agree, on any machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from campaign import schema
from campaign.phases import attention, collectives, gemm
from campaign.phases.catalog import KINDS
from campaign.phases.kind import Context, PhaseKind
from campaign.runner.comparing import read_side
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import measured_on, read_all
from campaign.runner.writing import document_path, write
from campaign.state import phase
from tests.measure import on_gpu
from tests.measure.scripts import analyze, render

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


def table_of(path: Path, folder: Path) -> tuple[PhaseKind, Context]:
    """The kind and the target of one kept result of tests/measure/on_gpu.py."""
    if path.parent.name == "h200-weight-formats":
        return gemm.KIND, on_gpu.format_context(path.stem, folder)
    ranks = 8 if path.parent.name == "h200-shapes-tp8" else 2
    kind = next(kind for kind in (gemm.KIND, attention.KIND, collectives.KIND) if f"-{kind.name}" in path.stem)
    return kind, Context(target=on_gpu.target_of(path.stem.split(f"-{kind.name}")[0], ranks))


@pytest.mark.parametrize("folder", ["h200-shapes-tp8", "h200-weight-formats", "h200x2-collectives"])
def test_golden__gpu_tables_are_what_their_results_say(folder: str, tmp_path: Path) -> None:
    paths = sorted((EXAMPLES / folder).glob("*.json"))
    assert len(paths) == len([*(EXAMPLES / folder).glob("*.md")]) - 1  # and its README
    for path in paths:
        kind, context = table_of(path, tmp_path)
        text = render(kind, analyze(kind, schema.decode(path.read_bytes(), schema.Result), context))
        if os.environ.get("CAMPAIGN_GOLDEN") == "update":
            path.with_suffix(".md").write_text(text)
        assert path.with_suffix(".md").read_text() == text, path


def test_synthesis__stays_done_while_the_results_that_it_read_stand() -> None:
    campaign = OpenCampaign(EXAMPLES / "h200-qwen3-30b-a3b", KINDS)
    state = campaign.store.load_state()
    assert state is not None
    assert phase(campaign.reconciled(state), "synthesis") == phase(state, "synthesis")


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
