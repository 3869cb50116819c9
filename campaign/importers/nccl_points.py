"""Rows of nccl-tests as a collectives result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from campaign.errors import UsageError
from campaign.importers.imported import Ask, Imported, unusable
from campaign.model import find_device
from campaign.phases.collectives_data import (
    CollectivePoint,
    CollectivesConfig,
    CollectivesData,
    Environment,
    Operation,
    RankSamples,
)
from campaign.schema import Host


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One row: the mean time of an operation at one size, out of place."""

    operation: Operation
    size_bytes: int
    us: float
    """A call, averaged by the program over its iterations and ranks."""
    is_correct: bool = True
    is_checked: bool = True
    """Whether the program compared results."""
    ranks: int | None = None
    library: str = "NCCL"
    device_name: str = ""


def imported_of(files: Sequence[Path], read: Callable[[Path], Iterable[Measured]], ask: Ask) -> Imported:
    """One point an operation and size of all files; raises `UsageError` naming the file with impossible rows."""
    measured = []
    for file in files:
        for one in read(file):
            _check(file, one)
            measured.append(one)
    return _imported(measured, ask)


def _check(file: Path, one: Measured) -> None:
    if not 0 < one.us < 1e12 or not 0 < one.size_bytes < 2**62:
        raise unusable(file, f"{one.size_bytes} bytes in {one.us} µs cannot be", "Give the output as it was written.")
    if one.ranks is not None and not 1 < one.ranks < 1 << 20:
        what = f"{one.operation} over {one.ranks} rank exchanges nothing"
        raise unusable(file, what, "Give the output of a run over several ranks.")


def _imported(measured: Sequence[Measured], ask: Ask) -> Imported:
    """Raises `UsageError` where files are of groups of different sizes."""
    config = ask.config
    assert isinstance(config, CollectivesConfig)
    groups = {point.ranks for point in measured if point.ranks is not None}
    if len(groups) > 1:
        sizes = ", ".join(str(size) for size in sorted(groups))
        raise UsageError(f"nccl-tests of groups of {sizes} ranks: they cannot stand in one table. Import one of them.")
    points: dict[tuple[str, int], CollectivePoint] = {}
    for one in measured:
        points[one.operation, one.size_bytes] = CollectivePoint(
            backend="nccl",
            operation=one.operation,
            size_bytes=one.size_bytes,
            calls=1,
            ranks=(RankSamples(rank=0, us=(one.us,), is_correct=one.is_correct),),
        )
    named = next((one.device_name for one in measured if one.device_name), ask.device_name)
    device = find_device(named) if named else None
    made = msgspec.structs.replace(
        config,
        device="cuda",
        ranks=groups.pop() if groups else config.ranks,
        backends=("nccl",),
        operations=tuple(dict.fromkeys(point.operation for point in points.values())),
        sizes_bytes=tuple(sorted({point.size_bytes for point in points.values()})),
        samples=1,
    )
    notes = ["One mean a size and operation, as nccl-tests prints it: no samples, so no spread."]
    if not all(one.is_checked for one in measured):
        notes.append("Results of the operations were not checked.")
    library = next((one.library for one in measured if one.library != "NCCL"), "NCCL")
    data = CollectivesData(
        environment=Environment(library=library, link=device.link if device else None, device_name=named),
        points=tuple(points.values()),
    )
    return Imported(config=made, data=data, host=Host(device=named), notes=tuple(notes))
