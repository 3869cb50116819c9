"""Real file systems for drills: in a mount namespace of this process alone, gone with it whatever happens."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNS = 0x20000
_PAGE_BYTES = 4096


def obstacle(scratch: Path) -> str:
    """Enter a mount namespace of this process's own; returns why nothing can be mounted, empty where it can."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        return f"no mount namespace of its own: {os.strerror(ctypes.get_errno())}"
    try:
        mount("--make-rprivate", "/")
        with mounted(scratch / "tried", "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
            return ""
    except OSError as error:
        return f"mount: {error.strerror}"
    except subprocess.CalledProcessError as error:
        return bytes(error.stderr).decode(errors="replace").strip()


def mount(*words: str) -> None:
    """Run mount; raises where it fails."""
    subprocess.run(["mount", *words], check=True, capture_output=True)


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """`mount WORDS FOLDER` for a while."""
    folder.mkdir(exist_ok=True)
    mount(*words, str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def fill_up(folder: Path, free_pages: int) -> Path:
    """Fill the (small) file system of a folder up to so many free pages of 4 KiB; returns the file that does."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as out:
        left = os.statvfs(folder)
        for _ in range(left.f_bavail * left.f_frsize // _PAGE_BYTES - free_pages):
            out.write(b"\1" * _PAGE_BYTES)
    return filler


def inodes_used(folder: Path) -> int:
    """Inodes in use on the file system of a folder."""
    facts = os.statvfs(folder)
    return facts.f_files - facts.f_ffree
