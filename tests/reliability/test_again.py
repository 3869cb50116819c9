"""What is measured again, and what never: real runs of the first phase, in this process."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from campaign.errors import UsageError
from campaign.measurement import read_points
from campaign.phases.kind import PhaseKind
from campaign.runner.editing import add_phase, parse_assignments, reset_phase, skip_phase
from campaign.runner.loop import Runner
from campaign.runner.opening import OpenCampaign
from campaign.runner.planning import plan_rows
from campaign.runner.reporting import StopRequest
from campaign.state import CampaignState, change, phase
from campaign.store import Store
from tests.reliability.kinds import drill_kinds

KINDS = drill_kinds()


class Said:
    """A reporter that keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def progress(self, subject: str, done: float, total: float, text: str) -> None:
        pass

    def end(self, subject: str) -> None:
        pass


def resume(folder: Path, kinds: tuple[PhaseKind, ...] = KINDS, until: str = "environment") -> list[str]:
    said = Said()
    code = Runner(OpenCampaign(folder, kinds), said, StopRequest()).resume(until)
    assert code == 0, said.lines
    return said.lines


def times_measured(folder: Path) -> int:
    paths = Store(folder).results_folder.glob("environment/*/result.points.jsonl")
    return len({(point.started_at, point.duration_s) for path in paths for point in read_points(path)})


def state_of(folder: Path) -> CampaignState:
    state = Store(folder).load_state()
    assert state is not None
    return state


def newer(kinds: tuple[PhaseKind, ...]) -> tuple[PhaseKind, ...]:
    """The same kinds, but the first one's script is declared to measure otherwise."""
    return (dataclasses.replace(kinds[0], script_version=2), *kinds[1:])


def test_again__nothing_is_measured_without_a_reason(campaign_folder: Path) -> None:
    resume(campaign_folder)
    before = {path: path.stat().st_mtime_ns for path in campaign_folder.rglob("*") if path.is_file()}
    assert resume(campaign_folder) == []
    after = {path: path.stat().st_mtime_ns for path in campaign_folder.rglob("*") if path.is_file()}
    assert before == after
    assert times_measured(campaign_folder) == 1


def test_again__another_script_version_measures_anew_and_is_named(campaign_folder: Path) -> None:
    resume(campaign_folder)
    row = plan_rows(OpenCampaign(campaign_folder, newer(KINDS)), lambda _material, _budget: ())[0]
    assert (row["action"], row["reason"]) == ("measure", "changed: script_version 1 → 2")
    resume(campaign_folder, newer(KINDS))
    assert times_measured(campaign_folder) == 2  # the old point was not passed off as a new one
    assert phase(state_of(campaign_folder), "environment").result_attempt == 2


def planned(folder: Path, number: int = 0) -> tuple[str, str]:
    row = plan_rows(OpenCampaign(folder, KINDS), lambda _material, _budget: ())[number]
    return row["action"], row["reason"]


@pytest.mark.parametrize("name", ["engine_version", "device", "driver", "script_version"])
def test_plan__names_each_field_that_differs(campaign_folder: Path, name: str) -> None:
    """The result of a machine or engine that was another one: recorded inputs as they were saved there."""
    resume(campaign_folder)
    assert planned(campaign_folder) == ("keep", "up to date")
    store, state = Store(campaign_folder), state_of(campaign_folder)
    inputs = phase(state, "environment").inputs
    assert name in inputs
    store.save_state(change(state, "environment", inputs={**inputs, name: "another"}), "edited")
    assert planned(campaign_folder) == ("measure", f"changed: {name} another → {inputs[name] or ''}")


def test_plan__names_the_model_the_parallelism_and_the_parameters(campaign_folder: Path) -> None:
    resume(campaign_folder, until="gemm")
    assert [planned(campaign_folder, number)[0] for number in range(2)] == ["keep", "keep"]
    model = campaign_folder / "model" / "config.json"
    whole = model.read_bytes()
    model.write_bytes(whole + b" ")
    action, reason = planned(campaign_folder)
    assert (action, reason.startswith("changed: model_config ")) == ("measure", True)
    model.write_bytes(whole)
    config = campaign_folder / "campaign.toml"
    config.write_text(config.read_text().replace("tensor_parallel = 1", "tensor_parallel = 2"))
    assert planned(campaign_folder) == ("measure", "changed: target.tensor_parallel 1 → 2")
    config.write_text(config.read_text().replace("tensor_parallel = 2", "tensor_parallel = 1"))
    config.write_text(config.read_text().replace("samples = 3", "samples = 4"))
    assert planned(campaign_folder)[0] == "keep"
    assert planned(campaign_folder, 1) == ("measure", "changed: parameters.samples 3 → 4")


def test_again__a_comment_in_the_config_costs_nothing(campaign_folder: Path) -> None:
    resume(campaign_folder)
    config = campaign_folder / "campaign.toml"
    config.write_text("# a comment\n" + config.read_text().replace('title = "A drill"', 'title =   "A drill"'))
    assert resume(campaign_folder) == []
    assert times_measured(campaign_folder) == 1


def test_again__a_template_renders_and_does_not_measure(campaign_folder: Path) -> None:
    resume(campaign_folder)
    shipped = Path(__file__).resolve().parents[2] / "templates" / "environment.md.j2"
    (campaign_folder / "templates").mkdir()
    (campaign_folder / "templates" / "environment.md.j2").write_text(shipped.read_text() + "\nMy own last line.\n")
    resume(campaign_folder)
    assert "My own last line." in (campaign_folder / "doc" / "report.md").read_text()
    assert times_measured(campaign_folder) == 1


def test_reset__measures_the_points_again(campaign_folder: Path) -> None:
    resume(campaign_folder)
    assert reset_phase(OpenCampaign(campaign_folder, KINDS), "environment").status == "pending"
    resume(campaign_folder)
    assert times_measured(campaign_folder) == 2


def test_skip__is_left_out_until_reset(campaign_folder: Path) -> None:
    assert skip_phase(OpenCampaign(campaign_folder, KINDS), "environment").status == "skipped"
    resume(campaign_folder)
    assert times_measured(campaign_folder) == 0
    with pytest.raises(UsageError, match="Phases: environment, gemm"):
        skip_phase(OpenCampaign(campaign_folder, KINDS), "nothing")


def test_add__is_kept_typed_and_named(campaign_folder: Path) -> None:
    campaign = OpenCampaign(campaign_folder, KINDS)
    entry = add_phase(campaign, "gemm", ["batch=[4, 8]", 'kinds=["router"]', "title=More rows"])
    assert (entry.id, entry.title, entry.points_total, entry.origin) == ("gemm-2", "More rows", 3, "added")
    assert add_phase(campaign, "gemm", ["id=mine"]).id == "mine"
    names = [each.id for each in campaign.reconciled(state_of(campaign_folder)).phases]
    assert names == ["environment", "gemm", "gemm-2", "mine", "synthesis"]
    for kind, words, message in (
        ("gem", [], "Kinds: environment, macro, gemm"),
        ("gemm", ["id=mine"], "on the todo list already"),
        ("gemm", ["batches=[1]"], "Did you mean batch"),
        ("gemm", ["batch=[0]"], "above 0"),
        ("gemm", ["batch"], "Write key=value"),
    ):
        with pytest.raises(UsageError, match=message):
            add_phase(campaign, kind, words)
    assert [each.id for each in state_of(campaign_folder).phases] == names


def test_assignments__are_toml_and_plain_words_are_strings() -> None:
    table = parse_assignments(["a=[1, 2]", "b=word", 'c="x=y"', "d=true", "e=1.5"])
    assert table == {"a": [1, 2], "b": "word", "c": "x=y", "d": True, "e": 1.5}
    for words in (["a=[1"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError):
            parse_assignments(words)
