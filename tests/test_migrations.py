"""Every schema version there ever was has a fixture that is still read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from campaign.events import EVENTS_LIMIT_BYTES, KEPT_STATES
from campaign.state import SCHEMA_VERSION
from campaign.store import Store

FIXTURES = Path(__file__).parent / "data" / "state"


def test_migrations__every_version_has_a_fixture() -> None:
    assert {path.name for path in FIXTURES.iterdir()} == {f"v{number}" for number in range(1, SCHEMA_VERSION + 1)}


@pytest.mark.parametrize("kept", ["campaign.json", "events.jsonl", "campaign.previous.json"])
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_migrations__fixture_is_read_from_each_of_its_files(tmp_path: Path, version: int, kept: str) -> None:
    (tmp_path / "state").mkdir()
    shutil.copy(FIXTURES / f"v{version}" / kept, tmp_path / "state" / kept)
    store = Store(tmp_path)
    state = store.load_state()
    assert state is not None
    assert [(entry.id, entry.origin) for entry in state.phases] == [
        ("environment", "config"), ("gemm", "config"), ("gemm-2", "added"), ("synthesis", "config"),
    ]  # fmt: skip
    assert state.phases[0].status == "done"
    expected = "pending" if kept == "campaign.previous.json" else "skipped"  # the previous one is a step behind
    assert state.phases[2].status == expected
    assert bool(store.recovered) == (kept != "campaign.json")


def test_migrations__all_files_of_a_fixture_agree(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "v1", tmp_path / "state")
    store = Store(tmp_path)
    assert store.load_state() is not None
    assert (store.recovered, store.is_file_behind) == ([], False)


def test_events__a_long_log_is_shortened_and_still_recovers(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "v1", tmp_path / "state")
    store = Store(tmp_path)
    state = store.load_state()
    assert state is not None
    line = store.events.path.read_bytes().splitlines(keepends=True)[-1]
    with store.events.path.open("ab") as log:
        log.write(line * (EVENTS_LIMIT_BYTES // len(line) + 1))
    assert store.events.shorten()
    assert not store.events.shorten()
    assert store.events.path.stat().st_size < EVENTS_LIMIT_BYTES
    assert store.events.path.read_bytes().count(b'"state":{') == KEPT_STATES
    store.state_path.unlink()
    assert store.load_state() == state
