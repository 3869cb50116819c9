"""The document against the results: markers sound, every number with a source, results as they were accepted."""

from __future__ import annotations

import re

from campaign import document as markdown
from campaign import schema
from campaign.document import Section
from campaign.errors import CampaignError, DocumentError
from campaign.render import find_provenance
from campaign.runner.opening import OpenCampaign
from campaign.runner.writing import Composer, document_path
from campaign.state import CampaignState, PhaseState


def problems(campaign: OpenCampaign) -> list[str]:
    """What does not hold, one line each with where and what to do; changes nothing."""
    store = campaign.store
    state = store.load_state()
    if state is None:
        return []
    found = list(store.recovered) + _spoiled_results(campaign, state)
    path = document_path(campaign)
    name = campaign.config.document.path
    if not path.exists():
        has_results = any(entry.result_attempt for entry in state.phases)
        missing = [f"{name}: not there, but results are. Write it: python -m campaign render"] if has_results else []
        return [*found, *missing]
    try:
        sections = markdown.find(path.read_bytes())
    except DocumentError as error:
        return [*found, f"{name}:{error.line or 1}: {error}"]
    except OSError as error:
        return [*found, f"{name}: cannot be read: {error.strerror}."]
    for section in sections:
        found += [
            f"{name}:{section.begin_line}: section {section.id}: {text}" for text in _section(campaign, state, section)
        ]
    return found


def _spoiled_results(campaign: OpenCampaign, state: CampaignState) -> list[str]:
    found = []
    for entry in state.phases:
        try:
            campaign.store.read_result(entry)
        except CampaignError as error:
            found.append(str(error))
    return found


def _section(campaign: OpenCampaign, state: CampaignState, section: Section) -> list[str]:
    references = find_provenance(section.text)
    found = []
    for reference in references:
        path = campaign.store.folder / reference.path
        try:
            actual = schema.content_hash(path.read_bytes())
        except OSError:
            again = f"python -m campaign reset {section.id}"
            found.append(f"its source {reference.path} is gone. Restore it, or measure again: {again}")
            continue
        if not actual.startswith(reference.hash[:16]):
            found.append(
                f"its source {reference.path} is not what it was written from ({actual}, not {reference.hash})"
            )
    entry = next((each for each in state.phases if each.id == section.id), None)
    if entry is not None and campaign.kinds[entry.kind].analyze is not None:
        return found + _own_source(campaign, entry, [reference.path for reference in references], section)
    if not references and _has_numbers(section.text):
        found += _derived(campaign, state, section)
    return found


def _own_source(campaign: OpenCampaign, entry: PhaseState, named: list[str], section: Section) -> list[str]:
    """A phase's section rests on that phase's accepted result."""
    if not entry.result_attempt:
        return ["it shows a result, but the phase has none: python -m campaign render"] if named else []
    store = campaign.store
    expected = store.relative(store.attempt_folder(entry.id, entry.result_attempt) / "result.json")
    if expected in named:
        return []
    if not named and _has_numbers(section.text):
        return [f"its numbers name no source. Write it again: python -m campaign render --force {section.id}"]
    return [f"it rests on {', '.join(named) or 'nothing'}, not on the accepted {expected}: python -m campaign render"]


def _derived(campaign: OpenCampaign, state: CampaignState, section: Section) -> list[str]:
    """A section that reads other phases' results together holds if these results give this very text."""
    try:
        texts = Composer(campaign, state).compose().sections
    except CampaignError as error:
        return [f"its numbers name no source, and cannot be computed again: {error}"]
    text = texts.get(section.id)
    if text is None:
        return ["its numbers name no source, and no result gives them. Take the section out, or its markers."]
    if markdown.normal_text(text) != section.text:
        return ["it differs from what the results say: python -m campaign render --diff"]
    return []


def _has_numbers(text: str) -> bool:
    return re.search(r"\d", text) is not None
