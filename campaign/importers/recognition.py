"""Which format a file has: by its content, in the order of the table."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from campaign.errors import UsageError
from campaign.importers.imported import Ask, Imported, Importer
from campaign.importers.table import IMPORTERS

_HEAD_BYTES = 1 << 16


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one format."""

    format: str
    files: tuple[Path, ...]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files at the paths, folders searched through; raises `UsageError` where there is none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
            if not inside:
                raise UsageError(f"{path}: the folder is empty. Give the files of a run.")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise UsageError(f"{path}: does not exist. Give a result file, or a folder of them.")
    return list(dict.fromkeys(found))


def head_of(path: Path) -> bytes:
    """The first bytes, decompressed; raises `UsageError` where the file cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if head[:2] == b"\x1f\x8b":
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, _HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from error
    except (zlib.error, gzip.BadGzipFile):
        return b""
    return head


def recognise(path: Path) -> Importer | None:
    """The first importer of the table that claims the file."""
    head = head_of(path)
    return next((importer for importer in IMPORTERS if importer.claims(path, head)), None)


def collect(paths: Sequence[Path]) -> list[tuple[Importer, list[Path]]]:
    """The files at the paths by format, in the table's order; raises `UsageError` naming what no importer knows.

    Files that merely lie in a given folder are passed over; a file that was named itself must be known.
    """
    groups: dict[str, list[Path]] = {}
    strangers: list[Path] = []
    for file in files_of(paths):
        importer = recognise(file)
        if importer is not None:
            groups.setdefault(importer.name, []).append(file)
        else:
            strangers.append(file)
    named = [file for file in strangers if file in paths] or ([] if groups else strangers)
    if named:
        known = "; ".join(importer.title for importer in IMPORTERS)
        raise UsageError(f"{named[0]}: of no format that can be imported. Known: {known}.")
    return [(importer, groups[importer.name]) for importer in IMPORTERS if importer.name in groups]


def read_kind(paths: Sequence[Path], ask: Ask) -> tuple[Imported, Importer, list[Path]]:
    """What the files say about a phase of `ask.kind`; raises `UsageError` where they say nothing about it.

    Several formats that answer one kind are not mixed: which of them counts is the person's choice.
    """
    fitting = [(importer, files) for importer, files in collect(paths) if ask.kind in importer.kinds(files)]
    if not fitting:
        raise UsageError(
            f"{', '.join(map(str, paths))}: holds nothing for a {ask.kind} phase. Name files that do, or another phase."
        )
    if len(fitting) > 1:
        names = " and ".join(importer.title for importer, _ in fitting)
        raise UsageError(f"{names} both answer a {ask.kind} phase: name one of them, and give the other an own phase.")
    importer, files = fitting[0]
    return importer.read(files, ask), importer, files


def hash_of(path: Path) -> str:
    """sha256 (16 hex digits) of a file's bytes, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def fingerprints(folder: Path, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(path, hash) of every file that `imports` of campaign.toml names; a missing one has the hash `missing`."""
    for given in paths:
        place = folder / given
        if not place.exists():
            yield given, "missing"
            continue
        for file in files_of([place]) if place.is_file() or any(place.iterdir()) else []:
            name = str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file)
            yield name, hash_of(file)
