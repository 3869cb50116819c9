"""What the phases say together: verdicts, laws, bottleneck, what-if, and the sentences of the summary."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from campaign.analysis.bottleneck import Bottleneck, find_bottleneck
from campaign.analysis.facts import Facts
from campaign.analysis.headline import Headline, headlines
from campaign.analysis.hypotheses import Hypothesis, Verdict, judge_all
from campaign.analysis.laws import BROKEN, Law, reconcile
from campaign.analysis.readings import Readings
from campaign.analysis.scene import set_scene
from campaign.analysis.shares import Share
from campaign.analysis.summary import CPU_NOTE, margin_words, sentences
from campaign.analysis.whatif import Change, next_directions, what_if
from campaign.analysis.wording import amount, capital, category, percents, times_range
from campaign.schema import Finding, Quantity


class Synthesis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that follows from the campaign's quantities."""

    is_cpu: bool
    """Measured on a CPU."""
    caveat: str
    """What to say beside every number; empty where nothing is."""
    batch: int
    """Batch of the profiled step."""
    step_ms: float | None
    """Mean decode step under the profiler."""
    sentences: tuple[str, ...]
    """The summary, five sentences at most."""
    headlines: tuple[Headline, ...]
    """The summary's table."""
    bottleneck: Bottleneck | None
    """The largest named part of the step; null without a profile."""
    unclassified: float
    """Fraction of the step in kernels that no rule knows."""
    shares: tuple[Share, ...]
    """Named categories and idle, largest first."""
    laws: tuple[Law, ...]
    """Reconciliation."""
    verdicts: tuple[Verdict, ...]
    """One a hypothesis."""
    changes: tuple[Change, ...]
    """What-if."""
    directions: tuple[Change, ...]
    """Next directions, best first."""
    findings: tuple[Finding, ...]
    """The same as claims with their numbers."""


def synthesize(
    quantities: Sequence[Quantity],
    hypotheses: Sequence[Hypothesis] = (),
    facts: Facts | None = None,
    *,
    before: Sequence[Quantity] = (),
) -> Synthesis:
    """Everything that follows; `before` are the numbers of the last revision. Pure.

    Raises `ConfigError` where a hypothesis cannot be read.
    """
    facts = facts or Facts()
    readings = Readings(quantities)
    scene = set_scene(readings, facts)
    verdicts = judge_all(hypotheses, readings, is_idle_mixed=facts.is_cpu)
    laws, changes = reconcile(scene), what_if(scene)
    bottleneck, directions = find_bottleneck(scene.shares), next_directions(changes)
    lines = sentences(
        scene, bottleneck=bottleneck, laws=laws, verdicts=verdicts, changes=changes, directions=directions
    )
    return Synthesis(
        is_cpu=facts.is_cpu,
        caveat=CPU_NOTE if facts.is_cpu else "",
        batch=scene.batch,
        step_ms=scene.step_ms,
        sentences=lines,
        headlines=headlines(scene, Readings(before) if before else None),
        bottleneck=bottleneck,
        unclassified=scene.shares.unclassified,
        shares=tuple(scene.shares.ranked()),
        laws=laws,
        verdicts=verdicts,
        changes=changes,
        directions=directions,
        findings=_findings(
            readings, first=lines[0], bottleneck=bottleneck, laws=laws, verdicts=verdicts, directions=directions
        ),
    )


def _findings(
    readings: Readings,
    *,
    first: str,
    bottleneck: Bottleneck | None,
    laws: Sequence[Law],
    verdicts: Sequence[Verdict],
    directions: Sequence[Change],
) -> tuple[Finding, ...]:
    found = []
    if bottleneck is not None:
        names = ("profile.step_ms", f"profile.exposed_ms.{bottleneck.category}", "profile.unclassified_share")
        numbers = tuple(q for name in names if (q := readings.find(name)) is not None)
        severity = "info" if bottleneck.is_claimed else "notice"
        found.append(Finding(id="bottleneck", text=first, severity=severity, quantities=numbers))
    found += [law_finding(law) for law in laws if law.status == BROKEN]
    for number, verdict in enumerate(verdicts, 1):
        text = f"“{verdict.claim}” is {verdict.verdict}"
        text += f" by at least {margin_words(verdict)}." if verdict.margin is not None else f": {verdict.reason}."
        found.append(Finding(id=f"hypothesis.{number}", text=text, severity="info"))
    for change in directions:
        text = f"{capital(change.change)}: {times_range(change.gain_low, change.gain_high)}."
        found.append(Finding(id=f"direction.{change.id}", text=text))
    return tuple(found)


def law_finding(law: Law) -> Finding:
    """A broken law as a finding with its three numbers."""
    values = (("expected", law.expected), ("measured", law.measured), ("difference", law.difference))
    return Finding(
        id=f"law.{law.id}",
        text=f"{capital(law.law)} does not hold: expected {amount(law.expected, law.unit)}, "
        f"measured {amount(law.measured, law.unit)}{f' ({law.note})' if law.note else ''}.",
        severity="broken",
        quantities=tuple(Quantity(name=f"law.{law.id}.{name}", value=v, unit=law.unit) for name, v in values),
    )


def share_words(share: Share) -> str:
    """`GEMM 9.6 to 31.4 %`."""
    return f"{category(share.category)} {percents(share.low, share.high)}"
