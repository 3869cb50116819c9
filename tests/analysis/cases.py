"""Seven made-up campaigns, each with what a careful reader must get out of it."""

from __future__ import annotations

from typing import NamedTuple

from campaign.phases.kind import Belief
from campaign.schema import Finding, Quantity
from tests.analysis.fixtures import profile, quantity

CALLS = {"allreduce": 123.0}
MODEL = [quantity("model.allreduces_per_step", 123, "1"), quantity("model.message_bytes", 14336, "B")]
BURST = [quantity("collectives.burst_calls", 122, "1"), quantity("collectives.message_bytes", 14336, "B")]
GEMM_BELIEF = Belief(
    claim="Expert GEMMs bound decode",
    holds_if='share("moe_gemm") + share("gemm") > share("allreduce")',
    because="at batch 1 each expert GEMM is tiny, and there are many",
)
BURST_BELIEF = Belief(claim="The burst is a small part of the step", holds_if="burst_ms / step_ms < 0.2")


class Case(NamedTuple):
    """One campaign and what must come out."""

    quantities: list[Quantity]
    beliefs: tuple[Belief, ...]
    category: str
    is_claimed: bool
    verdicts: tuple[str, ...]
    broken: set[str]
    follow_ups: list[str]
    """All that rules ask for, in their order."""
    first_direction: str | None
    findings: tuple[Finding, ...] = ()


def _cells(**tpot_ms: tuple[float, float]) -> list[Quantity]:
    """c<streams> = (TPOT ms, half its interval)."""
    made = []
    for name, (ms, half) in tpot_ms.items():
        streams = int(name[1:])
        made += [
            quantity(f"macro.tpot_ms.{name}", ms, low=ms - half, high=ms + half),
            quantity(f"macro.ttft_ms.{name}", 4 * ms),
            quantity(f"macro.e2el_ms.{name}", 131 * ms),
            quantity(f"macro.output_tok_s.{name}", streams * 1e3 / ms, "tok/s"),
        ]
    return [*made, quantity("macro.client_tokens", 4096, "1"), quantity("macro.server_tokens", 4096, "1")]


def allreduce_bound() -> Case:
    """All-reduce takes over half of the step; waiting explains what the burst does not."""
    step = {"allreduce": 11.0, "gemm": 3.6, "moe_gemm": 2.4, "attention": 1.6, "rms_norm": 1.2, "other": 0.4}
    return Case(
        quantities=[
            *profile(step, calls=CALLS), *MODEL, *BURST,
            *_cells(c1=(19.6, 0.2), c16=(31.0, 0.5)),
            quantity("collectives.burst_ms", 8.0), quantity("collectives.alpha_us", 60.0, "us"),
            quantity("collectives.beta_gb_s", 3.0, "GB/s"),
            quantity("profile.allreduce_wait_us", 24.0, "us"), quantity("profile.allreduce_transfer_us", 65.4, "us"),
            quantity("model.floor_ms.allreduce", 0.32), quantity("model.floor_ms.gemm", 2.53),
            quantity("model.floor_ms.moe_gemm", 0.83), quantity("gemm.step_ms", 5.5),
        ],
        beliefs=(GEMM_BELIEF, BURST_BELIEF),
        category="allreduce",
        is_claimed=True,
        verdicts=("refuted", "refuted"),
        broken=set(),
        follow_ups=["collectives-sweep", "profile-b16"],
        first_direction="communicator",
    )  # fmt: skip


def expert_gemm_bound() -> Case:
    """Experts are most of the step, twice as slow as their bytes ask."""
    step = {"moe_gemm": 9.0, "gemm": 2.0, "allreduce": 1.0, "attention": 1.0, "other": 0.1}
    return Case(
        quantities=[
            *profile(step, calls=CALLS), *MODEL, *BURST, *_cells(c1=(12.9, 0.1)),
            quantity("collectives.burst_graph_ms", 0.95), quantity("model.floor_ms.moe_gemm", 4.5),
            quantity("model.floor_ms.gemm", 1.8), quantity("model.floor_ms.allreduce", 0.3),
            quantity("gemm.step_ms", 10.4),
        ],
        beliefs=(GEMM_BELIEF, BURST_BELIEF),
        category="moe_gemm",
        is_claimed=True,
        verdicts=("held", "open"),
        broken=set(),
        follow_ups=["gemm-batches"],
        first_direction="floor.moe_gemm",
    )  # fmt: skip


def host_bound() -> Case:
    """The device waits for the host most of the time."""
    step = {"gemm": 2.0, "moe_gemm": 2.0, "attention": 1.5, "allreduce": 1.2, "copy": 0.4}
    return Case(
        quantities=[
            *profile(step, idle_ms=60.0, calls=CALLS), *MODEL, *BURST, *_cells(c1=(65.0, 1.0)),
            quantity("collectives.burst_ms", 1.15),
        ],
        beliefs=(Belief(claim="The device is busy", holds_if="idle_ms / step_ms < 0.1"),),
        category="idle",
        is_claimed=True,
        verdicts=("refuted",),
        broken=set(),
        follow_ups=["profile-host"],
        first_direction="no_gaps",
    )  # fmt: skip


def attention_bound() -> Case:
    """A long context: attention reads more bytes than all weights; one GPU has no all-reduce."""
    step = {"attention": 14.0, "gemm": 5.0, "rms_norm": 0.6, "kv_cache": 0.3, "other": 0.6}
    return Case(
        quantities=[
            *profile(step), quantity("model.allreduces_per_step", 0, "1"), *_cells(c1=(20.1, 0.2)),
            quantity("model.floor_ms.attention", 9.0), quantity("model.floor_ms.gemm", 4.6),
            quantity("gemm.step_ms", 4.9),
        ],
        beliefs=(Belief(claim="Attention is most of a step", holds_if='share("attention") > 0.5'),),
        category="attention",
        is_claimed=True,
        verdicts=("held",),
        broken=set(),
        follow_ups=[],
        first_direction="floor.attention",
    )  # fmt: skip


def skewed_rank() -> Case:
    """One rank is slow, and the others wait for it inside all-reduce."""
    step = {"allreduce": 9.0, "gemm": 6.0, "attention": 3.0, "other": 0.5}
    return Case(
        quantities=[
            *profile(step, calls=CALLS), *MODEL, *BURST, *_cells(c1=(18.2, 0.2)),
            quantity("collectives.burst_ms", 2.4), quantity("profile.allreduce_wait_us", 53.0, "us"),
            quantity("profile.allreduce_transfer_us", 20.2, "us"), quantity("profile.rank_spread_ms", 6.2),
        ],
        beliefs=(GEMM_BELIEF,),
        category="allreduce",
        is_claimed=True,
        verdicts=("refuted",),
        broken=set(),
        follow_ups=["collectives-links", "collectives-sweep", "gemm-batches", "profile-b16"],
        first_direction="even_ranks",
    )  # fmt: skip


def noisy() -> Case:
    """Two categories alike, and intervals wider than their distance: nothing is claimed."""
    wide = {"profile.share.allreduce": (0.24, 0.32), "profile.share.gemm": (0.23, 0.31)}
    step = {"allreduce": 2.8, "gemm": 2.7, "attention": 2.5, "rms_norm": 1.8, "other": 0.2}
    numbers = [
        quantity(q.name, q.value, q.unit, low=wide[q.name][0], high=wide[q.name][1]) if q.name in wide else q
        for q in profile(step, calls=CALLS)
    ]
    return Case(
        quantities=[
            *numbers, *MODEL, *BURST, *_cells(c1=(9.9, 1.4), c4=(11.0, 0.2)), quantity("collectives.burst_ms", 2.7),
        ],
        beliefs=(GEMM_BELIEF,),
        category="allreduce",
        is_claimed=False,
        verdicts=("open",),
        broken=set(),
        follow_ups=["macro-repeats"],
        first_direction=None,
    )  # fmt: skip


def contradictory() -> Case:
    """Laws are broken: profiler overhead, tokens lost, calls too many, a category faster than physics."""
    step = {"gemm": 1.0, "allreduce": 3.0, "attention": 3.2, "other": 4.0}
    return Case(
        quantities=[
            *profile(step, calls={"allreduce": 246.0}), *MODEL, *BURST,
            *[q for q in _cells(c1=(6.0, 0.1)) if q.name != "macro.client_tokens"],
            quantity("macro.client_tokens", 4000, "1"), quantity("collectives.burst_ms", 5.0),
            quantity("model.floor_ms.gemm", 6.0), quantity("gemm.step_ms", 6.3),
        ],
        beliefs=(GEMM_BELIEF, Belief(claim="A step is short", holds_if="step_ms < 20", is_after_data=True)),
        category="attention",
        is_claimed=False,
        verdicts=("open", "held"),
        broken={"step_against_tpot", "collective_calls", "allreduce_in_situ", "gemm_in_situ", "floor.gemm", "tokens"},
        follow_ups=[],
        first_direction=None,
        findings=(Finding(id="macro.tokens", text="The server counted 4096 tokens, the client received 4000.",
                          severity="notice"),),
    )  # fmt: skip


CASES = {
    made.__name__: made
    for made in (
        allreduce_bound, expert_gemm_bound, host_bound, attention_bound, skewed_rank, noisy, contradictory,
    )
}  # fmt: skip
