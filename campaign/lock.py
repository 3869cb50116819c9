"""One runner a campaign folder: an operating-system lock, and the name of who holds it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from campaign import files, schema
from campaign.errors import LockedError, StorageError


class Holder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who holds the lock."""

    host: str
    pid: int
    started_at: str
    """Start time of the holder's process, UTC."""
    identity: str = ""
    """Boot and start ticks of the holder's process."""


def identity_of(pid: int) -> str:
    """Boot and start ticks of a process: with the pid its name for ever, whatever is done to the clock.

    Empty where there is no such process, or only its remains (a zombie).
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    except (OSError, IndexError):
        return ""


def _myself() -> Holder:
    import psutil

    started = datetime.fromtimestamp(psutil.Process().create_time(), UTC).isoformat(timespec="seconds")
    pid = os.getpid()
    return Holder(host=socket.gethostname(), pid=pid, started_at=started, identity=identity_of(pid))


def read_holder(folder: Path) -> Holder | None:
    """Who holds the lock of this state folder, or held it and did not end cleanly."""
    try:
        return schema.decode((folder / "lock.json").read_bytes(), Holder)
    except (OSError, msgspec.MsgspecError):
        return None


def is_alive(holder: Holder) -> bool:
    """Whether the holder is a process of this host that still runs."""
    return holder.host == socket.gethostname() and bool(holder.identity) and identity_of(holder.pid) == holder.identity


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold the lock of the state folder, or raise `LockedError` that names the holder at once.

    The operating system releases the lock of a dead holder. Raises `StorageError` for a folder that cannot be
    written or whose file system gives no working lock. A second host in the same folder is refused, since locks
    are not seen across hosts everywhere: the holder's name tells.
    """
    descriptor = _open(folder)
    try:
        _lock(folder, descriptor)
        other = read_holder(folder)
        if other is not None and other.host != socket.gethostname():
            raise LockedError(
                f"{folder}: in use by host {other.host} (pid {other.pid}, since {other.started_at}), and locks are not "
                f"seen across hosts. If that runner has ended, remove {folder / 'lock.json'} and run again."
            )
        files.write_atomic(folder / "lock.json", schema.encode_pretty(_myself()))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / "lock.json").unlink()
    finally:
        os.close(descriptor)  # releases the lock


def _open(folder: Path) -> int:
    try:
        files.make_folder(folder)
        return os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise StorageError(
            f"{folder}: cannot be written: {error.strerror} (disk of {folder}). A campaign needs a folder that it can "
            "write, on a disk with room."
        ) from error


def _lock(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockedError(_describe(folder)) from None
    except OSError as error:
        raise StorageError(_no_lock(folder, error.strerror)) from error
    # A file system that grants everyone everything is found out by asking a second time, as another would.
    second = _open(folder)
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError as error:
        raise StorageError(_no_lock(folder, error.strerror)) from error
    finally:
        os.close(second)
    raise StorageError(_no_lock(folder, "two got it at once"))


def _no_lock(folder: Path, why: str | None) -> str:
    return (
        f"{folder / '.lock'}: this file system gives no working lock ({why}). Move the campaign to a local disk, or "
        "mount this one with locks."
    )


def _describe(folder: Path) -> str:
    holder = read_holder(folder)
    who = f"host {holder.host}, pid {holder.pid}, started {holder.started_at}" if holder else "another process"
    return f"{folder}: another runner is at work here ({who}). Watch it with `python -m campaign status --watch`."
