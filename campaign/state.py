"""The todo list: its types and transitions, from names and hashes alone.

Knows no phase by name and no server engine; reads no clock and no disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from campaign.errors import UsageError

SCHEMA_VERSION = 1
#: Attempts a phase gets before it is failed for good.
MAX_ATTEMPTS = 3

#: How the name of an input begins that is another phase's result.
_RESULT = "result."

Status = Literal["pending", "running", "done", "failed", "interrupted", "stale", "skipped", "blocked"]
#: Statuses that a resume works on.
OPEN: tuple[Status, ...] = ("pending", "running", "interrupted", "stale")


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement's process; pid and identity together name one process for ever."""

    pid: int
    started_at_s: float
    """Process start time, seconds since the epoch, as the system reports it; shifts when the clock is set."""
    identity: str = ""
    """Boot of the machine and clock ticks since then at which it started; no change of the clock touches it."""


class PhaseState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the todo list."""

    id: str
    kind: str
    title: str = ""
    parameters: dict[str, Any] = {}
    """As campaign.toml, `add` or a rule gave them."""
    status: Status = "pending"
    reason: str = ""
    """Why it has this status: what failed, what differs, what it waits for."""
    attempts: int = 0
    """Attempts begun under the present inputs."""
    last_attempt: int = 0
    """Number of the newest attempt folder; never reused."""
    carry_from: int = 1
    """First attempt whose points may be taken over: a reset or changed inputs leave those before behind."""
    points_done: int = 0
    points_total: int = 0
    started_at: str = ""
    duration_s: float = 0.0
    """Measuring time, summed over the attempts under the present inputs."""
    inputs: dict[str, str] = {}
    """What the accepted (or running) attempt was measured under; a difference makes it stale."""
    result_attempt: int = 0
    """Attempt whose result counts; 0 = none."""
    result_hash: str = ""
    because: str = ""
    """Why a rule added it; stays when the phase is done."""
    origin: str = "config"
    """config, added (by a person), rule:<name> (by the planner), imported."""
    process: Process | None = None


class SectionState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of one section of the document."""

    state: str = "current"
    """current, stale, edited, conflict or removed, as last seen."""
    text_hash: str = ""
    """Hash of the text as last written."""


class DocumentState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the document since it was last written."""

    hash: str = ""
    sections: dict[str, SectionState] = {}


class CampaignState(msgspec.Struct, frozen=True, kw_only=True):
    """The file state/campaign.json."""

    schema: str = "campaign-state"
    schema_version: int = SCHEMA_VERSION
    campaign_id: str
    created_at: str
    phases: tuple[PhaseState, ...] = ()
    server: dict[str, Any] | None = None
    """The server's record, in the server module's own form; null = none known."""
    document: DocumentState = DocumentState()
    hypotheses: dict[str, str] = {}
    """When each hypothesis was first seen, by its hash: one written after its data is marked as such."""
    loads: tuple[dict[str, Any], ...] = ()
    """What earlier loads took, in the server module's own form: what an ETA is learnt from."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A phase as campaign.toml asks for it now."""

    id: str
    kind: str
    title: str
    parameters: dict[str, Any]
    inputs: dict[str, str]
    points_total: int
    blocked: str | None = None
    is_measured: bool = True
    """False for a phase that only reads the others' results; they are its inputs."""


def phase(state: CampaignState, phase_id: str) -> PhaseState:
    """The entry `phase_id`; raises `UsageError` with the ids that exist."""
    for entry in state.phases:
        if entry.id == phase_id:
            return entry
    known = ", ".join(entry.id for entry in state.phases) or "none yet"
    raise UsageError(f"no phase {phase_id!r} on the todo list. Phases: {known}.")


def replace_phase(state: CampaignState, entry: PhaseState) -> CampaignState:
    """The state with the entry of the same id replaced."""
    return msgspec.structs.replace(state, phases=tuple(entry if old.id == entry.id else old for old in state.phases))


def change(state: CampaignState, phase_id: str, **fields: Any) -> CampaignState:
    """The state with some fields of one entry changed."""
    return replace_phase(state, msgspec.structs.replace(phase(state, phase_id), **fields))


def results_of(state: CampaignState) -> dict[str, str]:
    """What a phase that reads the others depends on: their results, by hash."""
    return {f"{_RESULT}{entry.id}": entry.result_hash for entry in state.phases if entry.result_hash}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of the inputs that differ, each with both values: `parameters.repeats 3 → 5`; results by name alone."""
    lines = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name, "–"), now.get(name, "–")
        if old != new:
            lines.append(name if name.startswith(_RESULT) else f"{name} {_short(old)} → {_short(new)}")
    return lines


def _short(value: str) -> str:
    return value if len(value) <= 40 else value[:37] + "…"


def reconcile(state: CampaignState, wanted: Sequence[Wanted]) -> CampaignState:
    """Bring the todo list in line with what is wanted now.

    New phases are added in their order, changed inputs make results stale, phases that nobody asks for any more
    are skipped; those that a person or a rule added stay.
    """
    old = {entry.id: entry for entry in state.phases}
    phases = [_reconcile_one(old.get(want.id), want) for want in wanted]
    names = {want.id for want in wanted}
    for entry in state.phases:
        if entry.id in names:
            continue
        # A person's veto outlives the entry in campaign.toml.
        is_vetoed = entry.status == "skipped"
        gone = msgspec.structs.replace(entry, status="skipped", reason="no longer in campaign.toml")
        phases.append(entry if is_vetoed else gone)
    return msgspec.structs.replace(state, phases=tuple(phases))


def _reconcile_one(old: PhaseState | None, want: Wanted) -> PhaseState:
    entry = old or PhaseState(id=want.id, kind=want.kind, reason="new")
    if entry.status == "skipped" and entry.reason == "no longer in campaign.toml":
        entry = _reopened(entry)
    entry = msgspec.structs.replace(
        entry, kind=want.kind, title=want.title, parameters=want.parameters, points_total=want.points_total
    )
    is_from_elsewhere = entry.status == "done" and not entry.inputs
    if want.blocked and entry.status != "skipped" and not is_from_elsewhere:
        return msgspec.structs.replace(entry, status="blocked", reason=want.blocked)
    changed = differences(entry.inputs, want.inputs) if entry.inputs else []
    if changed and entry.status != "skipped":
        # A new question: attempts count anew, the old numbers stay until new ones replace them.
        status: Status = "stale" if entry.result_attempt else "pending"
        return msgspec.structs.replace(
            entry, status=status, reason="; ".join(changed), attempts=0, points_done=0, duration_s=0.0, inputs={},
            carry_from=entry.last_attempt + 1,
        )  # fmt: skip
    if entry.status == "done" and want.is_measured and want.inputs and not entry.result_attempt:
        return msgspec.structs.replace(entry, status="pending", reason="no result is known")
    return _reopened(entry) if entry.status == "blocked" else entry


def _reopened(entry: PhaseState) -> PhaseState:
    """An entry that was set aside, as it would stand had it not been.

    Its result is current only where no later attempt began and no changed input cleared what it was measured under.
    """
    is_current = entry.result_attempt == entry.last_attempt and (bool(entry.inputs) or entry.origin == "imported")
    status: Status = "pending" if not entry.result_attempt else "done" if is_current else "stale"
    return msgspec.structs.replace(entry, status=status, reason="" if status == "done" else "taken up again")


def begin(
    state: CampaignState, phase_id: str, *, inputs: Mapping[str, str], at: str, newest_folder: int = 0
) -> CampaignState:
    """A new attempt of a phase begins.

    `newest_folder`: highest attempt that has a folder; a state that was set back must not use its number again.
    """
    entry = phase(state, phase_id)
    number = max(entry.last_attempt, newest_folder) + 1
    return change(
        state, phase_id, status="running", reason="", attempts=entry.attempts + 1, last_attempt=number,
        inputs=dict(inputs), started_at=at, process=None,
        origin=_origin_after_reset(entry),
    )  # fmt: skip


def finish(state: CampaignState, phase_id: str, *, result_hash: str, duration_s: float) -> CampaignState:
    """The running attempt's result is accepted."""
    entry = phase(state, phase_id)
    return change(
        state, phase_id, status="done", reason="", result_attempt=entry.last_attempt, result_hash=result_hash,
        points_done=entry.points_total, duration_s=duration_s, process=None,
    )  # fmt: skip


def accept_import(
    state: CampaignState, phase_id: str, *, inputs: Mapping[str, str], result_hash: str, duration_s: float
) -> CampaignState:
    """A result from elsewhere is accepted as the begun attempt's; without `inputs` nothing makes it stale."""
    entry = phase(finish(state, phase_id, result_hash=result_hash, duration_s=duration_s), phase_id)
    origin = "imported" if entry.origin == "config" else entry.origin
    return replace_phase(state, msgspec.structs.replace(entry, inputs=dict(inputs), origin=origin))


def fail(state: CampaignState, phase_id: str, reason: str) -> CampaignState:
    """The running attempt failed for good (the caller has used up the retries)."""
    return change(state, phase_id, status="failed", reason=reason, process=None)


def interrupt(state: CampaignState, phase_id: str, reason: str) -> CampaignState:
    """The running attempt ended without a result; a resume goes on with what is missing.

    An interruption is nobody's failure: it does not use up an attempt.
    """
    entry = phase(state, phase_id)
    return change(
        state, phase_id, status="interrupted", reason=reason, attempts=max(0, entry.attempts - 1), process=None
    )


def reset(state: CampaignState, phase_id: str) -> CampaignState:
    """Forget a phase's attempts and their points (the files stay), so that it is measured again."""
    entry = phase(state, phase_id)
    return change(
        state, phase_id, status="pending", reason="reset", attempts=0, points_done=0, duration_s=0.0, inputs={},
        result_attempt=0, result_hash="", process=None, carry_from=entry.last_attempt + 1,
        origin=_origin_after_reset(entry),
    )  # fmt: skip


def _origin_after_reset(entry: PhaseState) -> str:
    return "config" if entry.origin == "imported" else entry.origin


def skip(state: CampaignState, phase_id: str) -> CampaignState:
    """A person's veto: the phase is left out until it is reset."""
    return change(state, phase_id, status="skipped", reason="skipped by a person")


def add(state: CampaignState, entries: Iterable[PhaseState], *, before_kind: str) -> CampaignState:
    """Add entries to the todo list, before the first phase of kind `before_kind` (at the end where there is none)."""
    added = tuple(entries)
    names = {entry.id for entry in state.phases}
    for entry in added:
        if entry.id in names:
            raise UsageError(f"phase {entry.id!r} is on the todo list already. Give another id=…")
    kinds = [entry.kind for entry in state.phases]
    place = kinds.index(before_kind) if before_kind in kinds else len(kinds)
    return msgspec.structs.replace(state, phases=(*state.phases[:place], *added, *state.phases[place:]))


def next_open(state: CampaignState) -> PhaseState | None:
    """The first phase that a resume should work on."""
    return next((entry for entry in state.phases if entry.status in OPEN), None)
