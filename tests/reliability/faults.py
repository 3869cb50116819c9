"""The preloaded fault library: compiled, armed through a small shared file, read back."""

from __future__ import annotations

import mmap
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

COUNT, KILL, TORN, ERROR_ONCE, ERROR_FROM, SHORT_ONCE = range(6)
RUNNER, SCRIPT, BOTH = 1, 2, 3

_NUMBERS = struct.Struct("=qqqiiiiii")
_TEXT_SIZE = 1024


def compile_library(folder: Path) -> Path:
    """The library, compiled with this machine's C compiler."""
    library = folder / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"], check=True
    )
    return library


class Control:
    """The shared file that says what is to go wrong; must agree with `struct control` of faults.c."""

    def __init__(
        self,
        path: Path,
        root: Path,
        *,
        mode: int = COUNT,
        at: int = 0,
        error: int = 0,
        roles: int = RUNNER,
        trace: Path | None = None,
        flock_error: int = 0,
        clock_at: int = 0,
    ) -> None:
        self.path = path
        numbers = _NUMBERS.pack(0, at, clock_at, mode, error, roles, 0, flock_error, 0)
        texts = [str(root).encode(), str(trace).encode() if trace else b""]
        path.write_bytes(numbers + b"".join(text.ljust(_TEXT_SIZE, b"\0") for text in texts))

    @property
    def count(self) -> int:
        """Calls seen so far."""
        return int(self._numbers()[0])

    @property
    def fired(self) -> int:
        """How often something went wrong on purpose."""
        return int(self._numbers()[6])

    def _numbers(self) -> tuple[int, ...]:
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            return _NUMBERS.unpack(view[: _NUMBERS.size])


def preload(library: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with the library preloaded."""
    return {**environment, "LD_PRELOAD": str(library)}
