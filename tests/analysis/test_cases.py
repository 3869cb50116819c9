"""The seven campaigns: bottleneck, verdicts, laws, follow-ups, directions, and the golden documents."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import msgspec
import pytest

import campaign
from campaign.phases import synthesis
from campaign.phases.kind import Context, Material, Revision, Row, Target
from campaign.planner import wishes
from campaign.render import Renderer
from tests.analysis.cases import CASES, Case
from tests.analysis.fixtures import KIMI_FACTS, kimi, quantity

GOLDEN = Path(__file__).parent / "golden"
TEMPLATES = Path(campaign.__file__).parents[1] / "templates"
KINDS = ("environment", "macro", "gemm", "collectives", "profile", "synthesis")


def _material(case: Case) -> Material:
    rows = [
        Row(
            id=kind, kind=kind, title=kind.capitalize(), status="done", attempt=1,
            command=f"python -m campaign.measure.{kind} --config in.json --out out.json",
            result_path=f"state/results/{kind}/1/result.json", result_hash="0123456789abcdef",
            finished_at="2026-01-02T03:04:05+00:00", duration_s=12.5, versions={"vllm": "0.32.0"},
        )
        for kind in KINDS[:-1]
    ]  # fmt: skip
    rows.append(Row(id="synthesis", kind="synthesis", title="What it means", status="done"))
    earlier = tuple(quantity(q.name, (q.value or 0) * 1.2, q.unit) for q in case.quantities[:4])
    return Material(
        quantities=tuple(case.quantities),
        findings=case.findings,
        beliefs=case.beliefs,
        rows=tuple(rows),
        revisions=(
            Revision(at="2026-01-01T03:04:05+00:00", phases=("profile",), quantities=earlier),
            Revision(at="2026-01-02T03:04:05+00:00", phases=("profile",), quantities=tuple(case.quantities)),
        ),
    )


def _view(case: Case) -> synthesis.View:
    context = Context(target=Target(model="m", config_path="", tensor_parallel=8, device="cuda"))
    assert synthesis.KIND.synthesize is not None
    view = synthesis.KIND.synthesize(_material(case), context).view
    assert isinstance(view, synthesis.View)
    return view


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_case__bottleneck(case: Case) -> None:
    found = _view(case).synthesis.bottleneck
    assert found is not None
    assert (found.category, found.is_claimed) == (case.category, case.is_claimed)


def test_case__verdicts(case: Case) -> None:
    assert tuple(v.verdict for v in _view(case).synthesis.verdicts) == case.verdicts


def test_case__laws(case: Case) -> None:
    assert {law.id for law in _view(case).synthesis.laws if law.status == "broken"} == case.broken


def test_case__follow_ups(case: Case) -> None:
    assert [p.id for p in wishes(_material(case))] == case.follow_ups


def test_case__first_direction(case: Case) -> None:
    directions = _view(case).synthesis.directions
    assert (directions[0].id if directions else None) == case.first_direction


def test_case__every_direction_has_numbers_and_an_assumption(case: Case) -> None:
    for change in _view(case).synthesis.changes:
        assert change.inputs
        assert change.assumption
        assert 0 < change.step_ms_low <= change.step_ms_high
        assert 0 < change.gain_low <= change.gain_high


def _document(view: synthesis.View) -> str:
    variables = {field.name: getattr(view, field.name) for field in msgspec.structs.fields(view)}
    phase = Row(id="synthesis", kind="synthesis", title="What it means", status="done")
    shared = {"title": "A campaign", "variant": {}, "figures": "figures"}
    renderer = Renderer([TEMPLATES])
    names = [name for _, name in (*synthesis.KIND.sections_before, ("", synthesis.KIND.template))]
    names += [name for _, name in synthesis.KIND.sections_after]
    parts = [renderer.render(name, {**variables, "phase": phase, "campaign": shared}) for name in names]
    return "\n".join(part.strip() + "\n" for part in parts)


def _compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.md"
    if os.environ.get("CAMPAIGN_GOLDEN") == "update":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8")
    difference = "\n".join(difflib.unified_diff(golden.splitlines(), text.splitlines(), "golden", "now", lineterm=""))
    assert golden == text, f"{path.name} differs; look, then `make golden`:\n{difference}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_golden__document_of_a_case(name: str) -> None:
    _compare(name, _document(_view(CASES[name]())))


def test_golden__document_of_kimi() -> None:
    case = Case(kimi(), (CASES["skewed_rank"]().beliefs), "allreduce", False, (), set(), [], None)
    _compare("kimi", _document(_view(case)))
    assert KIMI_FACTS.model is not None
