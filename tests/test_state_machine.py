"""Random histories of a todo list: whatever happens in whatever order, the rules of the statuses hold."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from campaign import schema
from campaign import state as todo
from campaign.errors import UsageError
from campaign.state import OPEN, CampaignState, PhaseState, Status, Wanted

NAMES = st.sampled_from(["a", "b", "c", "d"])


class Campaign(RuleBasedStateMachine):
    """A person, a planner and a runner that is killed now and then, all at one todo list."""

    def __init__(self) -> None:
        super().__init__()
        self.state = CampaignState(campaign_id="c", created_at="t")
        self.saved = schema.encode_pretty(self.state)
        self.asked: dict[str, str] = {"a": "1", "b": "1"}
        self.blocked: set[str] = set()
        self.folders: dict[str, set[int]] = {}
        """Attempts that have a folder, by phase."""
        self.measured: dict[str, tuple[int, str]] = {}
        """Phase → attempt and input of its accepted result."""
        self.vetoed: set[str] = set()

    def running(self) -> list[str]:
        return [entry.id for entry in self.state.phases if entry.status == "running"]

    def wanted(self) -> list[Wanted]:
        added = [e.id for e in self.state.phases if e.origin == "added" and e.id not in self.asked]
        return [
            Wanted(
                id=name, kind="k", title=name, parameters={}, inputs={"x": self.asked.get(name, "1")}, points_total=3,
                blocked="no GPU" if name in self.blocked else None,
            )
            for name in [*self.asked, *added]
        ]  # fmt: skip

    @rule()
    def reconcile(self) -> None:
        if self.running():
            return  # a runner settles what runs before it reconciles
        once = todo.reconcile(self.state, self.wanted())
        assert todo.reconcile(once, self.wanted()) == once
        self.state = once

    @rule(name=NAMES, value=st.sampled_from("123"))
    def ask(self, name: str, value: str) -> None:
        self.asked[name] = value

    @precondition(lambda self: len(self.asked) > 1)
    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        self.asked.pop(name, None)

    @rule(name=NAMES)
    def block_or_free(self, name: str) -> None:
        self.blocked ^= {name}

    @precondition(lambda self: not self.running())
    @rule()
    def begin(self) -> None:
        self.reconcile()
        entry = todo.next_open(self.state)
        if entry is None:
            return
        newest = max(self.folders.get(entry.id, {0}))
        inputs = {"x": self.asked.get(entry.id, "1")}
        self.state = todo.begin(self.state, entry.id, inputs=inputs, at="t", newest_folder=newest)
        number = todo.phase(self.state, entry.id).last_attempt
        assert number not in self.folders.get(entry.id, set()), "an attempt's number was used twice"
        self.folders.setdefault(entry.id, set()).add(number)

    @precondition(lambda self: bool(self.running()))
    @rule(how=st.sampled_from(["finish", "fail", "interrupt"]))
    def end(self, how: str) -> None:
        (name,) = self.running()
        before = todo.phase(self.state, name)
        if how == "finish":
            self.state = todo.finish(self.state, name, result_hash="h", duration_s=1.0)
            self.measured[name] = (before.last_attempt, before.inputs["x"])
        elif how == "fail":
            self.state = todo.fail(self.state, name, "broke")
        else:
            self.state = todo.interrupt(self.state, name, "stopped")
            assert todo.phase(self.state, name).attempts == before.attempts - 1

    @rule()
    def save(self) -> None:
        self.saved = schema.encode_pretty(self.state)

    @rule()
    def lose_what_was_not_saved(self) -> None:
        """The state is set back to an earlier one; folders and results stay."""
        self.state = schema.decode(self.saved, CampaignState)
        self.measured = {
            e.id: (e.result_attempt, self.measured[e.id][1])
            for e in self.state.phases
            if e.result_attempt and self.measured.get(e.id, (0, ""))[0] == e.result_attempt
        }
        self.vetoed = {e.id for e in self.state.phases if e.reason == "skipped by a person"}
        for name in self.running():  # what the next runner does with what a dead one left
            self.state = todo.interrupt(self.state, name, "the runner ended")

    @precondition(lambda self: not self.running())
    @rule(name=NAMES)
    def skip(self, name: str) -> None:
        try:
            self.state = todo.skip(self.state, name)
            self.vetoed.add(name)
        except UsageError:
            assert name not in {entry.id for entry in self.state.phases}

    @precondition(lambda self: not self.running())
    @rule(name=NAMES)
    def reset(self, name: str) -> None:
        try:
            self.state = todo.reset(self.state, name)
        except UsageError:
            return
        self.vetoed.discard(name)
        self.measured.pop(name, None)
        entry = todo.phase(self.state, name)
        assert entry.carry_from > entry.last_attempt, "points from before a reset would be taken over"

    @rule(name=NAMES)
    def add(self, name: str) -> None:
        try:
            self.state = todo.add(self.state, [PhaseState(id=name, kind="k", origin="added")], before_kind="none")
        except UsageError:
            assert name in {entry.id for entry in self.state.phases}

    @invariant()
    def ids_are_unique_and_statuses_known(self) -> None:
        names = [entry.id for entry in self.state.phases]
        assert len(set(names)) == len(names)
        assert {entry.status for entry in self.state.phases} <= set(get_args(Status))

    @invariant()
    def done_means_measured_under_these_inputs(self) -> None:
        for entry in self.state.phases:
            if entry.status == "done":
                assert entry.result_attempt in self.folders[entry.id]
                assert entry.inputs.get("x"), entry
            if entry.result_attempt and entry.id in self.measured:
                assert entry.result_attempt == self.measured[entry.id][0]

    @invariant()
    def reconciled_done_is_never_out_of_date(self) -> None:
        if self.running():
            return
        for entry in todo.reconcile(self.state, self.wanted()).phases:
            if entry.status == "done" and entry.id in self.measured:
                assert self.measured[entry.id][1] == self.asked.get(entry.id, "1")

    @invariant()
    def a_veto_stands(self) -> None:
        for name in self.vetoed & {entry.id for entry in self.state.phases}:
            entry = todo.phase(self.state, name)
            assert entry.status == "skipped" or entry.status not in OPEN, entry

    @invariant()
    def one_at_a_time(self) -> None:
        assert len(self.running()) <= 1

    @invariant()
    def survives_its_file(self) -> None:
        assert schema.decode(schema.encode_pretty(self.state), CampaignState) == self.state


Campaign.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestCampaign = Campaign.TestCase


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_state_machine__many_histories() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Campaign, settings=settings(max_examples=3000, stateful_step_count=60, deadline=None))
    print("3000 random histories of up to 60 steps: every invariant holds")
