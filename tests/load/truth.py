"""The truth server as tests and benchmarks use it: compiled once, started, asked what it truly sent."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from campaign.load.endpoint import Endpoint, endpoint_of

SOURCES = Path(__file__).with_name("truth_server")
BUILD = Path(__file__).resolve().parents[2] / "build" / "truth-server"


class Sent(msgspec.Struct, frozen=True):
    """What the server knows of one request; nanoseconds of the wall clock."""

    key: int
    """crc32 of its body."""
    arrived_ns: int
    """The kernel's stamp of the request's last segment."""
    sent_ns: list[int]
    """When each event was handed to the kernel."""
    body: str
    """The body as it came."""

    @property
    def ttft_ms(self) -> float:
        """From the request's arrival to its first event: the server's own part of the TTFT."""
        return (self.sent_ns[0] - self.arrived_ns) / 1e6

    def intervals_ms(self) -> list[float]:
        """Times between its events."""
        return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(self.sent_ns)]


class Truth(msgspec.Struct, frozen=True):
    """Everything since the last reset, in the order of arrival."""

    streams: list[Sent]
    running_max: int
    """Most streams at once."""
    head: str
    """Request line and headers of the last request."""

    def of(self, body: bytes) -> Sent:
        """The request with this body."""
        key = zlib.crc32(body)
        return next(stream for stream in self.streams if stream.key == key)


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@cache
def binary() -> Path:
    """The compiled server, made anew when a source changed; raises `AssertionError` where there is no C compiler."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = BUILD / f"truth_server-{digest}"
    if made.exists():
        return made
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise AssertionError(
            "The load generator's tests compile a server of exact pace, and there is no C compiler here. "
            "Install one (Debian: apt-get install gcc libc6-dev), or name yours in CC."
        )
    BUILD.mkdir(parents=True, exist_ok=True)
    draft = made.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(draft)]
    done = subprocess.run([*command, *map(str, SOURCES.glob("*.c"))], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, f"{compiler}: {done.stderr}"
    draft.replace(made)
    return made


class TruthServer:
    """The server's process and what it saw; with `tls` (certificate, key) behind a relay that speaks https.

    With `on_stop_profile`, a shell command that writes traces, it has the paths of vLLM's profiler.
    """

    def __init__(self, usual: str = "", tls: tuple[Path, Path] | None = None, on_stop_profile: str = "") -> None:
        self.port = free_port()
        self._usual = usual
        self._environment = os.environ | ({"ON_STOP_PROFILE": on_stop_profile} if on_stop_profile else {})
        self._relay: subprocess.Popen[bytes] | None = None
        self.url = self._plain_url = f"http://127.0.0.1:{self.port}"
        self.start()
        if tls:
            relay = free_port()
            script = Path(__file__).with_name("tls_relay.py")
            words = [sys.executable, str(script), str(relay), str(self.port), *map(str, tls)]
            self._relay = subprocess.Popen(words)
            self.url = f"https://127.0.0.1:{relay}"
            wait_for(relay)

    def start(self) -> None:
        """Start the process and wait until it listens; it ends with this one, which holds its standard input."""
        command = [str(binary()), str(self.port), self._usual]
        self.process = subprocess.Popen(command, env=self._environment, stdin=subprocess.PIPE)
        wait_for(self.port)

    def stop(self) -> None:
        """End the process."""
        for process in (self.process, self._relay):
            if process:
                process.kill()
                process.wait()

    def endpoint(self, **options: Any) -> Endpoint:
        """Where it listens."""
        return endpoint_of(self.url, **options)

    def get(self, path: str) -> bytes:
        """A control path's answer."""
        with urllib.request.urlopen(self._plain_url + path, timeout=20) as answer:
            found: bytes = answer.read()
        return found

    def truth(self) -> Truth:
        """What it truly did."""
        return msgspec.json.decode(self.get("/sent"), type=Truth)

    def bodies(self) -> list[dict[str, Any]]:
        """The requests' bodies, in the order of arrival."""
        return [json.loads(stream.body) for stream in self.truth().streams]

    def reset(self) -> None:
        """Forget what was sent."""
        self.get("/reset")


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"nobody listens on port {port}")
