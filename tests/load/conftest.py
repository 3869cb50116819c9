"""Real servers on the loopback for the load generator's tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.load.truth import TruthServer


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


@pytest.fixture(scope="session")
def shared_server() -> Iterator[TruthServer]:
    """One truth server for all tests that do not end it."""
    server = TruthServer()
    yield server
    server.stop()


@pytest.fixture
def paced(shared_server: TruthServer) -> TruthServer:
    """The shared truth server with nothing recorded."""
    shared_server.reset()
    return shared_server


@pytest.fixture
def make_server() -> Iterator[Callable[..., TruthServer]]:
    """Starts truth servers of a test's own."""
    servers: list[TruthServer] = []

    def make(**options: Any) -> TruthServer:
        servers.append(TruthServer(**options))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()
