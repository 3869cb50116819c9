"""What the results say now: every accepted result analyzed, and what the phases say together. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from campaign import files, schema
from campaign.measurement import now_utc
from campaign.narrator import Endpoint, Narration
from campaign.phases.kind import Analysis, Belief, Context, Material, PhaseKind, Revision, Row
from campaign.runner.opening import OpenCampaign
from campaign.schema import Finding, Quantity, Result
from campaign.state import CampaignState, PhaseState, replace_phase, results_of


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One phase's result and what follows from it."""

    entry: PhaseState
    result: Result
    result_hash: str
    analysis: Analysis


def scoped(quantities: tuple[Quantity, ...], entry: PhaseState, origin: str = "measured") -> tuple[Quantity, ...]:
    """Quantities as a campaign knows them: they name the phase they are from.

    Those of a result from elsewhere carry its origin.
    Those of a further phase of a kind carry its id in their names too, so that names stay unique.
    """
    head = entry.kind + "."
    made = []
    for quantity in quantities:
        if entry.id != entry.kind and not quantity.name.startswith(head):
            continue  # what is not this kind's own (the model's arithmetic) is known from the first phase
        name = f"{entry.id}.{quantity.name[len(head) :]}" if entry.id != entry.kind else quantity.name
        source = msgspec.structs.replace(quantity.source, phase=entry.id) if quantity.source else None
        if source is not None and origin != "measured" and source.origin == "measured":
            source = msgspec.structs.replace(source, origin=origin)
        made.append(msgspec.structs.replace(quantity, name=name, source=source))
    return tuple(made)


def measured_on(context: Context, results: Sequence[Result]) -> Context:
    """The context with the device that the results are from: a document may be rendered on another machine."""
    devices = {result.host.device for result in results if result.host.device and not result.imported}
    if not devices:
        return context
    device: Literal["cuda", "cpu"] = "cpu" if devices == {"cpu"} else "cuda"
    return msgspec.structs.replace(context, target=msgspec.structs.replace(context.target, device=device))


def read_phase(campaign: OpenCampaign, entry: PhaseState) -> Reading | None:
    """The accepted result of one phase, analyzed; None where there is none."""
    kind = campaign.kinds[entry.kind]
    loaded = campaign.store.read_result(entry)
    if loaded is None or kind.analyze is None:
        return None
    result, result_hash = loaded
    analysis = kind.analyze(result, measured_on(campaign.context, [result]))
    return Reading(entry=entry, result=result, result_hash=result_hash, analysis=analysis)


def read_all(campaign: OpenCampaign, state: CampaignState) -> dict[str, Reading]:
    """Every accepted result, by phase id, in the order of the todo list."""
    readings = {entry.id: read_phase(campaign, entry) for entry in state.phases}
    return {name: reading for name, reading in readings.items() if reading is not None}


def row(campaign: OpenCampaign, entry: PhaseState, reading: Reading | None) -> Row:
    """One phase as the synthesis and the provenance lines see it."""
    store = campaign.store
    path = store.attempt_folder(entry.id, entry.result_attempt) / "result.json" if entry.result_attempt else None
    known = Row(
        id=entry.id,
        kind=entry.kind,
        title=entry.title,
        status=entry.status,
        reason=entry.reason or entry.because,
        origin=entry.origin,
    )
    if reading is None:
        return known
    return msgspec.structs.replace(
        known,
        attempt=entry.result_attempt,
        command=" ".join(reading.result.command),
        result_path=store.relative(path) if path else "",
        result_hash=reading.result_hash,
        finished_at=reading.result.finished_at,
        duration_s=reading.result.duration_s,
        versions=reading.result.versions,
        origin=reading.result.origin if reading.result.imported else entry.origin,
        notes=reading.result.notes if reading.result.imported else (),
    )


def beliefs(campaign: OpenCampaign, state: CampaignState) -> tuple[Belief, ...]:
    """The hypotheses, each with whether its data existed when it was first seen."""
    first_data = min((e.started_at for e in state.phases if e.result_attempt and e.kind != "environment"), default="")
    made = []
    for table in campaign.config.hypotheses:
        seen = state.hypotheses.get(schema.content_hash([table.claim, table.holds_if]), "")
        made.append(
            Belief(
                claim=table.claim,
                holds_if=table.holds_if,
                because=table.because,
                is_after_data=bool(first_data and seen and seen > first_data),
            )
        )
    return tuple(made)


def note_hypotheses(campaign: OpenCampaign, state: CampaignState) -> CampaignState:
    """The state with the time at which each hypothesis was first seen."""
    seen = dict(state.hypotheses)
    for table in campaign.config.hypotheses:
        seen.setdefault(schema.content_hash([table.claim, table.holds_if]), now_utc())
    return msgspec.structs.replace(state, hypotheses=seen)


def material(campaign: OpenCampaign, state: CampaignState, readings: Mapping[str, Reading]) -> Material:
    """All that is known, for the synthesis."""
    quantities: list[Quantity] = []
    findings: list[Finding] = []
    names: set[str] = set()
    for reading in readings.values():
        for quantity in scoped(reading.analysis.quantities, reading.entry, reading.result.origin):
            if quantity.name not in names:
                names.add(quantity.name)
                quantities.append(quantity)
        findings.extend(reading.analysis.findings)
    return Material(
        quantities=tuple(quantities),
        findings=tuple(findings),
        beliefs=beliefs(campaign, state),
        rows=tuple(row(campaign, entry, readings.get(entry.id)) for entry in state.phases),
        revisions=read_revisions(campaign),
        narrated=told.narration.text if (told := read_narration(campaign)) is not None else "",
    )


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the narrator was asked and answered, and about which numbers."""

    about: str
    """Hash of the quantities."""
    narration: Narration


def read_narration(campaign: OpenCampaign) -> Told | None:
    """What the narrator said last, where one is configured; its text is verified again wherever it is used."""
    if not campaign.config.narrator.url:
        return None
    known: Told | None = campaign.store.read_json(campaign.store.narration_path, Told)
    return known


def ask_narrator(campaign: OpenCampaign, state: CampaignState, readings: Mapping[str, Reading]) -> Narration | None:
    """Ask the narrator once for these numbers and keep prompt and reply; None where nothing was asked.

    A bad endpoint never stops a campaign: the template's text stands then.
    """
    table = campaign.config.narrator
    kind = next((campaign.kinds[e.kind] for e in state.phases if campaign.kinds[e.kind].narrate), None)
    analysis = synthesis(campaign, state, readings)
    if not table.url or kind is None or kind.narrate is None or analysis is None:
        return None
    numbers = [(q.name, q.value) for q in material(campaign, state, readings).quantities]
    about = schema.content_hash([numbers, table.url, table.model, table.seed])
    known = read_narration(campaign)
    if known is not None and known.about == about:
        return None
    endpoint = Endpoint(url=table.url, model=table.model, api_key_env=table.api_key_env, seed=table.seed)
    narration = kind.narrate(analysis, endpoint)
    files.write_atomic(campaign.store.narration_path, schema.encode_pretty(Told(about=about, narration=narration)))
    return narration


def read_revisions(campaign: OpenCampaign) -> tuple[Revision, ...]:
    """Every state of the numbers that was written up, oldest first."""
    lines = files.read_whole_lines(campaign.store.revisions_path)
    made = []
    for line in lines:
        try:
            made.append(schema.decode(line, Revision))
        except msgspec.MsgspecError:
            continue
    return tuple(made)


def note_revision(campaign: OpenCampaign, state: CampaignState, readings: Mapping[str, Reading]) -> bool:
    """Append the present numbers as a revision unless the last one holds them already; says whether it did."""
    now = material(campaign, state, readings)
    last = now.revisions[-1].quantities if now.revisions else ()
    if not now.quantities or now.quantities == last:
        return False
    before = {q.name: q for q in last}
    phases = {q.source.phase if q.source else "" for q in now.quantities if before.get(q.name) != q}
    at = max((reading.result.finished_at for reading in readings.values()), default=now_utc())
    revision = Revision(at=at, phases=tuple(sorted(phases - {""})), quantities=now.quantities)
    files.append_line(campaign.store.revisions_path, schema.encode(revision))
    return True


def accept_synthesis(campaign: OpenCampaign, state: CampaignState, kind: PhaseKind) -> CampaignState:
    """Mark the phases that only read others as done under the results they read."""
    inputs = results_of(state)
    for entry in state.phases:
        if entry.kind == kind.name and entry.status not in ("skipped",):
            state = replace_phase(state, msgspec.structs.replace(entry, status="done", reason="", inputs=inputs))
    return state


def synthesis(campaign: OpenCampaign, state: CampaignState, readings: Mapping[str, Reading]) -> Analysis | None:
    """What the phases say together, where the todo list has such a phase."""
    kind = next((campaign.kinds[e.kind] for e in state.phases if campaign.kinds[e.kind].synthesize), None)
    if kind is None or kind.synthesize is None:
        return None
    context = measured_on(campaign.context, [reading.result for reading in readings.values()])
    return kind.synthesize(material(campaign, state, readings), context)
