"""Files that are whole or untouched: atomic replacement, durable appends, reading past a torn tail."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from campaign.errors import StorageError

#: Left-over temporaries of a killed writer carry this prefix, so that the next run can remove them.
TEMPORARY_PREFIX = ".campaign-tmp-"


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: temporary file beside it, fsync, rename, fsync of the folder.

    A symbolic link stays a link (its target is replaced); mode and owner of an existing file are kept.
    Raises `StorageError` naming the disk; the old file survives.
    """
    target = path.resolve()
    temporary: Path | None = None
    try:
        make_folder(target.parent)
        handle, name = tempfile.mkstemp(prefix=TEMPORARY_PREFIX, dir=target.parent)
        temporary = Path(name)
        with os.fdopen(handle, "wb") as out:
            _copy_ownership(target, out.fileno())
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
        temporary = None
        fsync_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be written: {error.strerror} (disk of {target.parent}). "
            "The old file is unchanged; free the disk and run again."
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _copy_ownership(existing: Path, descriptor: int) -> None:
    """Mode and owner of the file that is replaced; a file system without them refuses, and that is no failure."""
    try:
        status = existing.stat()
        mode = status.st_mode & 0o7777
    except FileNotFoundError:
        status = None
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    with contextlib.suppress(PermissionError):
        os.fchmod(descriptor, mode)
    if status is not None and (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each durable in the one that holds it. Raises `OSError`."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    fsync_folder(folder.parent)


def fsync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def append_line(path: Path, line: bytes) -> None:
    """Append one line and see it on disk; a torn last line of a killed writer is ended first."""
    try:
        make_folder(path.parent)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            _write_all(descriptor, (b"\n" if is_torn else b"") + line + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            fsync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: cannot be appended to: {error.strerror} (disk of {path.parent}).") from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def read_whole_lines(path: Path) -> list[bytes]:
    """The lines of `path` that end in a newline and are not blank; none where there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [line for line in data.split(b"\n")[:-1] if line.strip()]


def remove(path: Path) -> bool:
    """Remove a file; says whether there was one. Raises `StorageError` naming the disk."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"{path}: cannot be removed: {error.strerror} (disk of {path.parent}).") from error
    return True


def open_log(path: Path) -> BinaryIO:
    """A log that a process is given to write to its end. Raises `StorageError` naming the disk."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise StorageError(f"{path}: cannot be appended to: {error.strerror} (disk of {path.parent}).") from error


def remove_temporaries(folder: Path) -> int:
    """Remove what killed writers left behind in `folder`; returns how many. Raises `StorageError` naming the disk."""
    return sum(remove(left) for left in folder.glob(TEMPORARY_PREFIX + "*"))
