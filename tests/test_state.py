"""The todo list's transitions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from campaign import state as todo
from campaign.errors import UsageError
from campaign.state import CampaignState, PhaseState, Wanted


def wanted(name: str, inputs: dict[str, str] | None = None, **fields: Any) -> Wanted:
    return Wanted(id=name, kind=name, title=name, parameters={}, inputs=inputs or {"x": "1"}, points_total=2, **fields)


def begun(*names: str) -> CampaignState:
    empty = CampaignState(campaign_id="c", created_at="t")
    return todo.reconcile(empty, [wanted(name) for name in names])


def measured(state: CampaignState, name: str, inputs: dict[str, str] | None = None) -> CampaignState:
    state = todo.begin(state, name, inputs=inputs or {"x": "1"}, at="t")
    return todo.finish(state, name, result_hash="h", duration_s=1.0)


def test_reconcile__new_phases_are_pending_in_order() -> None:
    state = begun("a", "b")
    assert [(entry.id, entry.status, entry.reason) for entry in state.phases] == [
        ("a", "pending", "new"), ("b", "pending", "new"),
    ]  # fmt: skip


def test_reconcile__a_changed_input_makes_stale_and_is_named() -> None:
    state = measured(begun("a"), "a")
    state = todo.reconcile(state, [wanted("a", {"x": "2"})])
    entry = todo.phase(state, "a")
    assert (entry.status, entry.reason, entry.attempts) == ("stale", "x 1 → 2", 0)
    assert entry.result_attempt == 1  # old numbers stay until new ones replace them


def test_reconcile__the_same_inputs_change_nothing() -> None:
    state = measured(begun("a", "b"), "a")
    assert todo.reconcile(state, [wanted("a"), wanted("b")]) == state


def test_reconcile__what_reads_the_others_is_done_until_a_result_changes_which_is_named() -> None:
    state = measured(begun("a", "b", "all"), "a")

    def asked(state: CampaignState) -> list[Wanted]:
        reads = msgspec.structs.replace(wanted("all"), inputs=todo.results_of(state), is_measured=False)
        return [wanted("a"), wanted("b"), reads]

    state = todo.change(state, "all", status="done", reason="", inputs=todo.results_of(state))
    assert todo.reconcile(state, asked(state)) == state
    for changed in (todo.change(state, "a", result_hash="other"), todo.change(state, "a", result_hash="")):
        entry = todo.phase(todo.reconcile(changed, asked(changed)), "all")
        assert (entry.status, entry.reason) == ("pending", "result.a")
    more = measured(state, "b")
    assert todo.phase(todo.reconcile(more, asked(more)), "all").reason == "result.b"


def test_reconcile__stale_and_measured_again_is_done() -> None:
    state = todo.reconcile(measured(begun("a"), "a"), [wanted("a", {"x": "2"})])
    state = measured(state, "a", {"x": "2"})
    assert todo.phase(state, "a").result_attempt == 2
    assert todo.reconcile(state, [wanted("a", {"x": "2"})]) == state


def test_reconcile__a_phase_nobody_asks_for_is_skipped_and_comes_back_done() -> None:
    state = measured(begun("a", "b"), "a")
    dropped = todo.reconcile(state, [wanted("b")])
    assert todo.phase(dropped, "a").status == "skipped"
    assert todo.phase(todo.reconcile(dropped, [wanted("a"), wanted("b")]), "a").status == "done"


def test_reconcile__blocked_and_unblocked() -> None:
    state = todo.reconcile(begun("a"), [wanted("a", blocked="TP 1")])
    assert todo.phase(state, "a").status == "blocked"
    assert todo.phase(todo.reconcile(state, [wanted("a")]), "a").status == "pending"


def test_interrupt__is_nobodys_failure() -> None:
    state = todo.begin(begun("a"), "a", inputs={"x": "1"}, at="t")
    state = todo.interrupt(state, "a", "stopped")
    entry = todo.phase(state, "a")
    assert (entry.status, entry.attempts, entry.last_attempt) == ("interrupted", 0, 1)
    assert todo.phase(todo.begin(state, "a", inputs={"x": "1"}, at="t"), "a").last_attempt == 2


def test_skip__is_kept_by_reconcile() -> None:
    state = todo.reconcile(todo.skip(begun("a"), "a"), [wanted("a")])
    assert todo.phase(state, "a").status == "skipped"
    assert todo.next_open(state) is None


def test_add__stands_before_the_synthesis_and_only_once() -> None:
    state = todo.add(begun("a", "synthesis"), [PhaseState(id="more", kind="a")], before_kind="synthesis")
    assert [entry.id for entry in state.phases] == ["a", "more", "synthesis"]
    with pytest.raises(UsageError, match="already"):
        todo.add(state, [PhaseState(id="more", kind="a")], before_kind="synthesis")


def test_phase__an_unknown_id_names_those_that_exist() -> None:
    with pytest.raises(UsageError, match="Phases: a, b"):
        todo.phase(begun("a", "b"), "c")


def test_reconcile__dropped_and_asked_for_otherwise_is_stale_at_once() -> None:
    state = todo.reconcile(measured(begun("a"), "a"), [])
    again = todo.reconcile(state, [wanted("a", {"x": "2"})])
    assert (todo.phase(again, "a").status, todo.phase(again, "a").reason) == ("stale", "x 1 → 2")


def test_reconcile__stale_then_blocked_then_freed_is_still_stale() -> None:
    state = todo.reconcile(measured(begun("a"), "a"), [wanted("a", {"x": "2"})])
    state = todo.reconcile(state, [wanted("a", {"x": "2"}, blocked="no GPU")])
    assert todo.phase(todo.reconcile(state, [wanted("a", {"x": "2"})]), "a").status == "stale"


def test_reconcile__begun_anew_then_blocked_then_freed_does_not_show_the_old_result_as_current() -> None:
    state = todo.reconcile(measured(begun("a"), "a"), [wanted("a", {"x": "2"})])
    state = todo.interrupt(todo.begin(state, "a", inputs={"x": "2"}, at="t"), "a", "stopped")
    state = todo.reconcile(state, [wanted("a", {"x": "2"}, blocked="no GPU")])
    assert todo.phase(todo.reconcile(state, [wanted("a", {"x": "2"})]), "a").status == "stale"


def test_reconcile__a_veto_outlives_the_entry() -> None:
    state = todo.reconcile(todo.skip(begun("a"), "a"), [])
    assert todo.phase(todo.reconcile(state, [wanted("a")]), "a").status == "skipped"


def test_reconcile__done_without_a_result_is_measured() -> None:
    state = todo.change(begun("a"), "a", status="done")
    assert todo.phase(todo.reconcile(state, [wanted("a")]), "a").status == "pending"


def test_reset__leaves_earlier_points_behind() -> None:
    entry = todo.phase(todo.reset(measured(begun("a"), "a"), "a"), "a")
    assert (entry.status, entry.carry_from, entry.last_attempt) == ("pending", 2, 1)


def test_begin__never_uses_the_number_of_a_folder_again() -> None:
    state = todo.begin(begun("a"), "a", inputs={"x": "1"}, at="t", newest_folder=4)
    assert todo.phase(state, "a").last_attempt == 5
