"""Processes of a group: started together, watched, and ended together, with a name for the one that failed."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from campaign.errors import PhaseError

#: How long ranks get to end by themselves after everything is measured.
TEARDOWN_S = 15.0
#: How long ranks get to load their libraries and to find each other.
START_S = 120.0
#: How long a killed process may take to be gone.
KILL_S = 20.0
_COUNTER = struct.Struct("<q")


class Counters:
    """One number a rank in a shared file: how many calls it has entered."""

    def __init__(self, path: Path, ranks: int) -> None:
        if not path.exists():
            path.write_bytes(bytes(_COUNTER.size * ranks))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _COUNTER.size * ranks)
        self._ranks = ranks

    def step(self, rank: int) -> None:
        """Count one more call of `rank`, just before it enters it."""
        (count,) = _COUNTER.unpack_from(self._map, rank * _COUNTER.size)
        _COUNTER.pack_into(self._map, rank * _COUNTER.size, count + 1)

    def read(self) -> list[int]:
        """The counts of all ranks."""
        return [_COUNTER.unpack_from(self._map, rank * _COUNTER.size)[0] for rank in range(self._ranks)]


class Group:
    """The rank processes of one measurement; they write JSON lines on standard output."""

    def __init__(self, module: str, ranks: int, config_path: Path, folder: Path, environment: dict[str, str]) -> None:
        self.ranks = ranks
        self.counters = Counters(folder / "counters", ranks)
        self._buffers = dict.fromkeys(range(ranks), b"")
        self._selector = selectors.DefaultSelector()
        self.processes: list[subprocess.Popen[bytes]] = []
        for rank in range(ranks):
            arguments = ["--config", str(config_path), "--folder", str(folder), "--rank", str(rank)]
            process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=os.environ | environment | {"LOCAL_RANK": str(rank)},
            )
            assert process.stdout is not None
            os.set_blocking(process.stdout.fileno(), False)
            self._selector.register(process.stdout, selectors.EVENT_READ, rank)
            self.processes.append(process)

    def messages(self, timeout_s: float, during: Callable[[], str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """(rank, message) as they come, until every rank has said `measured`.

        Raises `PhaseError` naming the rank that died, or that hung: no message and no call entered for `timeout_s`
        (longer while a rank starts, or loads what it said it is loading).
        """
        finished: set[int] = set()
        busy = set(range(self.ranks))
        last, entered = time.monotonic(), self.counters.read()
        while len(finished) < self.ranks:
            got = list(self._read(min(0.5, timeout_s)))
            for rank, message in got:
                last = time.monotonic()
                if message["event"] == "ready":
                    busy.discard(rank)
                elif message["event"] == "loading":
                    busy.add(rank)
                elif message["event"] == "measured":
                    finished.add(rank)
                else:
                    yield rank, message
            self._check_alive(finished, during())
            if (now_entered := self.counters.read()) != entered:
                last, entered = time.monotonic(), now_entered
            limit_s = max(timeout_s, START_S) if busy else timeout_s
            if time.monotonic() - last > limit_s:
                what = "the start of its libraries, before " if busy else ""
                raise PhaseError(self._describe_hang(limit_s, what + during()))

    def _read(self, timeout_s: float) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, _ in self._selector.select(timeout_s):
            rank = int(key.data)
            piece = os.read(key.fd, 1 << 16)
            if not piece:
                self._selector.unregister(key.fileobj)
                continue
            *lines, self._buffers[rank] = (self._buffers[rank] + piece).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    message = json.loads(line)
                    if isinstance(message, dict) and "event" in message:
                        yield rank, message

    def _check_alive(self, finished: set[int], during: str) -> None:
        for rank, process in enumerate(self.processes):
            code = process.poll()
            if code is None or rank in finished or rank in {int(k.data) for k in self._selector.get_map().values()}:
                continue
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            raise PhaseError(
                f"rank {rank} of {self.ranks} {how} during {during}; all ranks were ended. "
                "Its last lines stand in the attempt's log; what was measured before is kept."
            )

    def _describe_hang(self, timeout_s: float, during: str) -> str:
        counts = self.counters.read()
        stopped = [rank for rank, process in enumerate(self.processes) if _state(process.pid) == "T"]
        behind = [rank for rank, count in enumerate(counts) if count < max(counts)]
        suspects = stopped or behind
        calls = ", ".join(f"rank {rank}: {count}" for rank, count in enumerate(counts))
        if suspects:
            who = "rank " + ", ".join(str(rank) for rank in suspects)
            why = "is stopped" if stopped else "is behind the others"
        else:
            who, why = "all ranks", "wait in the same call: the link or its driver hangs"
        return (
            f"{who} of {self.ranks} hung during {during}: {why} (no progress for {timeout_s:g} s; "
            f"calls entered: {calls}). All ranks were ended; what was measured before is kept."
        )

    def end(self) -> list[int]:
        """Wait for ranks to end by themselves, then end those that hang; returns the ranks that had to be ended."""
        deadline = time.monotonic() + TEARDOWN_S
        while time.monotonic() < deadline and any(p.poll() is None for p in self.processes):
            for _ in self._read(0.1):
                pass
            time.sleep(0.05)
        hung = [rank for rank, process in enumerate(self.processes) if process.poll() is None]
        self.kill()
        return hung

    def kill(self) -> None:
        """End every rank now."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            # A process that a driver holds in the kernel cannot be ended; waiting for it would hang this one too.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_S)
            if process.stdout is not None:
                process.stdout.close()
        self._selector.close()


def _state(pid: int) -> str:
    """The kernel's letter for a process's state; T = stopped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "?"


@contextlib.contextmanager
def rank_folder() -> Iterator[Path]:
    """A temporary folder in which ranks meet."""
    with tempfile.TemporaryDirectory(prefix="campaign-ranks-") as folder:
        yield Path(folder)
