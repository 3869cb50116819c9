"""The file that nccl-tests writes with `-J`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.importers.nccl_points import Measured, imported_of
from campaign.importers.nccl_text import PROGRAMS

_START = re.compile(rb'^\s*\{\s*"version"\s*:\s*\d+\s*,')


def _claims(_path: Path, head: bytes) -> bool:
    return _START.match(head) is not None and b'"args"' in head and b"_perf" in head


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return imported_of(files, _points, ask)


def _points(path: Path) -> Iterator[Measured]:
    try:
        document = json.loads(read_text(path))
        operation = PROGRAMS[_program(document["args"])]
        devices = _devices(document)
        rows: list[dict[str, Any]] = document["results"]
        if not rows:
            raise ValueError("results is empty")
        for row in rows:
            side = row["out_of_place"] or row["in_place"]
            us = float(side["time"] if "time" in side else side["cpu_time"])
            if not (math.isfinite(us) and us > 0):
                raise ValueError(f"a time of {us}")
            yield Measured(
                operation=operation,
                size_bytes=int(row["size"]),
                us=us,
                is_correct=side["nwrong"] is None or float(side["nwrong"]) == 0,
                is_checked=side["nwrong"] is not None,
                ranks=len(devices) or None,
                library=f"NCCL {_version(document['nccl_version'])}",
                device_name=str(devices[0].get("device_info", "")) if devices else "",
            )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise unusable(
            path, f"is no whole result file of nccl-tests ({error!r})", "Give the file as -J wrote it."
        ) from error


def _program(words: Sequence[str]) -> str:
    """The program among the words of its command line."""
    for word in words:
        name = str(word).rsplit("/", 1)[-1]
        if name in PROGRAMS:
            return name
    raise ValueError(f"args name none of {', '.join(PROGRAMS)}")


def _devices(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The ranks, which the file lists in its configuration."""
    for place in (document, document.get("config") or {}):
        for value in place.values():
            if isinstance(value, list) and value and isinstance(value[0], dict) and "device_info" in value[0]:
                return value
    return []


def _version(number: object) -> str:
    """22803 → 2.28.3."""
    if isinstance(number, int) and number >= 10000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return str(number)


IMPORTER = Importer(
    name="nccl-tests-json",
    title="nccl-tests JSON (-J)",
    kinds=lambda _files: ("collectives",),
    claims=_claims,
    read=_read,
)
