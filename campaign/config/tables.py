"""campaign.toml as typed structs: one a table, each key with what it means."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


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
