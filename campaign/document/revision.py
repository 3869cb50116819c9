"""New texts into a document: which sections change, what becomes of a person's edits, the bytes that result."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from campaign.document.markers import has_hash, is_section_id, normal_text
from campaign.document.merge import merge_texts
from campaign.document.splice import section_block, splice
from campaign.document.structure import Section, Structure
from campaign.errors import DocumentError

State = Literal["current", "updated", "merged", "conflict", "removed", "inserted"]


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A document after its sections were revised."""

    content: bytes
    """The whole document; equal to the source where nothing changed."""
    states: dict[str, State]
    """A state for each section asked for: current, updated, merged, conflict, removed or inserted."""
    written: dict[str, str]
    """What to remember as last written by the machine, and to pass as `last_written` next time."""
    conflicts: dict[str, str] = {}
    """New texts that were not taken because their section's person changed the same lines."""
    lines: dict[str, int] = {}
    """Line (from 1) of each section's begin marker in `content`, for messages that name file and line."""
    edited: tuple[str, ...] = ()
    """Sections that carry a person's edit after this revision, conflicts among them."""


class _Decision(msgspec.Struct, frozen=True, kw_only=True):
    state: State
    text: str | None = None
    """What to write; None leaves the bytes alone."""
    is_edited: bool = False


def revise(
    source: bytes,
    sections: Mapping[str, str],
    *,
    last_written: Mapping[str, str] | None = None,
    insert: Collection[str] = (),
    force: Collection[str] = (),
) -> Revision:
    """Splice new texts into the sections of `source`; every byte outside them is kept.

    `sections`: id → new text (LF, no markers), in the order in which inserted ones are to stand.
    `last_written`: id → text as the machine last wrote it, where known. `insert`: removed sections to put back.
    `force`: sections whose new text is taken over a person's edit. Raises `DocumentError` with a line where the
    structure is unsound before or would be after; nothing is half done.
    """
    structure = Structure(source)
    structure.refuse_look_alikes(sections)
    known = last_written or {}
    texts = {section_id: _clean(section_id, text) for section_id, text in sections.items()}
    standing = {section.id: section for section in structure.sections}
    decisions: dict[str, _Decision] = {}
    for section_id, text in texts.items():
        section = standing.get(section_id)
        if section is not None:
            decisions[section_id] = _decide(section, text, known.get(section_id), is_forced=section_id in force)
        elif section_id in insert or section_id not in known:
            decisions[section_id] = _Decision(state="inserted", text=text)
        else:
            decisions[section_id] = _Decision(state="removed")
    content = splice(
        structure,
        machine=texts,
        taken={i: decision.text for i, decision in decisions.items() if decision.text is not None},
        order=list(decisions),
        inserted={i for i, decision in decisions.items() if decision.state == "inserted"},
    )
    after = _verified(content, structure, texts, decisions) if content != source else structure
    return Revision(
        content=content,
        states={section_id: decision.state for section_id, decision in decisions.items()},
        written=_written(texts, decisions, known),
        conflicts={i: texts[i] for i, decision in decisions.items() if decision.state == "conflict"},
        lines={section.id: section.begin_line for section in after.sections},
        edited=tuple(i for i, decision in decisions.items() if decision.is_edited),
    )


def _clean(section_id: str, text: str) -> str:
    """A new text in normal form; lone surrogates, which no file can hold, as visible escapes."""
    if not is_section_id(section_id):
        raise DocumentError(
            f"section id {section_id!r} cannot stand in a marker; use letters, digits, `_`, `.` and `-`."
        )
    return normal_text(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _decide(section: Section, new: str, last: str | None, *, is_forced: bool) -> _Decision:
    stands, known = section.text, section.hash
    last = None if last is None else normal_text(last)
    has_new_hash = known is not None and has_hash(new, known)
    if stands == new:
        return _Decision(state="current") if known is None or has_new_hash else _Decision(state="updated", text=new)
    if is_forced or (known is None and last is None):
        return _Decision(state="updated", text=new)
    if has_new_hash or (known is None and last == new):
        return _Decision(state="current", is_edited=True)
    if stands == last or (known is not None and has_hash(stands, known)):
        return _Decision(state="updated", text=new)
    return _merge(section, new, last)


def _merge(section: Section, new: str, last: str | None) -> _Decision:
    """What becomes of a person's edit; without the text that it started from, it conflicts."""
    stands, known = section.text, section.hash
    is_base = last is not None and (known is None or has_hash(last, known))
    merged = merge_texts(last, stands, new) if is_base and last is not None else None
    if merged is None or not _is_sound(section.id, merged):
        return _Decision(state="conflict", is_edited=True)
    return _Decision(state="merged", text=merged, is_edited=True)


def _written(texts: Mapping[str, str], decisions: Mapping[str, _Decision], known: Mapping[str, str]) -> dict[str, str]:
    written = dict(known)
    for section_id, decision in decisions.items():
        if decision.state not in ("conflict", "removed"):
            written[section_id] = texts[section_id]
    return written


def _is_sound(section_id: str, text: str) -> bool:
    """Whether `text` between its markers, by itself, is one section with that text."""
    try:
        found = Structure(section_block(section_id, text, "\n")).sections
    except DocumentError:
        return False
    return [(section.id, section.text) for section in found] == [(section_id, text)]


def _verified(
    content: bytes, structure: Structure, texts: Mapping[str, str], decisions: Mapping[str, _Decision]
) -> Structure:
    """The result parsed again: it must hold exactly the sections expected, each with its text."""
    expected = {section.id: section.text for section in structure.sections}
    expected |= {i: decision.text for i, decision in decisions.items() if decision.text is not None}
    try:
        after = Structure(content)
        if {section.id: section.text for section in after.sections} == expected:
            return after
        problem = "sections would get lost or appear"
    except DocumentError as error:
        problem = str(error)
    for section_id, decision in decisions.items():
        if decision.text is not None and not _is_sound(section_id, decision.text):
            raise DocumentError(
                f"section {section_id}: its new text opens a fence, a comment or HTML that it does not close, or holds "
                "a marker, so the section would not end where it should. Correct its template; nothing was written."
            )
    block = structure.open_block()
    line = None if block is None else block.start + 1
    where = "" if line is None else f"line {line}: what begins here never ends, so no section can stand after it. "
    raise DocumentError(
        f"{where}The document would be unsound with its new sections ({problem}); nothing was written.", line=line
    )
