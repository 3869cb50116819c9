"""The document: sections composed from results, spliced into the person's file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from campaign import files, schema
from campaign.document import adopt_headings, revise
from campaign.errors import DocumentError
from campaign.phases.kind import Analysis, Figure
from campaign.render import Markdown, Renderer, provenance_of, shipped_templates
from campaign.render.escape import text as escape_text
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import Reading, read_all, row, synthesis
from campaign.schema import Result
from campaign.state import OPEN, CampaignState, DocumentState, PhaseState, SectionState


class Composition(msgspec.Struct, frozen=True, kw_only=True):
    """What the document should hold now."""

    sections: dict[str, str]
    """Section id → text, in the order of a new document."""
    figures: dict[str, bytes]
    """File name → SVG."""
    header: str | None
    """Header of a new document; None until the environment is known."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewrite did or would do."""

    before: bytes
    after: bytes
    states: dict[str, str]
    written: dict[str, str]
    """Section id → text to remember as last written."""
    conflicts: dict[str, str]
    """Section id → new text that was not taken."""
    edited: tuple[str, ...]
    """Sections that carry a person's edit."""
    places: dict[str, str] = {}
    """Section id → `file:line` of its begin marker."""
    new_edits: tuple[str, ...] = ()
    """Those of them whose edit was not known before, and stands unmerged."""

    @property
    def is_changed(self) -> bool:
        return self.before != self.after

    @property
    def needs_person(self) -> list[str]:
        """What only a person can decide, one line each."""
        lines = [
            f"{self.places.get(name, 'document')}: section {name}: your words and the new numbers changed the same "
            f"lines; yours stand, the new text is in state/conflicts/{name}.md. "
            f"Take it with: python -m campaign render --force {name}"
            for name in self.conflicts
        ]
        lines += [
            f"section {name}: your edit is kept, and will be merged with new numbers; take the machine's text with: "
            f"python -m campaign render --force {name}"
            for name in self.new_edits
        ]
        return lines


def template_folders(campaign: OpenCampaign) -> list[Path]:
    """Where templates are looked for: the campaign's own folder, then the shipped ones."""
    return [campaign.store.templates, shipped_templates()]


def origin_notes(result: Result) -> tuple[str, ...]:
    """Where numbers that were not measured here came from, for the reader of them; empty for those that were."""
    if not result.imported:
        return ()
    names = [file.path for file in result.imported]
    shown = ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} further files"
    said = {"noted": "Known only from notes, not measured here"}.get(result.origin, "Imported, not measured here")
    return (f"{said}: {shown}.", *result.notes)


class Composer:
    """Renders every section from results alone."""

    def __init__(self, campaign: OpenCampaign, state: CampaignState) -> None:
        self._campaign = campaign
        self._state = state
        self._renderer = Renderer(template_folders(campaign))
        self._figures: dict[str, bytes] = {}
        self._shared = {
            "title": campaign.config.campaign.title,
            "variant": campaign.config.target.variant,
            "figures": "figures",
        }

    def compose(self) -> Composition:
        """Every section that has something to say, in the order of a new document."""
        readings = read_all(self._campaign, self._state)
        middle: dict[str, str] = {}
        for entry in self._state.phases:
            if self._campaign.kinds[entry.kind].analyze is not None:
                text = self._phase_section(entry, readings.get(entry.id))
                if text is not None:
                    middle[entry.id] = text
        before, together, after = self._synthesis_sections(readings)
        header = self._header(readings)
        return Composition(sections={**before, **middle, **together, **after}, figures=self._figures, header=header)

    def _phase_section(self, entry: PhaseState, reading: Reading | None) -> str | None:
        phase = row(self._campaign, entry, reading)
        if reading is None:
            if entry.status not in ("failed", "blocked"):
                return None
            return self._render("failed.md.j2", {"phase": phase, "points": entry.points_done})
        body = self._render(self._campaign.kinds[entry.kind].template, self._variables(reading.analysis, phase))
        self._draw(reading.analysis)
        source = provenance_of(reading.result, path=phase.result_path, file_hash=reading.result_hash)
        return self._render(
            "section.md.j2",
            {
                "phase": phase,
                "body": Markdown(body.strip()),
                "provenance": source,
                "origin": origin_notes(reading.result),
            },
        )

    def _synthesis_sections(
        self, readings: Mapping[str, Reading]
    ) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        entry = next((e for e in self._state.phases if self._campaign.kinds[e.kind].synthesize), None)
        if entry is None or entry.status == "skipped" or not readings:
            return {}, {}, {}
        kind = self._campaign.kinds[entry.kind]
        analysis = synthesis(self._campaign, self._state, readings)
        assert analysis is not None
        variables = self._variables(analysis, row(self._campaign, entry, None))
        self._draw(analysis)
        before = {name: self._render(template, variables) for name, template in kind.sections_before}
        together = {entry.id: self._render(kind.template, variables)}
        after = {name: self._render(template, variables) for name, template in kind.sections_after}
        return before, together, after

    def _variables(self, analysis: Analysis, phase: object) -> dict[str, object]:
        names = [field.name for field in msgspec.structs.fields(analysis.view)]
        return {**{name: getattr(analysis.view, name) for name in names}, "phase": phase}

    def _render(self, template: str, variables: Mapping[str, object]) -> str:
        return self._renderer.render(template, {**variables, "campaign": self._shared})

    def _draw(self, analysis: Analysis) -> None:
        figures: tuple[Figure, ...] = analysis.figures()
        self._figures |= {figure.name: figure.svg for figure in figures}

    def _header(self, readings: Mapping[str, Reading]) -> str | None:
        reading = next((r for r in readings.values() if r.entry.kind == "environment"), None)
        if reading is None:
            # Where no environment will ever be known, the title alone begins the document.
            coming = [e for e in self._state.phases if e.kind == "environment" and e.status in OPEN]
            is_hopeless = bool(readings) and not coming
            return f"# {escape_text(self._campaign.config.campaign.title)}\n" if is_hopeless else None
        phase = row(self._campaign, reading.entry, reading)
        return self._render(
            "header.md.j2", {**self._variables(reading.analysis, phase), "date": phase.finished_at[:10]}
        )


def document_path(campaign: OpenCampaign) -> Path:
    """The living document."""
    return campaign.store.folder / campaign.config.document.path


def preview(
    campaign: OpenCampaign,
    state: CampaignState,
    composition: Composition,
    *,
    force: Collection[str] = (),
    insert: Collection[str] = (),
) -> Written:
    """What a rewrite would make of the document; writes nothing. Raises `DocumentError` with file and line."""
    path = document_path(campaign)
    before = path.read_bytes() if path.exists() else b""
    # A document that was moved away is begun anew: nothing was taken out of it by its person.
    last = campaign.store.last_written() if before else {}
    try:
        source, _ = adopt(campaign, before or (composition.header or "").encode(), composition.sections)
        revision = revise(source, composition.sections, last_written=last, insert=insert, force=force)
    except DocumentError as error:
        where = f"{path}:{error.line}" if error.line else str(path)
        raise DocumentError(f"{where}: {error}", line=error.line) from error
    known = {name for name, section in state.document.sections.items() if section.state in ("edited", "conflict")}
    new = [n for n in revision.edited if n not in known and revision.states.get(n) not in ("merged", "conflict")]
    return Written(
        before=before,
        after=revision.content,
        states=dict(revision.states),
        written=revision.written,
        conflicts=revision.conflicts,
        edited=revision.edited,
        places={name: f"{path}:{line}" for name, line in revision.lines.items()},
        new_edits=tuple(new),
    )


def adopt(campaign: OpenCampaign, source: bytes, sections: Collection[str]) -> tuple[bytes, dict[str, str]]:
    """Headings that campaign.toml hands over become sections, once there is something to put there."""
    wanted = {name: title for name, title in campaign.config.document.adopt.items() if name in sections}
    if not wanted or not source:
        return source, {}
    return adopt_headings(source, wanted)


def write(
    campaign: OpenCampaign,
    state: CampaignState,
    *,
    force: Collection[str] = (),
    insert: Collection[str] = (),
) -> tuple[CampaignState, Written]:
    """Rewrite the document's stale sections; the state afterwards and what was done.

    Nothing is touched where nothing changes: not a byte, not the file's time.
    """
    composition = Composer(campaign, state).compose()
    path, store = document_path(campaign), campaign.store
    if composition.header is None and not path.exists():
        return state, Written(before=b"", after=b"", states={}, written={}, conflicts={}, edited=())
    written = preview(campaign, state, composition, force=force, insert=insert)
    for name, svg in composition.figures.items():
        store.write_if_changed(path.parent / "figures" / name, svg)
    _, adopted = adopt(campaign, written.before, composition.sections)
    for name, text in adopted.items():
        store.write_if_changed(store.state_folder / "adopted" / f"{name}.md", text.encode("utf-8", "surrogateescape"))
    for name, text in written.conflicts.items():
        store.write_if_changed(store.conflict_path(name), text.encode())
    if written.is_changed:
        files.write_atomic(path, written.after)
    for name, text in written.written.items():
        store.save_written(name, text)
    for name in written.states:
        if name not in written.conflicts:
            files.remove(store.conflict_path(name))
    sections = {
        name: SectionState(state=_shown(name, outcome, written), text_hash=schema.content_hash(text.encode()))
        for name, outcome in written.states.items()
        if (text := written.written.get(name, "")) is not None
    }
    document = DocumentState(hash=schema.content_hash(written.after), sections=sections)
    return msgspec.structs.replace(state, document=document), written


def _shown(name: str, outcome: str, written: Written) -> str:
    if outcome in ("conflict", "removed"):
        return outcome
    return "edited" if name in written.edited else "current"
