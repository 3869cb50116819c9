"""synthesis: what the phases say together, and the summary, method and revisions around them. Measures nothing."""

from __future__ import annotations

import msgspec

from campaign import host
from campaign.analysis import Facts, Hypothesis, ModelFacts, Synthesis, synthesize
from campaign.analysis.revisions import Move, moved
from campaign.errors import CampaignError
from campaign.model import Shards, read_model, shard
from campaign.narrator import Endpoint, Narration, narrate, verify
from campaign.phases.kind import Analysis, Context, Material, PhaseKind, Revision, Row
from campaign.schema import Finding, Quantity

#: Tokens in a step for which what-if may ask the model's bytes.
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "synthesis"."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """It has no script."""


class RevisionView(msgspec.Struct, frozen=True, kw_only=True):
    """One state of the numbers, with what moved to it."""

    at: str
    """When its numbers were measured, UTC."""
    phases: tuple[str, ...]
    """Phases whose results were new."""
    moves: tuple[Move, ...]
    """Numbers known before that moved beyond noise."""
    new: int
    """How many numbers were there for the first time."""
    gone: int
    """How many were there before and are no longer."""
    count: int
    """How many numbers it has."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of summary.md.j2, synthesis.md.j2, method.md.j2 and revisions.md.j2."""

    synthesis: Synthesis
    """Verdicts, laws, bottleneck, what-if, the summary's sentences and table."""
    narrated: str
    """A language model's words for the summary, each claim of them a finding; empty = the sentences stand."""
    findings: tuple[Finding, ...]
    """The phases' own findings that a person should look at."""
    rows: tuple[Row, ...]
    """Every phase: command, result, attempt, time, versions."""
    follow_ups: tuple[Row, ...]
    """Phases that the planner's rules added, with their reason."""
    unmeasured: tuple[Row, ...]
    """Phases that failed, are blocked or skipped, with their reason."""
    quantities: tuple[Quantity, ...]
    """All named numbers."""
    versions: dict[str, str]
    """Every version in the results, by package."""
    measured_s: float
    """Measuring time of all phases together."""
    revisions: tuple[RevisionView, ...]
    """Newest first."""


def facts_of(context: Context) -> Facts:
    """The target as the analysis may know it; without a readable config.json its model stays unknown."""
    target = context.target
    return Facts(
        is_cpu=target.device == "cpu",
        tensor_parallel=target.tensor_parallel,
        expert_parallel=target.expert_parallel,
        model=_model_facts(context),
    )


def _model_facts(context: Context) -> ModelFacts | None:
    target = context.target
    if not target.config_path:
        return None
    try:
        model = read_model(host.read_model_config(target.config_path))
        shards = shard(model, target.tensor_parallel, target.expert_parallel)
    except CampaignError:
        return None
    experts = model.experts
    return ModelFacts(
        layers=model.layers,
        experts=experts.count if experts else 0,
        experts_per_token=experts.active if experts else 0,
        weight_bytes={batch: shards.weight_bytes_per_step(batch) for batch in BATCHES},
        expert_weight_bytes={batch: _expert_bytes(shards, batch) for batch in BATCHES},
    )


def _expert_bytes(shards: Shards, batch: int) -> float:
    return sum(linear.calls * linear.bytes_read(batch) for linear in shards.linears if linear.category == "moe_gemm")


def _synthesize(material: Material, context: Context) -> Analysis:
    hypotheses = [
        Hypothesis(claim=b.claim, holds_if=b.holds_if, because=b.because, is_after_data=b.is_after_data)
        for b in material.beliefs
    ]
    synthesis = synthesize(
        material.quantities, hypotheses, facts_of(context), before=_last_other(material.revisions, material.quantities)
    )
    # Checked at every rendering: words about earlier numbers fall away by themselves.
    narrated = " ".join(material.narrated.split())
    versions = {name: version for row in material.rows for name, version in row.versions.items()}
    view = View(
        synthesis=synthesis,
        narrated=narrated if narrated and verify(narrated, synthesis).is_true else "",
        findings=tuple(f for f in material.findings if f.severity != "info"),
        rows=tuple(row for row in material.rows if row.result_path),
        follow_ups=tuple(row for row in material.rows if row.origin.startswith("rule:")),
        unmeasured=tuple(row for row in material.rows if row.status in ("failed", "blocked", "skipped")),
        quantities=material.quantities,
        versions=dict(sorted(versions.items())),
        measured_s=sum(row.duration_s for row in material.rows),
        revisions=revision_views(material.revisions),
    )
    return Analysis(view=view, quantities=(), findings=synthesis.findings)


def _last_other(revisions: tuple[Revision, ...], present: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
    """The numbers of the newest revision that is not the present."""
    return next((r.quantities for r in reversed(revisions) if r.quantities != present), ())


def revision_views(revisions: tuple[Revision, ...]) -> tuple[RevisionView, ...]:
    """Newest first, each against the one before it."""
    made: list[RevisionView] = []
    before: Revision | None = None
    for revision in revisions:
        moves: tuple[Move, ...] = moved(before.quantities, revision.quantities) if before else ()
        made.append(
            RevisionView(
                at=revision.at,
                phases=revision.phases,
                moves=tuple(move for move in moves if move.before is not None and move.after is not None),
                new=sum(move.before is None for move in moves),
                gone=sum(move.after is None for move in moves),
                count=len(revision.quantities),
            )
        )
        before = revision
    return tuple(reversed(made))


def _configure(_parameters: Parameters, _context: Context) -> Config:
    return Config()


def _points(_config: Config) -> tuple[str, ...]:
    return ()


def _narrate(analysis: Analysis, endpoint: Endpoint) -> Narration:
    assert isinstance(analysis.view, View)
    return narrate(analysis.view.synthesis, endpoint)


KIND = PhaseKind(
    name="synthesis",
    title="What it means",
    parameters=Parameters,
    script_version=1,
    server="none",
    configure=_configure,
    points=_points,
    synthesize=_synthesize,
    narrate=_narrate,
    template="synthesis.md.j2",
    sections_before=(("summary", "summary.md.j2"),),
    sections_after=(("method", "method.md.j2"), ("revisions", "revisions.md.j2")),
)
