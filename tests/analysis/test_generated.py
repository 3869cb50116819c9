"""Generated campaigns that no rule was tuned on: what must be true of every synthesis."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from campaign.analysis import Facts, Hypothesis, ModelFacts, Synthesis, synthesize
from campaign.analysis.readings import CATEGORIES, UNKNOWN
from campaign.analysis.shares import UNCLASSIFIED_LIMIT
from campaign.phases.kind import Material, Row
from campaign.planner import RULES, wishes
from campaign.schema import Quantity
from tests.analysis.fixtures import profile, quantity

NAMED = tuple(name for name in CATEGORIES if name not in UNKNOWN)
milliseconds = st.floats(0.001, 50)
steps = st.dictionaries(st.sampled_from(CATEGORIES), milliseconds, min_size=1, max_size=10)
optional = st.one_of(st.none(), st.floats(0.001, 100), st.sampled_from([0.0]))
OTHERS = (
    ("collectives.burst_ms", "ms"), ("collectives.burst_graph_ms", "ms"), ("collectives.burst_calls", "1"),
    ("collectives.alpha_us", "us"), ("collectives.beta_gb_s", "GB/s"), ("collectives.message_bytes", "B"),
    ("model.allreduces_per_step", "1"), ("model.floor_ms.allreduce", "ms"), ("model.floor_ms.gemm", "ms"),
    ("model.floor_ms.moe_gemm", "ms"), ("gemm.step_ms", "ms"), ("profile.allreduce_wait_us", "us"),
    ("profile.allreduce_transfer_us", "us"), ("profile.rank_spread_ms", "ms"), ("macro.tpot_ms.c1", "ms"),
    ("macro.tpot_ms.c8", "ms"), ("macro.output_tok_s.c8", "tok/s"), ("macro.ttft_ms.c1", "ms"),
    ("macro.e2el_ms.c1", "ms"), ("macro.client_tokens", "1"), ("macro.server_tokens", "1"),
    ("profile.calls.allreduce", "1"),
)  # fmt: skip
BELIEFS = [
    Hypothesis(claim="a", holds_if='share("moe_gemm") + share("gemm") > share("allreduce")'),
    Hypothesis(claim="b", holds_if="burst_ms / step_ms < 0.2 or idle_ms > 3"),
]
MODEL = ModelFacts(
    layers=8, experts=64, experts_per_token=4, weight_bytes={1: 1e9, 4: 2e9, 8: 3e9, 16: 4e9, 32: 6e9, 128: 9e9}
)


@st.composite
def campaigns(draw: st.DrawFn) -> list[Quantity]:
    """A profiled step with any of the other numbers there, missing, null or 0, in any proportion."""
    step = draw(steps)
    made = profile(step, idle_ms=draw(st.floats(0, 50)), batch=draw(st.sampled_from([1, 8])))
    for name, unit in OTHERS:
        if draw(st.booleans()):
            value = draw(optional)
            spread = draw(st.sampled_from([0.0, 0.02, 0.3, 1.5]))
            ends = (None, None) if value is None else (value * (1 - spread), value * (1 + spread))
            made.append(quantity(name, value, unit, low=ends[0], high=ends[1]))
    return draw(st.permutations(made))


def _check_numbers(seen: Synthesis) -> None:
    assert 1 <= len(seen.sentences) <= 5
    text = " ".join(seen.sentences)
    assert not any(word in text for word in ("nan", "None", "inf", "∞"))
    for change in seen.changes:
        assert all(math.isfinite(x) and x > 0 for x in (change.step_ms_low, change.step_ms_high, change.gain_low))
        assert change.gain_low <= change.gain_high
        assert change.inputs
    for law in seen.laws:
        if law.status != "not testable":
            assert law.difference is not None and math.isclose(
                law.difference, (law.measured or 0) - (law.expected or 0), abs_tol=1e-9
            )
            assert (law.unexplained is not None) == (law.status == "broken")


@settings(max_examples=150, deadline=None)
@given(campaigns(), st.booleans(), st.booleans())
def test_synthesize__any_campaign(quantities: list[Quantity], is_cpu: bool, has_model: bool) -> None:
    facts = Facts(is_cpu=is_cpu, tensor_parallel=8, model=MODEL if has_model else None)
    seen = synthesize(quantities, BELIEFS, facts)
    _check_numbers(seen)
    assert ("says nothing of a GPU" in seen.sentences[0]) == is_cpu
    found = seen.bottleneck
    if found is not None and found.is_claimed:
        assert seen.unclassified <= UNCLASSIFIED_LIMIT
        others = [share for share in seen.shares if share.category != found.category]
        assert all(found.share.low > share.share for share in others)
    gains = [c.gain_low * c.gain_high for c in seen.directions if not c.is_assumed]
    assert gains == sorted(gains, reverse=True)
    assert not any(change.is_bound for change in seen.directions)


@settings(max_examples=200, deadline=None)
@given(campaigns())
def test_wishes__never_twice_never_without_a_number(quantities: list[Quantity]) -> None:
    kinds = ("macro", "gemm", "collectives", "profile")
    rows = tuple(Row(id=kind, kind=kind, title=kind, status="done") for kind in kinds)
    material = Material(quantities=tuple(quantities), findings=(), beliefs=(), rows=rows)
    asked = wishes(material)
    assert len({p.id for p in asked}) == len(asked)
    assert all(p.rule in RULES and any(c.isdigit() for c in p.reason) for p in asked)
    more = tuple(Row(id=p.id, kind=p.kind, title=p.id, status="done", origin=f"rule:{p.rule}") for p in asked)
    assert wishes(Material(quantities=tuple(quantities), findings=(), beliefs=(), rows=(*rows, *more))) == ()


def test_synthesize__nothing_measured_claims_nothing() -> None:
    seen = synthesize([], BELIEFS)
    assert seen.bottleneck is None
    assert seen.changes == seen.directions == ()
    assert [verdict.verdict for verdict in seen.verdicts] == ["open", "open"]
    assert "nothing is claimed" in seen.sentences[0]
