"""What a kind of phase is: the one signature that every module of this folder fills in."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import msgspec

from campaign.narrator import Endpoint, Narration
from campaign.schema import Finding, Quantity, Result

Given = ParamSpec("Given")
Made = TypeVar("Made")

ServerNeed = Literal["none", "running", "profiled"]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, as far as the measurement scripts need it."""

    model: str
    """The model as campaign.toml names it."""
    config_path: str
    """Path of its config.json."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    """Number of ranks that share the routed experts; 1 = experts are sharded like dense layers."""
    device: Literal["cuda", "cpu"] = "cpu"
    engine: str = "vllm"


class ServerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a script reaches the server; not a parameter of the measurement (points survive a restart of the server)."""

    url: str = ""
    """Base URL without a trailing slash or /v1."""
    model: str = ""
    """The served model name."""
    api_key_env: str = ""
    """Name of the environment variable that holds the key; empty = none."""
    profile_dir: str = ""
    """Where the profiler writes traces; empty where the server has no profiler."""
    world_size: int = 1
    """How many ranks write a trace."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase may know beside its own parameters."""

    target: Target
    server: ServerAccess = ServerAccess()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One SVG beside the document."""

    name: str
    """File name without a folder, e.g. `throughput.svg`."""
    svg: bytes


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase makes of its result: pure, repeatable without measuring."""

    view: msgspec.Struct
    """The variables of the phase's template; every field has a docstring."""
    quantities: tuple[Quantity, ...] = ()
    """Named numbers for hypotheses, laws and the summary."""
    findings: tuple[Finding, ...] = ()
    figures: Callable[[], tuple[Figure, ...]] = lambda: ()
    """Draws the figures (imports matplotlib only when called)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One phase as the synthesis sees it."""

    id: str
    kind: str
    title: str
    status: str
    reason: str = ""
    attempt: int = 0
    command: str = ""
    """The one command that repeats its measurement."""
    result_path: str = ""
    result_hash: str = ""
    finished_at: str = ""
    duration_s: float = 0.0
    versions: dict[str, str] = {}
    origin: str = "config"
    """config, added, rule:<name>, imported, noted."""
    notes: tuple[str, ...] = ()
    """What a reader of its numbers must know, where they were not measured here."""


class Belief(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothesis of campaign.toml."""

    claim: str
    holds_if: str
    because: str = ""
    is_after_data: bool = False
    """Whether it was written down when its data existed already."""


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One state of the campaign's numbers."""

    at: str
    """UTC, ISO 8601."""
    phases: tuple[str, ...]
    """Phases whose results were new."""
    quantities: tuple[Quantity, ...]


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known when the phases are read together."""

    quantities: tuple[Quantity, ...]
    findings: tuple[Finding, ...]
    beliefs: tuple[Belief, ...]
    rows: tuple[Row, ...]
    revisions: tuple[Revision, ...] = ()
    """Oldest first; the last one is the present."""
    narrated: str = ""
    """A language model's words for the summary, unverified; empty = the template's own sentences."""


@dataclass(frozen=True, kw_only=True)
class PhaseKind:
    """One kind of phase. Everything else of the package handles all kinds alike."""

    name: str
    """The kind, as `[[phase]] kind = ` names it; also the script `campaign.measure.<name>`."""
    title: str
    """Default heading of its section."""
    parameters: type[msgspec.Struct]
    """What a person may write under `[[phase]]` (besides kind, id, title); all fields have defaults."""
    script_version: int
    """Raised when what the script measures changes; makes earlier results stale."""
    server: ServerNeed
    """The server it needs: none, running (any), profiled (with the profiler configured)."""
    configure: Callable[[Any, Context], msgspec.Struct]
    """(parameters, context) → the script's config. A field named `server` (ServerAccess) is no parameter.
    Raises `ConfigError` where parameters cannot be used with this target."""
    points: Callable[[Any], tuple[str, ...]]
    """config → keys of the points in the order of measurement."""
    analyze: Callable[[Result, Context], Analysis] | None = None
    """result → view, quantities, findings. Pure."""
    synthesize: Callable[[Material, Context], Analysis] | None = None
    """For the kind that measures nothing: what the other phases say together → view. Pure."""
    narrate: Callable[[Analysis, Endpoint], Narration] | None = None
    """What a language model says of a synthesis, verified claim by claim."""
    template: str
    """File name of the template of the section that has the phase's id."""
    sections_before: tuple[tuple[str, str], ...] = ()
    """Further sections (id, template) from the same view, at the document's start."""
    sections_after: tuple[tuple[str, str], ...] = ()
    """Further sections (id, template) from the same view, at the document's end."""
    uses_device: bool = False
    """Measures the device itself: our server is stopped before it, another's processes on a GPU block it."""
    blocked_by: Callable[[Context], str | None] = lambda _context: None
    """A reason why this phase cannot be measured for this target (`TP 1 has no collectives`), or None."""


def in_folder(kind: PhaseKind, folder: Path) -> PhaseKind:
    """The kind as the campaign in this folder uses it: paths in targets and results are relative to the folder.

    `--dir` names it from elsewhere, so that every function which may follow such a path runs there.
    """

    def there(function: Callable[Given, Made]) -> Callable[Given, Made]:
        @functools.wraps(function)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Made:
            with contextlib.chdir(folder):
                return function(*args, **kwargs)

        return call

    return replace(
        kind,
        configure=there(kind.configure),
        analyze=there(kind.analyze) if kind.analyze else None,
        synthesize=there(kind.synthesize) if kind.synthesize else None,
        blocked_by=there(kind.blocked_by),
    )
