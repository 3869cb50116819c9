"""facts.toml: numbers known only from notes, written down by hand."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from campaign import host
from campaign.errors import UsageError
from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.model import find_device
from campaign.phases import collectives_data as collectives
from campaign.phases import environment, facts
from campaign.schema import Host


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of facts.toml: unknown keys are errors."""


class NotesTable(_Table, frozen=True, kw_only=True):
    """[notes]: whose notes these are."""

    source: str
    """Where the numbers are from, in a sentence."""
    noted_at: str = ""
    """When they were written down here, ISO 8601."""


class EnvironmentTable(_Table, frozen=True, kw_only=True):
    """[environment]"""

    gpu: str = ""
    gpus: int = 0
    gpu_memory_gib: float = 0.0
    """Of each."""
    links: str = ""
    cpu: str = ""
    versions: dict[str, str] = {}
    variables: dict[str, str] = {}
    disturbances: tuple[str, ...] = ()


class BurstTable(_Table, frozen=True, kw_only=True):
    """[[collectives.burst]]: all-reduces one after another."""

    calls: int
    message_bytes: int
    ms: float
    """Of the whole burst."""


class SizeTable(_Table, frozen=True, kw_only=True):
    """[[collectives.size]]: one operation at one size."""

    operation: collectives.Operation
    size_bytes: int
    us: float
    """A call."""


class CollectivesTable(_Table, frozen=True, kw_only=True):
    """[collectives]"""

    ranks: int
    library: str = ""
    burst: tuple[BurstTable, ...] = ()
    size: tuple[SizeTable, ...] = ()
    notes: tuple[str, ...] = ()


class FactsFile(_Table, frozen=True, kw_only=True):
    """The whole file."""

    notes: NotesTable
    environment: EnvironmentTable | None = None
    collectives: CollectivesTable | None = None
    fact: tuple[facts.Fact, ...] = ()


def read_facts(path: Path) -> FactsFile:
    """facts.toml; raises `UsageError` with the key's path and what is wrong."""
    try:
        data = tomllib.loads(read_text(path))
        return msgspec.convert(data, FactsFile)
    except tomllib.TOMLDecodeError as error:
        raise unusable(path, str(error), "Mend the TOML.") from error
    except msgspec.ValidationError as error:
        raise unusable(path, str(error), "The keys are listed in doc/guide/import.md.") from error


def _only(files: Sequence[Path]) -> Path:
    if len(files) > 1:
        raise UsageError(f"{files[1]}: a second file of facts beside {files[0]}: give each an own phase.")
    return files[0]


def _kinds(files: Sequence[Path]) -> tuple[str, ...]:
    found = read_facts(_only(files))
    named = (("environment", found.environment), ("collectives", found.collectives), ("facts", found.fact))
    return tuple(kind for kind, table in named if table)


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    found = read_facts(_only(files))
    read = {"environment": _environment, "collectives": _collectives, "facts": _facts}[ask.kind]
    made = read(found, ask)
    return msgspec.structs.replace(
        made, origin="noted", finished_at=found.notes.noted_at, notes=(found.notes.source, *made.notes)
    )


def _environment(found: FactsFile, ask: Ask) -> Imported:
    table = found.environment
    assert table is not None
    size_bytes = round(table.gpu_memory_gib * 2**30) or None
    path = ask.context.target.config_path
    data = environment.Data(
        hostname="",
        system="",
        kernel="",
        cpu=table.cpu,
        cores=None,
        memory_bytes=None,
        gpus=tuple(
            environment.Gpu(index=i, name=table.gpu, memory_bytes=size_bytes, pcie=table.links, processes=None)
            for i in range(table.gpus)
        ),
        versions=table.versions,
        disk_free_bytes=None,
        load_average_1min=None,
        model=environment.facts_of_model(host.read_model_config(str(ask.folder / path)) if path else {}),
        disturbances=table.disturbances,
        variables=table.variables,
    )
    return Imported(config=ask.config, data=data, host=Host(device=table.gpu), versions=table.versions)


def _collectives(found: FactsFile, ask: Ask) -> Imported:
    table, config = found.collectives, ask.config
    assert table is not None and isinstance(config, collectives.CollectivesConfig)
    bursts = [
        collectives.CollectivePoint(
            backend="nccl",
            operation="all_reduce",
            size_bytes=burst.message_bytes,
            calls=burst.calls,
            is_burst=True,
            ranks=(collectives.RankSamples(rank=0, us=(burst.ms * 1e3,), is_correct=True),),
        )
        for burst in table.burst
    ]
    sizes = [
        collectives.CollectivePoint(
            backend="nccl",
            operation=size.operation,
            size_bytes=size.size_bytes,
            calls=1,
            ranks=(collectives.RankSamples(rank=0, us=(size.us,), is_correct=True),),
        )
        for size in table.size
    ]
    device = find_device(ask.device_name) if ask.device_name else None
    made = msgspec.structs.replace(
        config,
        device="cuda",
        ranks=table.ranks,
        backends=("nccl",),
        operations=tuple(dict.fromkeys(size.operation for size in table.size)),
        sizes_bytes=tuple(sorted({size.size_bytes for size in table.size})),
        samples=1,
    )
    data = collectives.CollectivesData(
        environment=collectives.Environment(
            library=table.library, link=device.link if device else None, device_name=ask.device_name
        ),
        points=(*bursts, *sizes),
    )
    return Imported(config=made, data=data, host=Host(device=ask.device_name), notes=table.notes)


def _facts(found: FactsFile, ask: Ask) -> Imported:
    data = facts.Data(source=found.notes.source, noted_at=found.notes.noted_at, facts=found.fact)
    return Imported(config=ask.config, data=data, host=Host(device=ask.device_name))


IMPORTER = Importer(
    name="facts",
    title="facts.toml, numbers known only from notes",
    kinds=_kinds,
    claims=lambda path, head: path.suffix == ".toml" and b"[notes]" in head,
    read=_read,
)
