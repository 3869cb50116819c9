"""The tables that nccl-tests prints (all_reduce_perf and its siblings)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.importers.nccl_points import Measured, imported_of
from campaign.phases.collectives_data import Operation

#: Name of the program → operation.
PROGRAMS: dict[str, Operation] = {
    "all_reduce_perf": "all_reduce",
    "all_gather_perf": "all_gather",
    "reduce_scatter_perf": "reduce_scatter",
    "alltoall_perf": "all_to_all",
}
_HEADER = b"out-of-place"
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s", re.MULTILINE)
_PROGRAM = re.compile(r"\b(\w+_perf)\b")
_NUMBER = re.compile(r"-?\d+(\.\d+)?$")


def _claims(_path: Path, head: bytes) -> bool:
    return _HEADER in head and b"algbw" in head


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    return imported_of(files, _points, ask)


def _points(path: Path) -> Iterator[Measured]:
    text = read_text(path)
    operation = _operation(path, text)
    ranks = len(set(_RANK.findall(text)))
    version = re.search(r"NCCL version (\S+)", text)
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.split()
        if line.lstrip().startswith("#") or len(cells) < 12 or not cells[0].isdigit():
            continue
        count += 1
        yield _row(path, number, cells, operation=operation, ranks=ranks, version=version[1] if version else "")
    if not count:
        raise unusable(path, "the table has no rows", "Give the whole output of a run that finished.")


def _operation(path: Path, text: str) -> Operation:
    for name in (*_PROGRAM.findall(text), *_PROGRAM.findall(path.name)):
        if name in PROGRAMS:
            return PROGRAMS[name]
    raise unusable(
        path,
        "does not tell which program wrote it",
        f"Name the file after it: {', '.join(PROGRAMS)} (e.g. all_reduce_perf.txt).",
    )


def _row(path: Path, number: int, cells: Sequence[str], *, operation: Operation, ranks: int, version: str) -> Measured:
    """size count type redop root, then time algbw busbw wrong out of place and the same in place.

    Some operations print no redop and no root; the eight numbers at the end are always there.
    """
    tail = cells[-8:]
    if not all(_NUMBER.match(cell) or cell == "N/A" for cell in tail) or tail[0] == "N/A":
        raise unusable(path, f"line {number}: is no row of nccl-tests", "Give the output as it was printed.")
    return Measured(
        operation=operation,
        size_bytes=int(cells[0]),
        us=float(tail[0]),
        is_correct=tail[3] in ("0", "N/A"),
        is_checked=tail[3] != "N/A",
        ranks=ranks or None,
        library=f"NCCL {version}" if version else "NCCL",
    )


IMPORTER = Importer(
    name="nccl-tests-text",
    title="nccl-tests output",
    kinds=lambda _files: ("collectives",),
    claims=_claims,
    read=_read,
)
