"""Results from elsewhere become results here: a phase's files read, written as its attempt, accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from campaign import files, importers, schema
from campaign.config import PhaseEntry
from campaign.errors import UsageError
from campaign.importers.recognition import hash_of
from campaign.measurement import now_utc
from campaign.runner.opening import OpenCampaign
from campaign.schema import ImportedFile, Result
from campaign.state import CampaignState, PhaseState, accept_import, add, begin, phase, reset


def read_imports(campaign: OpenCampaign, entry: PhaseEntry, paths: Sequence[Path] = ()) -> Result:
    """The result that files from elsewhere hold for a phase; `paths` instead of those that campaign.toml names.

    Depends on nothing of this machine and not on now. Raises `UsageError` where the files do not answer the phase.
    """
    places = list(paths) or [campaign.store.folder / given for given in entry.imports]
    ask = importers.Ask(
        kind=entry.kind,
        config=campaign.measurement_config(entry),
        context=campaign.context,
        folder=campaign.store.folder,
        device_name=campaign.config.target.device,
    )
    imported, importer, read = importers.read_kind(places, ask)
    given = tuple(campaign.store.relative(path.resolve()) for path in places)
    return Result(
        kind=entry.kind,
        script_version=campaign.kinds[entry.kind].script_version,
        command=("python", "-m", "campaign", "import", "--phase", entry.id, *given),
        started_at=imported.started_at,
        finished_at=imported.finished_at,
        duration_s=imported.duration_s,
        host=imported.host,
        versions=imported.versions,
        config=msgspec.Raw(schema.encode(imported.config)),
        data=msgspec.Raw(schema.encode(imported.data)),
        notes=imported.notes,
        origin=imported.origin,
        imported=tuple(
            ImportedFile(
                path=campaign.store.relative(file.resolve()),
                hash=hash_of(file),
                size_bytes=file.stat().st_size,
                format=importer.name,
            )
            for file in read
        ),
    )


def accept(
    campaign: OpenCampaign, state: CampaignState, phase_id: str, result: Result, inputs: Mapping[str, str]
) -> CampaignState:
    """Write the result as the begun attempt's and mark the phase done."""
    attempt = phase(state, phase_id).last_attempt
    data = schema.encode_pretty(msgspec.structs.replace(result, attempt=attempt))
    files.write_atomic(campaign.store.attempt_folder(phase_id, attempt) / "result.json", data)
    return accept_import(
        state, phase_id, inputs=inputs, result_hash=schema.content_hash(data), duration_s=result.duration_s
    )


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One phase that an import answered."""

    phase_id: str
    format: str
    files: int


def import_paths(
    campaign: OpenCampaign, state: CampaignState, paths: Sequence[Path], phase_id: str | None = None
) -> tuple[CampaignState, list[Taken]]:
    """Every phase that the files answer, done with what they say; phases that are not on the todo list are added.

    `phase_id`: only this phase. Raises `UsageError` where nothing is answered; the state is then as it was.
    """
    wanted: list[str] = []
    for importer, found in importers.collect(paths):
        wanted += [kind for kind in importer.kinds(found) if kind in campaign.kinds and kind not in wanted]
    taken: list[Taken] = []
    for entry in _entries(campaign, state, wanted, phase_id):
        if entry.id not in {known.id for known in state.phases}:
            state = add(state, [entry], before_kind=_synthesis(campaign))
        result = read_imports(campaign, campaign.entry(entry), paths)
        state = begin(reset(state, entry.id), entry.id, inputs={}, at=now_utc())
        state = accept(campaign, state, entry.id, result, {})
        taken.append(Taken(phase_id=entry.id, format=result.imported[0].format, files=len(result.imported)))
    return state, taken


def _entries(
    campaign: OpenCampaign, state: CampaignState, kinds: Sequence[str], phase_id: str | None
) -> list[PhaseState]:
    if phase_id is not None:
        entry = phase(state, phase_id)
        if entry.kind not in kinds:
            raise UsageError(
                f"these files answer {' and '.join(kinds) or 'no phase'}; {phase_id} is a {entry.kind} phase."
            )
        return [entry]
    chosen = []
    for kind in kinds:
        known = [entry for entry in state.phases if entry.kind == kind]
        if len(known) > 1:
            names = ", ".join(entry.id for entry in known)
            raise UsageError(f"several {kind} phases ({names}): say which with --phase.")
        chosen.append(known[0] if known else PhaseState(id=kind, kind=kind, origin="added", reason="imported"))
    if not chosen:
        raise UsageError("nothing here answers a phase of this campaign. See `python -m campaign import --help`.")
    return chosen


def _synthesis(campaign: OpenCampaign) -> str:
    return next((kind.name for kind in campaign.kinds.values() if kind.synthesize), "")
