"""Rules from findings to phases, and what the budget lets through."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from campaign.config import PlannerTable
from campaign.errors import ConfigError
from campaign.phases import collectives, gemm, macro, profile
from campaign.phases.kind import Material, Row
from campaign.planner import RULES, propose, wishes
from campaign.schema import Finding, Quantity
from tests.analysis.fixtures import kimi, quantity
from tests.analysis.fixtures import profile as profiled

KINDS = ("environment", "macro", "gemm", "collectives", "profile", "synthesis")
PLENTY = PlannerTable(follow_ups=20, server_loads=20, minutes=1e6)
PARAMETERS = {"collectives": collectives.KIND, "gemm": gemm.KIND, "profile": profile.KIND, "macro": macro.KIND}


def _row(kind: str, **more: str | float) -> Row:
    fields = {"id": kind, "kind": kind, "title": kind, "status": "done", **more}
    return msgspec.convert(fields, Row)


def _material(
    quantities: Iterable[Quantity], *more: Row, findings: tuple[Finding, ...] = (), without: tuple[str, ...] = ()
) -> Material:
    rows = tuple(_row(kind) for kind in KINDS if kind not in without)
    return Material(quantities=tuple(quantities), findings=findings, beliefs=(), rows=(*rows, *more))


def test_propose__default_budget_takes_one_phase_without_a_server() -> None:
    (proposal,) = propose(_material(kimi()), PlannerTable())
    assert (proposal.id, proposal.kind, proposal.rule) == ("collectives-sweep", "collectives", "allreduce_share")
    assert proposal.server_loads == 0
    assert "51.5 %" in proposal.reason
    assert 14336 in msgspec.convert(proposal.parameters, collectives.CollectivesParameters).sizes_bytes  # type: ignore[operator]


def test_propose__more_loads_bring_the_profile_at_batch_16() -> None:
    names = [p.id for p in propose(_material(kimi()), PlannerTable(follow_ups=2, server_loads=1))]
    assert names == ["collectives-sweep", "profile-b16"]


def test_propose__stops_when_the_budget_is_spent() -> None:
    done = _row("collectives", id="collectives-sweep", origin="rule:allreduce_share", duration_s=50.0)
    assert propose(_material(kimi(), done), PlannerTable(follow_ups=1, server_loads=5)) == ()
    assert propose(_material(kimi()), PlannerTable(minutes=1.0)) == ()
    assert propose(_material(kimi()), PlannerTable(follow_ups=0)) == ()


def test_propose__veto_stands_and_frees_the_budget() -> None:
    vetoed = _row("collectives", id="collectives-sweep", origin="rule:allreduce_share", status="skipped")
    names = [p.id for p in propose(_material(kimi(), vetoed), PlannerTable(server_loads=1))]
    assert names == ["profile-b16"]


def test_propose__rule_can_be_switched_off() -> None:
    off = PlannerTable(server_loads=1, off=("allreduce_share",))
    assert [p.rule for p in propose(_material(kimi()), off)] == ["allreduce_batch"]
    with pytest.raises(ConfigError, match="allreduce_share"):
        propose(_material(kimi()), PlannerTable(off=("allreduce_shares",)))


def test_propose__nothing_is_asked_of_what_cannot_be_measured() -> None:
    assert [p.kind for p in wishes(_material(kimi(), without=("collectives", "profile")))] == []


STEP = {"allreduce": 1.0, "gemm": 2.0, "attention": 5.0}
CELL = "macro.tpot_ms.c4"


@pytest.mark.parametrize(
    ("rule", "quantities", "findings"),
    [
        ("allreduce_share", profiled({"allreduce": 4.0, "gemm": 6.0}), ()),
        ("allreduce_batch", profiled({"allreduce": 4.0, "gemm": 6.0}), ()),
        ("gemm_share", profiled({"moe_gemm": 2.0, "gemm": 2.0, "attention": 6.0}), ()),
        ("rank_spread", [*profiled(STEP), quantity("profile.rank_spread_ms", 0.9)], ()),
        ("idle", profiled(STEP, idle_ms=3.0), ()),
        ("noise", [quantity(CELL, 10.0, low=9.0, high=11.0), quantity("macro.tpot_ms.c1", 5.0, low=4.9, high=5.1)], ()),
        ("prefill", [quantity("macro.ttft_ms.c1", 40.0), quantity("macro.e2el_ms.c1", 100.0)], ()),
        ("client_bound", [], (Finding(id="macro.invalid", text="Some repeats were bound by the client."),)),
    ],
)
def test_rules__each_is_heard_alone(rule: str, quantities: list[Quantity], findings: tuple[Finding, ...]) -> None:
    asked = [p for p in wishes(_material(quantities, findings=findings)) if p.rule == rule]
    assert len(asked) == 1
    proposal = asked[0]
    assert any(character.isdigit() for character in proposal.reason)
    msgspec.convert(proposal.parameters, PARAMETERS[proposal.kind].parameters)
    again = wishes(_material(quantities, _row(proposal.kind, id=proposal.id), findings=findings))
    assert proposal.id not in [p.id for p in again]


@pytest.mark.parametrize(
    "quantities",
    [
        [],
        profiled({"allreduce": 2.9, "gemm": 2.9, "attention": 4.2}),
        [*profiled(STEP, idle_ms=1.9), quantity("profile.rank_spread_ms", 0.9)],
        [quantity(CELL, 10.0, low=9.6, high=10.4)],
        [quantity("macro.ttft_ms.c1", 29.0), quantity("macro.e2el_ms.c1", 100.0)],
        [quantity("profile.step_ms", None), quantity("profile.exposed_ms.allreduce", None)],
    ],
)
def test_rules__nothing_below_the_limits(quantities: list[Quantity]) -> None:
    assert wishes(_material(quantities)) == ()


def test_rules__ids_are_one_a_rule() -> None:
    loud = [
        *profiled({"allreduce": 4.0, "gemm": 4.0}, idle_ms=4.0), quantity("profile.rank_spread_ms", 3.0),
        quantity(CELL, 10.0, low=5.0, high=15.0), quantity("macro.ttft_ms.c1", 40.0),
        quantity("macro.e2el_ms.c1", 99.0),
    ]  # fmt: skip
    finding = Finding(id="macro.invalid", text="Some repeats were bound by the client.")
    asked = propose(_material(loud, findings=(finding,)), PLENTY)
    assert {p.rule for p in asked} == set(RULES)
    assert len({p.id for p in asked}) == len(asked) == len(RULES)
