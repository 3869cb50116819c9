"""campaign.toml as typed structs; what is wrong in it is said with key path, line and what to write instead."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from campaign.analysis import check_syntax
from campaign.errors import ConfigError
from campaign.phases.kind import PhaseKind

FILE_NAME = "campaign.toml"


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of campaign.toml: unknown keys are errors."""


class CampaignTable(_Table, frozen=True, kw_only=True):
    """[campaign]"""

    title: str = "Profiling campaign"
    """Title of a new document."""


class DocumentTable(_Table, frozen=True, kw_only=True):
    """[document]"""

    path: str = "doc/report.md"
    """The living document, relative to the campaign folder."""
    adopt: dict[str, str] = {}
    """Section id → a heading of the person's document that becomes this section, once."""


class TargetTable(_Table, frozen=True, kw_only=True):
    """[target]"""

    model: str = ""
    """A folder with config.json, or a hub id in the local cache."""
    tensor_parallel: int = 1
    """Ranks that share each layer."""
    pipeline_parallel: int = 1
    """Stages of layers."""
    expert_parallel: int = 1
    """Ranks that share the routed experts whole; 1 = experts are cut like dense layers."""
    variant: dict[str, str] = {}
    """What else names this target in the document."""
    device: str = ""
    """What results are about: `cpu`, or a GPU's name; empty = this machine. Elsewhere nothing is measured."""


class ServerTable(_Table, frozen=True, kw_only=True):
    """[server]"""

    engine: Literal["vllm"] = "vllm"
    """The engine; decides how its log is read and its profiler is driven."""
    manage: bool = True
    """true: this tool starts and stops it; false: attach to `url` and never stop it."""
    url: str = "http://127.0.0.1:8000"
    """Where it listens, or shall listen."""
    args: tuple[str, ...] = ()
    """Further arguments of the server."""
    env: dict[str, str] = {}
    """Environment of the server, on top of this process's own."""
    command: tuple[str, ...] = ()
    """Your own launcher instead; {port}, {host}, {model}, {served_name} and {profile_dir} are filled in."""
    stop_command: tuple[str, ...] = ()
    """What stops the launcher's server."""
    ready_timeout: str = "60m"
    """Longest load, counted from the server's start: 90s, 60m, 1.5h."""
    profile_ready: bool = False
    """true: one load, with the profiler configured, serves macro and profile."""
    profile_dir: str = ""
    """Where the profiler of a server that this tool does not start writes its traces, as seen from here."""
    allow: tuple[Literal["load", "gpu", "profile", "restart"], ...] = ("load", "gpu", "profile", "restart")
    """What a campaign may do to this server and machine."""
    api_key_env: str = ""
    """Name of the environment variable that holds the API key."""


class HypothesisTable(_Table, frozen=True, kw_only=True):
    """[[hypothesis]]"""

    claim: str
    """The belief, in words; written before it is measured."""
    holds_if: str
    """Its test over the campaign's numbers, e.g. share("gemm") > share("allreduce")."""
    because: str = ""
    """Why it is believed."""


class PlannerTable(_Table, frozen=True, kw_only=True):
    """[planner]"""

    follow_ups: int = 1
    """How many follow-up phases at most."""
    server_loads: int = 0
    """How many further server loads they may cost."""
    minutes: float = 30.0
    """Measuring time they may cost, as estimated."""
    off: tuple[str, ...] = ()
    """Rules that are switched off."""


class NarratorTable(_Table, frozen=True, kw_only=True):
    """[narrator]: off while url is empty."""

    url: str = ""
    """An OpenAI-compatible endpoint that is asked for the summary in prose; only what is verified is taken."""
    model: str = ""
    """Its served model name."""
    api_key_env: str = ""
    """Name of the environment variable that holds the key."""
    seed: int = 0
    """Sampling seed; temperature is 0."""


class PhaseEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One [[phase]]: its id, its kind and its parameters as written and as typed."""

    id: str
    kind: str
    title: str
    parameters: dict[str, Any]
    """As written, `imports` and `unavailable` among them."""
    typed: msgspec.Struct
    imports: tuple[str, ...] = ()
    """Files and folders whose results stand for a measurement here, relative to the campaign folder."""
    unavailable: str = ""
    """Why this phase has no numbers and is not to be measured, in the person's words."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole of campaign.toml."""

    campaign: CampaignTable = CampaignTable()
    document: DocumentTable = DocumentTable()
    target: TargetTable = TargetTable()
    server: ServerTable = ServerTable()
    phases: tuple[PhaseEntry, ...] = ()
    hypotheses: tuple[HypothesisTable, ...] = ()
    planner: PlannerTable = PlannerTable()
    narrator: NarratorTable = NarratorTable()


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
    complain = _Complaints(name, text)
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


def _phases(complain: _Complaints, entries: Any, kinds: Sequence[PhaseKind]) -> tuple[PhaseEntry, ...]:
    by_name = {kind.name: kind for kind in kinds}
    seen: set[str] = set()
    phases = []
    for number, entry in enumerate(complain.array({"phase": entries}, "phase")):
        place = ("phase", number)
        kind = by_name.get(str(entry.get("kind")))
        if kind is None:
            raise complain.value((*place, "kind"), f"{entry.get('kind')!r} is no kind of phase", _nearest(
                str(entry.get("kind")), list(by_name)))  # fmt: skip
        made = phase_entry(kind, entry, complain=complain, place=place)
        if made.id in seen:
            raise complain.value((*place, "id"), f"{made.id!r} stands twice", 'Give one of them an own id = "…".')
        seen.add(made.id)
        phases.append(made)
    return tuple(phases)


def phase_entry(
    kind: PhaseKind, entry: Mapping[str, Any], *, complain: _Complaints | None = None, place: tuple[Any, ...] = ()
) -> PhaseEntry:
    """A phase from its table (`id`, `title` and the parameters of its kind)."""
    complain = complain or _Complaints(f"phase {entry.get('id', kind.name)}", "")
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


def _imports(value: Any, complain: _Complaints, place: tuple[Any, ...]) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(path, str) and path for path in value):
        raise complain.value((*place, "imports"), f"{value!r} is no list of paths", 'Write imports = ["traces/"].')
    return tuple(value)


_RESERVED = ("summary", "method", "revisions", "environment", "synthesis")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)")


def duration_s(text: str) -> float | None:
    """Seconds of `90s`, `60m` or `1.5h`; None where the text is none of these."""
    match = _DURATION.fullmatch(text.strip())
    return float(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]] if match else None


def _check_hypotheses(complain: _Complaints, config: Config) -> None:
    """A claim's test is read before anything is measured, not half an hour later."""
    for number, table in enumerate(config.hypotheses):
        try:
            check_syntax(table.holds_if)
        except ConfigError as error:
            raise complain.value(("hypothesis", number, "holds_if"), str(error), "") from error


def _check_values(complain: _Complaints, config: Config) -> None:
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


class _Complaints:
    """Turns what is wrong into a `ConfigError` with the key's path and its line."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = text.splitlines()

    def table(self, kind: type[Any], value: Any, place: tuple[Any, ...]) -> Any:
        """`value` as the struct `kind`."""
        if not isinstance(value, dict):
            raise self.value(place, f"{value!r} is no table", f"Write [{_dotted(place)}].")
        known = [field.encode_name for field in msgspec.structs.fields(kind)]
        for key in value:
            if key not in known:
                raise self.unknown(place, key, known)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            text = str(error)
            match = re.search(r" - at `\$\.?(.*?)`$", text)
            inner = tuple(re.findall(r"[^.\[\]]+", match[1])) if match else ()
            what = text[: match.start()] if match else text
            raise self.value((*place, *inner), what, "Write a value that fits.") from error

    def array(self, data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """The tables of an array of tables."""
        value = data.get(key, [])
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise self.value((key,), "must be an array of tables", f"Write [[{key}]].")
        return value

    def unknown(self, place: tuple[Any, ...], key: str, known: list[str]) -> ConfigError:
        """An unknown key and the nearest known ones."""
        return self.value((*place, key), "is no known key", _nearest(key, known))

    def value(self, path: tuple[Any, ...], what: str, instead: str) -> ConfigError:
        """What is wrong at a key, and what to write instead."""
        line = self._line(path)
        where = f"{self._name}:{line}" if line else self._name
        return ConfigError(f"{where}: {_dotted(path)}: {what.removesuffix('.')}. {instead}".rstrip())

    def _line(self, path: tuple[Any, ...]) -> int | None:
        """The line of a key: its table's header first, then the key within; None where a scan does not find it."""
        if not self._lines or not path:
            return None
        number = path[1] if len(path) > 1 and isinstance(path[1], int) else None
        header = rf"\s*\[\[\s*{path[0]}\s*\]\]" if number is not None else rf"\s*\[\s*{path[0]}\s*\]"
        starts = [i for i, line in enumerate(self._lines) if re.match(header, line)]
        index = number or 0
        start = starts[index] if index < len(starts) else -1
        key = next((str(part) for part in reversed(path[1:]) if not str(part).isdigit()), str(path[0]))
        for i in range(start + 1, len(self._lines)):
            if start >= 0 and re.match(r"\s*\[", self._lines[i]):
                break
            if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", self._lines[i]):
                return i + 1
        return start + 1 if start >= 0 else self._anywhere(str(path[0]))

    def _anywhere(self, key: str) -> int | None:
        pattern = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*[\].=]")
        return next((i for i, line in enumerate(self._lines, 1) if pattern.match(line)), None)


def _dotted(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) or str(part).isdigit() else f".{part}" if text else str(part)
    return text


def _nearest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."
