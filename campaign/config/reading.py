"""campaign.toml read and checked: its tables, its phases, the values that types alone do not hold."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from campaign.analysis import check_syntax
from campaign.config.complaints import Complaints, nearest
from campaign.config.tables import (
    CampaignTable,
    Config,
    DocumentTable,
    HypothesisTable,
    NarratorTable,
    PhaseEntry,
    PlannerTable,
    ServerTable,
    TargetTable,
)
from campaign.errors import ConfigError
from campaign.phases.kind import PhaseKind
from campaign.store import FILE_NAME

_RESERVED = ("summary", "method", "revisions", "environment", "synthesis")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)")

_TABLES: dict[str, type[msgspec.Struct]] = {
    "campaign": CampaignTable,
    "document": DocumentTable,
    "target": TargetTable,
    "server": ServerTable,
    "planner": PlannerTable,
    "narrator": NarratorTable,
}


def load(path: Path, kinds: Sequence[PhaseKind]) -> Config:
    """Read campaign.toml; raises `ConfigError` with the key's path, the line and what to write instead."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file. Write one with `python -m campaign init`, or name another folder with --dir."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}.") from error
    return parse(text, kinds, name=str(path))


def parse(text: str, kinds: Sequence[PhaseKind], *, name: str = FILE_NAME) -> Config:
    """Parse the text of a campaign.toml; `name` stands in the messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: {error}.") from error
    complain = Complaints(name, text)
    known = [*_TABLES, "phase", "hypothesis"]
    for key in data:
        if key not in known:
            raise complain.unknown((), key, known)
    tables = {key: complain.table(kind, data.get(key, {}), (key,)) for key, kind in _TABLES.items()}
    config = Config(
        **tables,
        phases=_phases(complain, data.get("phase", []), kinds),
        hypotheses=tuple(
            complain.table(HypothesisTable, entry, ("hypothesis", number))
            for number, entry in enumerate(complain.array(data, "hypothesis"))
        ),
    )
    _check_values(complain, config)
    return config


def _phases(complain: Complaints, entries: Any, kinds: Sequence[PhaseKind]) -> tuple[PhaseEntry, ...]:
    by_name = {kind.name: kind for kind in kinds}
    seen: set[str] = set()
    phases = []
    for number, entry in enumerate(complain.array({"phase": entries}, "phase")):
        place = ("phase", number)
        kind = by_name.get(str(entry.get("kind")))
        if kind is None:
            raise complain.value((*place, "kind"), f"{entry.get('kind')!r} is no kind of phase", nearest(
                str(entry.get("kind")), list(by_name)))  # fmt: skip
        made = phase_entry(kind, entry, complain=complain, place=place)
        if made.id in seen:
            raise complain.value((*place, "id"), f"{made.id!r} stands twice", 'Give one of them an own id = "…".')
        seen.add(made.id)
        phases.append(made)
    return tuple(phases)


def phase_entry(
    kind: PhaseKind, entry: Mapping[str, Any], *, complain: Complaints | None = None, place: tuple[Any, ...] = ()
) -> PhaseEntry:
    """A phase from its table (`id`, `title` and the parameters of its kind)."""
    complain = complain or Complaints(f"phase {entry.get('id', kind.name)}", "")
    parameters = {key: value for key, value in entry.items() if key not in ("kind", "id", "title")}
    phase_id = entry.get("id", kind.name)
    if not isinstance(phase_id, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", phase_id):
        raise complain.value(
            (*place, "id"), f"{phase_id!r} cannot be an id", "Write lower-case letters, digits, - and _."
        )
    if kind.name != phase_id and phase_id in _RESERVED:
        raise complain.value((*place, "id"), f"{phase_id!r} names another section", "Write another id.")
    own = {key: value for key, value in parameters.items() if key not in ("imports", "unavailable")}
    return PhaseEntry(
        id=phase_id,
        kind=kind.name,
        title=str(entry.get("title", kind.title)),
        parameters=parameters,
        typed=complain.table(kind.parameters, own, place),
        imports=_imports(entry.get("imports", []), complain, place),
        unavailable=str(entry.get("unavailable", "")),
    )


def _imports(value: Any, complain: Complaints, place: tuple[Any, ...]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise complain.value((*place, "imports"), f"{value!r} is no list of paths", 'Write imports = ["traces/"].')
    return tuple(value)


def duration_s(text: str) -> float | None:
    """Seconds of `90s`, `60m` or `1.5h`; None where the text is none of these."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else None


def _check_hypotheses(complain: Complaints, config: Config) -> None:
    """A claim's test is read before anything is measured, not half an hour later."""
    for number, table in enumerate(config.hypotheses):
        try:
            check_syntax(table.holds_if)
        except ConfigError as error:
            raise complain.value(("hypothesis", number, "holds_if"), str(error), "") from error


def _check_values(complain: Complaints, config: Config) -> None:
    _check_hypotheses(complain, config)
    if not config.target.model and config.server.manage and not config.server.command:
        raise complain.value(
            ("target", "model"), "is missing", 'Write model = "FOLDER" (with a config.json) or a hub id.'
        )
    for key in ("tensor_parallel", "pipeline_parallel", "expert_parallel"):
        if getattr(config.target, key) < 1:
            raise complain.value(("target", key), f"{getattr(config.target, key)} is below 1", "Write 1 or more.")
    if not duration_s(config.server.ready_timeout):
        raise complain.value(
            ("server", "ready_timeout"), f"{config.server.ready_timeout!r} is no duration", 'Write "60m".'
        )
    if not re.match(r"https?://[^/\s]+", config.server.url):
        raise complain.value(("server", "url"), f"{config.server.url!r} is no URL", 'Write "http://HOST:PORT".')
    if config.planner.follow_ups < 0 or config.planner.server_loads < 0:
        raise complain.value(("planner", "follow_ups"), "a budget is below 0", "Write 0 or more.")
