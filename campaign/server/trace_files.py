"""Trace files in a profiler's folder: which there are, whose they are, whether they are whole."""

from __future__ import annotations

import gzip
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from campaign.errors import ServerError

#: `…-rank-1.123.pt.trace.json.gz` (0.16) and `dp0_pp0_tp1_dcp0_ep1_rank1.123.pt.trace.json.gz` (0.24, 0.32).
_RANK = re.compile(r"(?:^|[-_.])rank[-_]?(\d+)(?=\.)")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_CHUNK_BYTES = 1 << 20
#: Below this a disk counts as full.
_FULL_BYTES = 2**20


def traces(folder: Path) -> set[Path]:
    """Every rank's trace file in the folder; the API server's own (`async_llm`) is not one."""
    found = (*folder.glob("*.pt.trace.json.gz"), *folder.glob("*.pt.trace.json"))
    return {path for path in found if rank(path) is not None and ".async_llm." not in path.name}


def rank(path: Path) -> int | None:
    """The rank in a trace's name."""
    match = _RANK.search(path.name)
    return int(match[1]) if match else None


def by_rank(paths: Iterable[Path]) -> dict[int, Path]:
    """The newest file of each rank."""
    newest: dict[int, Path] = {}
    for path in sorted(paths, key=lambda one: one.stat().st_mtime_ns):
        number = rank(path)
        if number is not None:
            newest[number] = path
    return dict(sorted(newest.items()))


def size_bytes(path: Path) -> int:
    """Size now, 0 where it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def fault(path: Path) -> str | None:
    """None where gzip ends with its checksum and JSON with its last bracket, else what is wrong.

    A full TMPDIR cuts the JSON before it is compressed: then gzip is whole and the brackets do not close.
    """
    opener = gzip.open if path.suffix == ".gz" else Path.open
    depth, carry, is_empty = 0, b"", True
    try:
        with opener(path, "rb") as data:
            while chunk := data.read(_CHUNK_BYTES):
                is_empty = False
                whole, newline, rest = chunk.rpartition(b"\n")  # no JSON string holds a raw newline
                if newline:
                    depth += _opened(carry + whole)
                    carry = b""
                carry += rest
        depth += _opened(carry)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return "gzip does not end"
    except OSError as error:
        return str(error)
    return "JSON does not end" if depth != 0 or is_empty else None


def _opened(text: bytes) -> int:
    """How many more brackets open than close outside strings."""
    bare = _STRING.sub(b"", text) if b'"' in text else text
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")


def check_space(folder: Path | None, wanted_bytes: int, purpose: str) -> None:
    """Raise `ServerError` unless the disk of `folder` (None = the system's temporary folder) has that much free."""
    place = folder or Path(tempfile.gettempdir())
    try:
        free = shutil.disk_usage(place).free
    except FileNotFoundError as error:
        raise ServerError(f"{place} is not visible here: it must hold {purpose}. Create or mount it.") from error
    if free < wanted_bytes:
        raise ServerError(
            f"{place} has {free / 2**20:.0f} MiB free; {wanted_bytes / 2**20:.0f} MiB are wanted for {purpose}. "
            "Free the disk, then run again.",
            cause="No space left on device",
        )


def space_problem(folder: Path) -> str:
    """A sentence where the disk of `folder` is full, else nothing."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return f" {folder} cannot be looked at: {error}."
    return "" if free > _FULL_BYTES else f" The disk of {folder} is full: free it or choose another."
