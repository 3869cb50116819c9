"""A state that was spoiled in every way: recovered and said, or refused clearly; never `up to date`, never a traceback.

The folder holds a real, finished first phase and an open second one.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from campaign import schema
from campaign.errors import StateError
from campaign.runner.survey import survey
from campaign.state import CampaignState
from campaign.store import Store
from tests.reliability.drill import Runners, damage, measured_twice, outcome, temporaries


@pytest.fixture(scope="session")
def one_done(unbegun: Path, runners: Runners, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign whose first phase is done."""
    folder = Path(shutil.copytree(unbegun, tmp_path_factory.mktemp("one_done") / "campaign")).resolve()
    ended = runners.resume(folder, until="environment")
    assert ended.code == 0, ended.output
    return folder


@pytest.fixture
def folder(one_done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(one_done, tmp_path / "campaign")).resolve()


def state_of(folder: Path) -> CampaignState:
    state = Store(folder).load_state()
    assert state is not None
    return state


def all_done(data: bytes) -> bytes:
    """A person's wish: everything done, nothing measured."""
    table = json.loads(data)
    table["phases"] = [{"id": e["id"], "kind": e["kind"], "status": "done"} for e in table["phases"]]
    return json.dumps(table).encode()


SPOILED = {
    "halved": lambda data: data[: len(data) // 2],
    "emptied": lambda _data: b"",
    "zeros": lambda data: b"\0" * len(data),
    "not UTF-8": lambda data: data.replace(b"environment", b"\xff\xfe"),
    "a list": lambda _data: b"[]",
    "nonsense": lambda _data: b'{"schema_version": 1, "phases": "all of them"}',
    "all done": all_done,
    "no phases": lambda data: json.dumps({**json.loads(data), "phases": []}).encode(),
    "an older schema that never was": lambda data: data.replace(b'"schema_version": 1', b'"schema_version": 0'),
    "deleted": None,
}


@pytest.mark.parametrize("how", SPOILED)
def test_spoiled__state_file_is_recovered_and_said(runners: Runners, folder: Path, how: str) -> None:
    expected = outcome(state_of(folder))
    path, spoil = Store(folder).state_path, SPOILED[how]
    if spoil is None:
        path.unlink()
    else:
        path.write_bytes(spoil(path.read_bytes()))
    assert [phase["status"] for phase in survey(folder).phases][:2] == ["done", "pending"]
    ended = runners.resume(folder, until="environment")
    assert ended.code == 0, ended.output
    assert "campaign.json" in ended.output  # said aloud
    assert "Traceback" not in ended.output
    assert outcome(state_of(folder)) == expected
    assert (damage(folder), measured_twice(folder), temporaries(folder)) == ([], [], [])
    assert runners.resume(folder, until="environment").output == ""  # mended for good


def test_spoiled__any_bit_of_the_state_file(folder: Path) -> None:
    """A flipped bit may leave valid JSON with another meaning; it must not be believed."""
    store, random_bits = Store(folder), random.Random(8)
    data, saved = store.state_path.read_bytes(), state_of(folder)
    refused = 0
    for _ in range(300):
        flipped = bytearray(data)
        flipped[random_bits.randrange(len(data))] ^= 1 << random_bits.randrange(8)
        store.state_path.write_bytes(flipped)
        try:
            assert store.load_state() == saved
            assert store.recovered or schema.decode(bytes(flipped), CampaignState) == saved
        except StateError as error:
            assert "newer campaign" in str(error)  # the bit was in the version itself
            refused += 1
    assert refused < 10


def test_spoiled__any_bit_of_the_newest_event(folder: Path) -> None:
    store, random_bits = Store(folder), random.Random(9)
    whole, saved = store.events.path.read_bytes(), state_of(folder)
    start = whole[:-1].rindex(b"\n") + 1
    for _ in range(100):
        flipped = bytearray(whole)
        flipped[random_bits.randrange(start, len(whole))] ^= 1 << random_bits.randrange(8)
        store.events.path.write_bytes(flipped)
        found = store.load_state()
        assert found is not None
        # The state file is whole: what it says stands, or the step before it, said aloud.
        assert found == saved or store.recovered


def test_spoiled__newer_schema_is_refused_untouched(runners: Runners, folder: Path) -> None:
    path = Store(folder).state_path
    newer = path.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
    path.write_bytes(newer)
    ended = runners.resume(folder, until="environment")
    assert (ended.code, "newer campaign (schema 2" in ended.output) == (2, True)
    assert path.read_bytes() == newer
    path.unlink()  # the log tells of the newer one too, once that has written there
    events = Store(folder).events.path
    events.write_bytes(events.read_bytes().replace(b'"schema_version":1', b'"schema_version":2'))
    event = events.read_bytes().splitlines()[-1]
    assert b'"schema_version":2' in event


def test_spoiled__everything_of_the_state_lost_keeps_the_points(runners: Runners, folder: Path) -> None:
    store = Store(folder)
    for path in (store.state_path, store.previous_path, store.events.path):
        path.unlink()
    ended = runners.resume(folder, until="environment")
    assert ended.code == 0, ended.output
    assert "a new todo list is begun" in ended.output
    assert measured_twice(folder) == []
    assert sorted(path.name for path in (store.results_folder / "environment").iterdir()) == ["1", "2"]


@pytest.mark.parametrize("how", ["altered", "gone"])
def test_spoiled__result_is_refused_and_named(runners: Runners, folder: Path, how: str) -> None:
    path = Store(folder).results_folder / "environment" / "1" / "result.json"
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b'"cores": ', b'"cores": 1'))
    ended = runners.resume(folder, until="environment")
    assert ended.code == 2, ended.output
    assert how in ended.output
    assert "reset environment" in ended.output
    assert "Traceback" not in ended.output
