"""The state file: whole, recovered, or refused; points and results found again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from campaign import files, schema
from campaign.errors import StateError
from campaign.measurement import Point, points_path
from campaign.state import CampaignState, PhaseState
from campaign.store import Store


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """A config without fields."""


def saved(folder: Path, times: int = 2) -> tuple[Store, CampaignState]:
    store = Store(folder)
    state = CampaignState(campaign_id="c", created_at="t")
    for number in range(times):
        entry = PhaseState(id="a", kind="a", attempts=number)
        state = msgspec.structs.replace(state, phases=(entry,))
        store.save_state(state, f"save {number}")
    return store, state


def test_state__round_trip(tmp_path: Path) -> None:
    store, state = saved(tmp_path)
    assert store.load_state() == state
    assert store.recovered == []


def test_state__none_yet(tmp_path: Path) -> None:
    assert Store(tmp_path).load_state() is None


@pytest.mark.parametrize("spoil", ["halved", "emptied", "flipped", "nonsense", "deleted", "wrong type"])
def test_state__spoiled_is_recovered_and_said(tmp_path: Path, spoil: str) -> None:
    store, state = saved(tmp_path)
    data = store.state_path.read_bytes()
    spoiled = {
        "halved": data[: len(data) // 2],
        "emptied": b"",
        "flipped": bytes([data[0] ^ 0x80]) + data[1:],
        "nonsense": b'{"schema_version": 1, "phases": "all of them"}',
        "wrong type": b"[]",
    }
    if spoil == "deleted":
        store.state_path.unlink()
    else:
        store.state_path.write_bytes(spoiled[spoil])
    assert store.load_state() == state
    assert "recovered from events.jsonl" in store.recovered[0]


def test_state__recovered_from_the_previous_copy_without_events(tmp_path: Path) -> None:
    store, _ = saved(tmp_path)
    store.state_path.write_bytes(b"")
    store.events.path.unlink()
    recovered = store.load_state()
    assert recovered is not None
    assert recovered.phases[0].attempts == 0
    assert "campaign.previous.json" in store.recovered[0]


def test_state__beyond_recovery_is_refused(tmp_path: Path) -> None:
    store, _ = saved(tmp_path, times=1)
    store.state_path.write_bytes(b"{")
    store.events.path.unlink()
    with pytest.raises(StateError, match="aside to begin anew"):
        store.load_state()


def test_state__a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    store, _ = saved(tmp_path)
    newer = b'{"schema_version": 99, "anything": true}'
    store.state_path.write_bytes(newer)
    with pytest.raises(StateError, match="newer campaign"):
        store.load_state()
    assert store.state_path.read_bytes() == newer


def test_events__a_torn_tail_is_tolerated(tmp_path: Path) -> None:
    store, state = saved(tmp_path)
    with store.events.path.open("ab") as log:
        log.write(b'{"at": "t", "what": "to')
    store.state_path.write_bytes(b"")
    assert store.load_state() == state


def test_attempt__earlier_points_are_carried_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = PhaseState(id="a", kind="a", last_attempt=1)
    folder = store.prepare_attempt(first, Nothing())
    points = points_path(folder / "result.json")
    point = Point(key="k", config_hash="h", started_at="t", duration_s=1.0, data=msgspec.Raw(b'{"x":1}'))
    files.append_line(points, schema.encode(point))
    with points.open("ab") as log:
        log.write(b'{"key": "torn')
    second = store.prepare_attempt(msgspec.structs.replace(first, last_attempt=2), Nothing())
    carried = points_path(second / "result.json").read_bytes()
    assert carried.count(b"\n") == 1
    assert b'"key":"k"' in carried


def test_result__altered_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = store.attempt_folder("a", 1) / "result.json"
    result = schema.Result(
        kind="a", script_version=1, command=("x",), started_at="t", finished_at="t", duration_s=1.0
    )  # fmt: skip
    files.write_atomic(path, schema.encode_pretty(result))
    loaded = store.load_result(path)
    assert loaded is not None
    entry = PhaseState(id="a", kind="a", result_attempt=1, result_hash=loaded[1])
    assert store.read_result(entry) is not None
    path.write_bytes(path.read_bytes().replace(b"1.0", b"2.0"))
    with pytest.raises(StateError, match="altered"):
        store.read_result(entry)
    path.unlink()
    with pytest.raises(StateError, match="is gone"):
        store.read_result(entry)


def test_temporaries__are_removed_beside_the_document_wherever_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "campaign")
    elsewhere = tmp_path / "notes" / "report.md"
    link = store.folder / "report.md"
    for folder in (store.state_folder, store.results_folder / "a" / "1", elsewhere.parent, store.sections_folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{files.TEMPORARY_PREFIX}x").touch()
    elsewhere.touch()
    link.symlink_to(elsewhere)
    assert store.remove_temporaries(link) == 4
    assert not list(tmp_path.rglob(files.TEMPORARY_PREFIX + "*"))
