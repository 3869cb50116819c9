"""import and compare as a person calls them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from campaign.cli import group
from campaign.errors import CampaignError, ConfigError, UsageError
from campaign.phases.catalog import KINDS
from campaign.runner.opening import OpenCampaign
from campaign.state import CampaignState, PhaseState, phase
from tests.importers.conftest import CONFIG, DATA

IMPORTS = DATA / "imports"


def run(folder: Path, *words: str | Path) -> Result:
    """The command line in this process; what it refuses is raised."""
    done = CliRunner().invoke(group, ["--dir", str(folder), *map(str, words)], standalone_mode=False)
    if isinstance(done.exception, CampaignError):
        raise done.exception
    assert done.exception is None, done.exception
    return done


def state_of(folder: Path) -> CampaignState:
    state = OpenCampaign(folder, KINDS).store.load_state()
    assert state is not None
    return state


def entry(folder: Path, phase_id: str) -> PhaseState:
    return phase(state_of(folder), phase_id)


def test_import__makes_phases_done_and_leaves_the_rest(folder: Path) -> None:
    done = run(folder, "import", IMPORTS / "all_reduce_perf.txt", IMPORTS / "gemm.csv")
    assert "collectives: done from 1 file (nccl-tests-text)" in done.output
    assert entry(folder, "collectives").status == entry(folder, "gemm").status == "done"
    assert entry(folder, "collectives").origin == "imported"
    assert entry(folder, "profile").status == "blocked"
    assert "it needs NVIDIA RTX PRO 6000 Blackwell" in entry(folder, "profile").reason


def test_import__is_kept_by_a_resume_that_has_nothing_to_measure(folder: Path) -> None:
    run(folder, "import", IMPORTS / "all_reduce_perf.txt")
    before = (folder / "state" / "results" / "collectives" / "1" / "result.json").read_bytes()
    assert run(folder, "resume").return_value == 0
    assert entry(folder, "collectives").status == "done"
    assert (folder / "state" / "results" / "collectives" / "1" / "result.json").read_bytes() == before
    document = (folder / "doc" / "report.md").read_text() if (folder / "doc" / "report.md").exists() else ""
    assert "measured in" not in document


def test_import__stays_when_parameters_of_its_phase_change(folder: Path) -> None:
    run(folder, "import", IMPORTS / "gemm.csv")
    config = folder / "campaign.toml"
    config.write_text(config.read_text().replace("batch = [1]", "batch = [1, 16]"))
    plan = json.loads(run(folder, "plan", "--json").output)
    assert next(row["action"] for row in plan["phases"] if row["id"] == "gemm") == "keep"


def test_import__again_is_a_new_attempt(folder: Path) -> None:
    for _ in range(2):
        run(folder, "import", IMPORTS / "gemm.csv")
    assert entry(folder, "gemm").result_attempt == 2
    assert (folder / "state" / "results" / "gemm" / "1" / "result.json").exists()


def test_import__of_a_phase_that_is_not_listed_adds_it(folder: Path) -> None:
    config = folder / "campaign.toml"
    config.write_text(CONFIG.replace('[[phase]]\nkind = "gemm"\nbatch = [1]\n', ""))
    run(folder, "import", IMPORTS / "gemm.csv")
    assert entry(folder, "gemm").status == "done"
    run(folder, "plan")
    assert run(folder, "resume").return_value == 0
    assert entry(folder, "gemm").status == "done"


def test_import__says_which_phases_could_be_meant(folder: Path) -> None:
    config = folder / "campaign.toml"
    config.write_text(CONFIG + '[[phase]]\nkind = "gemm"\nid = "gemm2"\n')
    with pytest.raises(UsageError, match=r"several gemm phases \(gemm, gemm2\): say which with --phase"):
        run(folder, "import", IMPORTS / "gemm.csv")
    run(folder, "import", "--phase", "gemm2", IMPORTS / "gemm.csv")
    assert entry(folder, "gemm2").status == "done"
    with pytest.raises(UsageError, match="these files answer gemm; collectives is a collectives phase"):
        run(folder, "import", "--phase", "collectives", IMPORTS / "gemm.csv")


def test_import__refused_changes_nothing(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "gemm.csv"
    broken.write_text("layer,M,N,K,us\nqkv,1,2\n")
    with pytest.raises(UsageError, match="line 2"):
        run(folder, "import", broken)
    assert not (folder / "state" / "campaign.json").exists()


def test_imports__of_another_type_name_key_and_line(folder: Path) -> None:
    (folder / "campaign.toml").write_text(CONFIG.replace('kind = "gemm"', 'kind = "gemm"\nimports = "traces"'))
    with pytest.raises(ConfigError, match=r"campaign\.toml:11: phase\[1\]\.imports.*imports = \[\"traces/\"\]"):
        OpenCampaign(folder, KINDS)


def test_unavailable__is_said_in_the_persons_words(folder: Path) -> None:
    (folder / "campaign.toml").write_text(CONFIG.replace('kind = "macro"', 'kind = "macro"\nunavailable = "lost"'))
    run(folder, "resume")
    macro = entry(folder, "macro")
    assert (macro.status, macro.reason) == ("blocked", "lost")


def measured(
    folder: Path, name: str, *changes: tuple[str, str], files: tuple[str, ...] = ("all_reduce_perf.txt",)
) -> Path:
    """A campaign beside the folder, its config changed, with numbers from files."""
    home = folder.parent / name
    shutil.copytree(folder, home)
    text = (home / "campaign.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (home / "campaign.toml").write_text(text)
    run(home, "import", *(IMPORTS / file for file in files))
    run(home, "resume")
    return home


def test_compare__says_config_first_then_numbers(folder: Path) -> None:
    one = measured(folder, "one", files=("all_reduce_perf.txt", "gemm.csv"))
    slow = folder.parent / "gemm.csv"
    slow.write_text((IMPORTS / "gemm.csv").read_text().replace("31.5", "45"))
    two = measured(folder, "two", ("batch = [1]", "batch = [1, 16]"))
    run(two, "import", slow)
    run(two, "resume")
    text = run(folder, "compare", one, two).output
    assert text.index("gemm.batch: [1] → [1,16]") < text.index("gemm.us.moe_gate_up")
    line = next(line for line in text.split("\n") if "gemm.us.moe_gate_up" in line)
    assert "31.5 → 45 us  +42.9%" in line
    assert "gemm.us.moe_down" not in text


def test_compare__of_itself_finds_nothing(folder: Path) -> None:
    one = measured(folder, "one")
    found = json.loads(run(folder, "compare", "--json", one, one).output)
    assert (found["config"], found["moves"], found["in_kind"]) == ([], [], [])
    assert found["compared"] == found["within_noise"] > 3


def test_compare__refuses_what_differs_in_kind(folder: Path) -> None:
    one = measured(folder, "one")
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    shutil.copyfile(DATA / "configs" / "deepseek-v3.json", other / "kimi" / "config.json")
    two = measured(other, "two")
    done = run(folder, "compare", one, two)
    assert done.return_value == 2
    assert "Not compared, they differ in kind (model " in done.output
    assert "0 numbers compared" in done.output
    assert run(folder, "compare", "--anyway", one, two).return_value == 0


def test_compare__of_two_revisions_of_this_campaign(folder: Path) -> None:
    one = measured(folder, "one", files=("gemm.csv",))
    slow = folder.parent / "gemm.csv"
    slow.write_text((IMPORTS / "gemm.csv").read_text().replace("31.5", "45"))
    run(one, "import", slow)
    run(one, "resume")
    text = run(one, "compare", "1", "-1").output
    assert "1 is an earlier revision: its numbers are kept, not how it was configured." in text
    assert "31.5 → 45 us" in text
    with pytest.raises(UsageError, match="there are revisions 1 to 2"):
        run(one, "compare", "1", "7")


def test_compare__without_numbers_says_so(folder: Path) -> None:
    with pytest.raises(UsageError, match="no numbers have been written up"):
        run(folder, "compare", folder, folder)
