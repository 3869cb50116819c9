"""Real servers on the loopback for the load generator's tests."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from campaign.load.endpoint import Endpoint, endpoint_of

SERVER = Path(__file__).with_name("paced_server.py")


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def ahead_of_others(*pids: int) -> Iterator[None]:
    """Run these processes before other work of the machine, where that is allowed: the pace is then the server's."""
    with contextlib.suppress(PermissionError):
        for pid in pids:
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):
            for pid in pids:
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))


class PacedServer:
    """The paced server's process and what it saw."""

    def __init__(self, port: int | None = None, tls: tuple[Path, Path] | None = None) -> None:
        self.port = port or free_port()
        self.tls = tls
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        """Start the process and wait until it listens."""
        files = [str(path) for path in self.tls or ()]
        self.process = subprocess.Popen([sys.executable, str(SERVER), str(self.port), *files])
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError("the paced server did not start")

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def endpoint(self, **options: Any) -> Endpoint:
        """Where it listens."""
        return endpoint_of(self.url, **options)

    def get(self, path: str) -> Any:
        """JSON of a control path."""
        with urllib.request.urlopen(self.url + path, timeout=20) as answer:
            return json.loads(answer.read() or b"{}")

    def reset(self) -> None:
        """Forget what was sent."""
        self.get("/reset")


@pytest.fixture(scope="session")
def shared_server() -> Iterator[PacedServer]:
    """One paced server for all tests that do not end it."""
    server = PacedServer()
    yield server
    server.stop()


@pytest.fixture
def paced(shared_server: PacedServer) -> PacedServer:
    """The shared paced server with nothing recorded."""
    shared_server.reset()
    return shared_server


@pytest.fixture
def make_server() -> Iterator[Callable[..., PacedServer]]:
    """Starts paced servers of a test's own."""
    servers: list[PacedServer] = []

    def make(**options: Any) -> PacedServer:
        servers.append(PacedServer(**options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()
