"""Bytes of a trace file in pieces, decompressed as they are read; a damaged archive gives what is whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from campaign.errors import TraceError

#: Bytes handed on at a time: large enough for vector code, small enough for a process a rank.
PIECE_BYTES: Final = 1 << 22
_READ_BYTES: Final = 1 << 19
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_GZIP_WINDOW: Final = 31


def is_gzip(path: Path) -> bool:
    """Whether the file starts as gzip does, whatever its name says."""
    return _magic(path, 2) == _GZIP_MAGIC


def is_sqlite(path: Path) -> bool:
    """Whether the file is an SQLite database (an nsys export)."""
    return _magic(path, 16) == _SQLITE_MAGIC


def _magic(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror}. Check the path and its permissions.") from error


def pieces(path: Path, problems: list[str]) -> Iterator[bytes]:
    """Yield the file's bytes, at most `PIECE_BYTES` at a time; what damage there is goes to `problems`."""
    if is_gzip(path):
        yield from _gunzip(path, problems)
        return
    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(PIECE_BYTES):
                yield block
    except OSError as error:
        problems.append(f"reading stopped: {error.strerror}; what was read before is used")


def _decompressor() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj(_GZIP_WINDOW)
    return isal_zlib.decompressobj(_GZIP_WINDOW)


def _errors() -> tuple[Any, ...]:
    try:
        from isal import isal_zlib
    except ImportError:
        return (zlib.error, OSError, EOFError)
    return (zlib.error, isal_zlib.error, OSError, EOFError)


def _gunzip(path: Path, problems: list[str]) -> Iterator[bytes]:
    """Any number of members; a cut end, a bad checksum and rubbish after the last member are problems, not errors."""
    errors = _errors()
    with path.open("rb", buffering=0) as file:
        unit, pending, has_member = _decompressor(), b"", False
        while True:
            if not pending:
                pending = file.read(_READ_BYTES)
                if not pending:
                    if has_member and not unit.eof:
                        problems.append(
                            "the gzip stream ends early: the file is cut; whole events before the cut are used"
                        )
                    return
            try:
                has_member = True
                out = unit.decompress(pending, PIECE_BYTES)
            except errors as error:
                problems.append(f"the gzip stream is damaged ({error}); events before the damage are used")
                return
            if out:
                yield out
            if not unit.eof:
                pending = unit.unconsumed_tail
                continue
            pending = unit.unused_data or file.read(_READ_BYTES)
            pending = pending.lstrip(b"\x00") if not pending.strip(b"\x00") else pending
            if not pending:
                return
            if not pending.startswith(_GZIP_MAGIC[: len(pending)]):
                problems.append("bytes that are not gzip follow the archive; they are left out")
                return
            unit = _decompressor()
