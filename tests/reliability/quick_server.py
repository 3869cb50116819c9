"""A quick OpenAI server with a profiler for campaigns that attach to one: paced answers, real traces.

`python -m tests.reliability.quick_server PORT FOLDER`: what `/stop_profile` writes into FOLDER are the traces that a
real vLLM with two ranks wrote (tests/data/traces).
"""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from tests.load.conftest import free_port
from tests.load.paced_server import Server

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "data" / "traces" / "cpu-deepseek-tiny-tp2-compiled"
#: The paced server reads from the model's name what to do: 200 µs between tokens.
MODEL = "quick;itl=200"
_PR_SET_PDEATHSIG = 1


class QuickServer(Server):
    """The paced server, with the paths by which an engine is known, probed and profiled."""

    def __init__(self, port: int, folder: Path) -> None:
        super().__init__(port, None)
        self._folder = folder
        self._is_profiling = False

    def answer(self, fd: int, path: str, body: bytes, head: bytes) -> None:
        """Answer one request."""
        if path == "/v1/models":
            self.reply(fd, json.dumps({"data": [{"id": MODEL}]}))
        elif path in ("/start_profile", "/stop_profile"):
            self._profile(fd, path, is_post=head.startswith(b"POST"))
        else:
            super().answer(fd, path, body, head)

    def _profile(self, fd: int, path: str, *, is_post: bool) -> None:
        if not is_post:
            self.reply(fd, "{}", "405 Method Not Allowed")
            return
        if path == "/stop_profile" and self._is_profiling:
            for trace in sorted(TRACES.glob("*.pt.trace.json.gz")):
                shutil.copy(trace, self._folder / f"{trace.name.split('.')[0]}.{time.time_ns()}.pt.trace.json.gz")
        self._is_profiling = path == "/start_profile"
        self.reply(fd, "{}")


class Served:
    """A quick server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where its profiler writes."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.quick_server", str(port), str(folder)], cwd=ROOT,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"listening\n"

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


def main() -> None:
    """Serve until ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # a killed test run leaves no server behind
    server = QuickServer(int(sys.argv[1]), Path(sys.argv[2]))
    print("listening", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
