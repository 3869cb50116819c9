"""Two campaigns, or two states of one, side by side: what differs in their making first, then their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from campaign import schema
from campaign.analysis.revisions import Move, moved
from campaign.errors import ConfigError, UsageError
from campaign.phases.kind import PhaseKind, Revision
from campaign.runner.opening import OpenCampaign
from campaign.runner.reading import read_revisions
from campaign.schema import Quantity
from campaign.store import FILE_NAME

#: Facts whose difference makes numbers another thing: fact → prefixes of the quantities that it concerns ("" = all).
IN_KIND: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("model", ("",)),
    ("device kind", ("",)),
    ("profile.batch", ("profile.", "model.floor_ms", "model.weight_bytes")),
    ("collectives.message_bytes", ("collectives.burst",)),
    ("collectives.burst_calls", ("collectives.burst",)),
)


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    name: str
    """As the person gave it."""
    folder: Path
    at: str
    """When its numbers were made; may be empty."""
    facts: dict[str, str]
    """How it was made, by name."""
    has_config: bool
    """False for an earlier revision: only numbers are kept of it."""
    quantities: tuple[Quantity, ...]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One fact in which the two differ."""

    name: str
    before: str
    after: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that are not compared since they are of another kind."""

    why: str
    names: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What `compare` says; `--json` prints it."""

    schema: str = "campaign-compare"
    schema_version: int = 1
    before: str
    after: str
    config: tuple[Difference, ...]
    in_kind: tuple[Kept, ...]
    """Why some numbers are not compared, and which."""
    moves: tuple[Move, ...]
    """Numbers that differ beyond noise, or that only one side has."""
    within_noise: int
    """Numbers of both that do not."""
    compared: int
    notes: tuple[str, ...] = ()


def read_side(text: str, folder: Path, kinds: Sequence[PhaseKind]) -> Side:
    """A campaign folder, `FOLDER@REVISION`, or a revision (1 is the oldest, -1 the newest) of the present campaign.

    Raises `UsageError` where there is no such folder or revision.
    """
    place, number = _parse(text, folder)
    if not (place / FILE_NAME).is_file():
        raise UsageError(f"{text}: {place} holds no {FILE_NAME}. Give a campaign folder, or the number of a revision.")
    campaign = OpenCampaign(place, kinds)
    revisions = read_revisions(campaign)
    if not revisions:
        raise UsageError(f"{text}: no numbers have been written up in {place}. Go on there with: resume")
    if not -len(revisions) <= number <= len(revisions) or number == 0:
        raise UsageError(f"{text}: there are revisions 1 to {len(revisions)} in {place}.")
    index = number - 1 if number > 0 else len(revisions) + number
    is_present = index == len(revisions) - 1
    revision = revisions[index]
    return Side(
        name=text,
        folder=campaign.store.folder,
        at=revision.at,
        facts=_facts(campaign, revision, is_present=is_present),
        has_config=is_present,
        quantities=revision.quantities,
    )


def _parse(text: str, folder: Path) -> tuple[Path, int]:
    if re.fullmatch(r"-?\d+", text) and not Path(text).is_dir():
        return folder, int(text)
    place, _, number = text.rpartition("@")
    if place and re.fullmatch(r"-?\d+", number):
        return Path(place), int(number)
    return Path(text), -1


def _facts(campaign: OpenCampaign, revision: Revision, *, is_present: bool) -> dict[str, str]:
    """How the numbers were made; of an earlier revision only what its own numbers tell."""
    values = {quantity.name: quantity.value for quantity in revision.quantities}
    facts = {name: f"{values[name]:g}" for name, _ in IN_KIND if values.get(name) is not None}
    if not is_present:
        return facts
    target = schema.builtins(campaign.config.target)
    facts |= {f"target.{name}": schema.encode(value).decode() for name, value in target.items() if name != "model"}
    facts["server.args"] = " ".join(campaign.config.server.args)
    facts["server.env"] = schema.encode(campaign.config.server.env).decode()
    for entry in campaign.config.phases:
        facts |= {f"{entry.id}.{key}": schema.encode(value).decode() for key, value in entry.parameters.items()}
    return facts | _facts_of_results(campaign)


def _facts_of_results(campaign: OpenCampaign) -> dict[str, str]:
    facts: dict[str, str] = {}
    state = campaign.store.load_state()
    devices = set()
    for entry in state.phases if state else ():
        loaded = campaign.store.read_result(entry)
        if loaded is None:
            continue
        result = loaded[0]
        facts[f"{entry.id} is"] = result.origin
        if result.imported:
            hashes = {file.path: file.hash for file in result.imported}
            facts[f"{entry.id}: files"] = schema.content_hash(hashes) if len(hashes) > 1 else result.imported[0].hash
        else:
            facts[f"{entry.id}: script version"] = str(result.script_version)
        devices.add("CPU" if result.host.device in ("", "cpu") else "GPU")
        facts |= {f"{entry.id}: {name}": version for name, version in result.versions.items() if name != "campaign"}
        facts |= {f"{entry.id}: device": result.host.device} if result.host.device else {}
        facts |= {f"{entry.id}: driver": result.host.driver} if result.host.driver else {}
    facts["model"] = _model(campaign)
    if devices:
        facts["device kind"] = "GPU" if "GPU" in devices else "CPU"
    return facts


def _model(campaign: OpenCampaign) -> str:
    """The model's config.json by its hash, else the model's name."""
    try:
        path = campaign.context.target.config_path
        return schema.content_hash((campaign.store.folder / path).read_bytes()) if path else "not told"
    except (ConfigError, OSError):
        return campaign.config.target.model


def compare(before: Side, after: Side, *, is_forced: bool = False) -> Comparison:
    """Config differences, then numbers beyond noise; what differs in kind is left out unless `is_forced`."""
    known = before.facts.keys() & after.facts.keys() if not (before.has_config and after.has_config) else None
    names = sorted(known if known is not None else before.facts.keys() | after.facts.keys())
    differences = [
        Difference(name=name, before=before.facts.get(name, "–"), after=after.facts.get(name, "–"))
        for name in names
        if before.facts.get(name) != after.facts.get(name)
    ]
    kept = () if is_forced else _kept(before, after, differences)
    left = {name for one in kept for name in one.names}
    old = [quantity for quantity in before.quantities if quantity.name not in left]
    new = [quantity for quantity in after.quantities if quantity.name not in left]
    both = {q.name for q in old if q.value is not None} & {q.name for q in new if q.value is not None}
    moves = moved(old, new)
    notes = [
        f"{side.name} is an earlier revision: its numbers are kept, not how it was configured."
        for side in (before, after)
        if not side.has_config
    ]
    return Comparison(
        before=_label(before),
        after=_label(after),
        config=tuple(differences),
        in_kind=kept,
        moves=moves,
        within_noise=len(both - {move.name for move in moves}),
        compared=len(both),
        notes=tuple(notes),
    )


def _label(side: Side) -> str:
    return f"{side.name} ({side.at})" if side.at else side.name


def _kept(before: Side, after: Side, differences: Sequence[Difference]) -> tuple[Kept, ...]:
    names = list(dict.fromkeys(quantity.name for quantity in (*before.quantities, *after.quantities)))
    kept = []
    for fact, prefixes in IN_KIND:
        found = next((one for one in differences if one.name == fact and "–" not in (one.before, one.after)), None)
        concerned = tuple(name for name in names if name.startswith(prefixes)) if found else ()
        if found and concerned:
            kept.append(Kept(why=f"{fact} {found.before} against {found.after}", names=concerned))
    units = _units(before), _units(after)
    odd = tuple(name for name, unit in units[0].items() if units[1].get(name, unit) != unit)
    return (*kept, Kept(why="the units differ", names=odd)) if odd else tuple(kept)


def _units(side: Side) -> Mapping[str, str]:
    return {quantity.name: quantity.unit for quantity in side.quantities}
