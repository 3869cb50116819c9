"""The file that nccl-tests writes with `-J` (NCCL_TESTS_JSON)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.importers.nccl_points import Measured, imported_of
from campaign.importers.nccl_text import PROGRAMS


def _claims(_path: Path, head: bytes) -> bool:
    return head.lstrip().startswith(b"{") and b"nccl_version" in head and b"results" in head


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return imported_of([point for file in files for point in _points(file)], ask)


def _points(path: Path) -> Iterator[Measured]:
    try:
        document = json.loads(read_text(path))
        program = _program(document)
        ranks = document.get("config", {}).get("ranks") or len(document.get("devices") or []) or None
        device = str((document.get("devices") or [{}])[0].get("device_name", ""))
        rows: list[dict[str, Any]] = document["results"]
        if not rows:
            raise ValueError("results is empty")
        for row in rows:
            side = row.get("out_of_place") or row["in_place"]
            wrong = side.get("nwrong", side.get("wrong"))
            yield Measured(
                operation=PROGRAMS[program],
                size_bytes=int(row["size"] if "size" in row else row["size_bytes"]),
                us=float(side["time"] if "time" in side else side["time_us"]),
                is_correct=wrong in (None, 0, "0", "N/A"),
                is_checked=wrong not in (None, "N/A"),
                ranks=int(ranks) if ranks else None,
                library=f"NCCL {document['nccl_version']}",
                device_name=device,
            )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise unusable(path, f"is no result file of nccl-tests ({error!r})", "Give the file as -J wrote it.") from error


def _program(document: dict[str, Any]) -> str:
    words = str(document.get("cmdline", document.get("args", ""))).replace("/", " ").replace("'", " ").split()
    named = [word for word in (*words, str(document.get("test_name", ""))) if word in PROGRAMS]
    if not named:
        raise ValueError(f"no program among {', '.join(PROGRAMS)} is named")
    return named[0]


IMPORTER = Importer(
    name="nccl-tests-json",
    title="nccl-tests JSON",
    kinds=lambda _files: ("collectives",),
    claims=_claims,
    read=_read,
)
