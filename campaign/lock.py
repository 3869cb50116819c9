"""One runner a campaign folder: an operating-system lock, and the name of who holds it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil
from filelock import FileLock, Timeout

from campaign import files, schema
from campaign.errors import LockedError, StorageError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the lock."""

    host: str
    pid: int
    started_at: str
    """Start time of the holder's process, UTC."""


def _myself() -> Holder:
    started = datetime.fromtimestamp(psutil.Process().create_time(), UTC).isoformat(timespec="seconds")
    return Holder(host=socket.gethostname(), pid=os.getpid(), started_at=started)


def read_holder(folder: Path) -> Holder | None:
    """Who last took the lock of this state folder, where that can be read."""
    try:
        return schema.decode((folder / "lock.json").read_bytes(), Holder)
    except (OSError, msgspec.MsgspecError):
        return None


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of the state folder, or raise `LockedError` that names the holder at once.

    The operating system releases the lock of a dead holder. A second host in the same folder is refused
    where the file system's locks are not shared between hosts: the holder's name tells.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be made: {error.strerror}. A campaign needs a folder it can write."
        ) from error
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LockedError(_describe(folder)) from None
    except (OSError, NotImplementedError) as error:
        raise StorageError(
            f"{folder / '.lock'}: this file system gives no working lock ({error}). Move the campaign to a local disk."
        ) from error
    try:
        other = read_holder(folder)
        if other is not None and other.host != socket.gethostname():
            raise LockedError(
                f"{folder}: last used by host {other.host} (pid {other.pid}, since {other.started_at}), and locks are "
                f"not seen across hosts. If that runner has ended, remove {folder / 'lock.json'} and run again."
            )
        files.write_atomic(folder / "lock.json", schema.encode_pretty(_myself()))
        yield
        with contextlib.suppress(OSError):
            (folder / "lock.json").unlink()
    finally:
        lock.release()


def _describe(folder: Path) -> str:
    holder = read_holder(folder)
    who = f"host {holder.host}, pid {holder.pid}, started {holder.started_at}" if holder else "another process"
    return f"{folder}: another runner is at work here ({who}). Watch it with `python -m campaign status --watch`."
