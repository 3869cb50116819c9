"""What load generators cost and how truly they report, side by side, from what is installed here.

    python -m tests.benchmarks.bench_load [--with-rivals] [--repeats 3] [--streams 256] [--only campaign,aiperf]

The truth server runs on one core and each client, with all its children, on another, both ahead of other work where
that is allowed. A row says what the client reported and, behind it, what the server truly sent in the same run. CPU is
user + system time of the client's whole process tree; that of a run with one short request (`start`) is taken off
before it is divided by the tokens. `--with-rivals` fetches those that are missing (PyPI; some gigabytes) into a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from campaign.load.latency import percentile
from campaign.server.tiny import make_tiny_model
from tests.benchmarks.load_clients import CLIENTS, Client, Job, Said, Shape
from tests.load.truth import Truth, TruthServer

ROOT = Path(__file__).resolve().parents[2]
START = Shape(streams=1, requests=1, tokens=8, itl_us=0)
COLUMNS = (
    *("client", "start, CPU s", "CPU µs/token", "ITL p99, ms", "true", "TTFT p50, ms", "true"),
    *("tok/s", "requests", "alien"),
)
#: Longest a client may take.
PATIENCE_S = 400.0
PR_SET_CHILD_SUBREAPER = 36


class Run(msgspec.Struct, frozen=True):
    """One run of one client."""

    cpu_s: float
    """Of its whole process tree."""
    said: Said
    truth: Truth
    alien: float
    """Share of the client's core that other programs used meanwhile."""

    @property
    def tokens(self) -> int:
        """Events that the server sent, of one token each."""
        return sum(len(stream.sent_ns) for stream in self.truth.streams)


def _be_first(core: int) -> None:
    """In a child before it starts: a session of its own on one core, ahead of other work where that is allowed."""
    os.setsid()  # nice counts within a session where the kernel groups processes by it
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(OSError):
        os.nice(-19)
        Path("/proc/self/autogroup").write_text("-19")


def _busy_s(core: int) -> float:
    lines = Path("/proc/stat").read_text().splitlines()
    fields = next(line for line in lines if line.startswith(f"cpu{core} ")).split()[1:]
    ticks = [int(field) for field in fields]
    return (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait(process: subprocess.Popen[str], session: int) -> None:
    """Until the client and everything it left behind has ended: what it orphans comes to this process."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if os.waitpid(-session, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        except ChildProcessError:
            return


def run_client(client: Client, words: Sequence[str], shape: Shape, model_folder: Path) -> Run:
    """Run a client against a fresh server; raises `RuntimeError` with its last words where it failed."""
    server, folder = TruthServer(f"itl={shape.itl_us}"), Path(tempfile.mkdtemp())
    mine, core = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(server.process.pid, {mine})
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(server.process.pid, os.SCHED_FIFO, os.sched_param(2))
        job = Job(url=server.url, shape=shape, folder=folder, model_folder=model_folder)
        cpu_s, busy_s, begin = _cpu_s(), _busy_s(core), time.monotonic()
        process = subprocess.Popen(
            [*words, *client.options(job)],
            stdout=subprocess.PIPE,
            stderr=(folder / "errors").open("w"),
            text=True,
            cwd=ROOT,
            env=os.environ | client.environment,
            preexec_fn=lambda: _be_first(core),  # noqa: PLW1509 - no other thread runs here
        )
        output, _ = process.communicate(timeout=PATIENCE_S)
        _wait(process, process.pid)
        if process.returncode:
            raise RuntimeError(f"exit {process.returncode}: {(folder / 'errors').read_text()[-400:]!r}")
        wall_s, cpu_s = time.monotonic() - begin, _cpu_s() - cpu_s
        alien = max(0.0, _busy_s(core) - busy_s - cpu_s) / wall_s
        return Run(cpu_s, client.read(job, output), server.truth(), alien)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, 9)
        process.wait()
        raise RuntimeError(f"not done after {PATIENCE_S:g} s") from error
    finally:
        server.stop()
        shutil.rmtree(folder)


def row_of(name: str, starts: Sequence[Run], runs: Sequence[Run]) -> list[str]:
    """A row of the table: medians over runs."""

    def median(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{statistics.median(known):.4g}" if known else "–"

    start_s = statistics.median(run.cpu_s for run in starts)
    gaps = [sorted(gap for s in run.truth.streams for gap in s.intervals_ms()) for run in runs]
    ttfts = [sorted(s.ttft_ms for s in run.truth.streams if s.sent_ns) for run in runs]
    return [
        name,
        f"{start_s:.2f}",
        median([(run.cpu_s - start_s) * 1e6 / run.tokens for run in runs]),
        median([run.said.itl_p99_ms for run in runs]),
        median([percentile(sent, 99) for sent in gaps]),
        median([run.said.ttft_p50_ms for run in runs]),
        median([percentile(own, 50) for own in ttfts]),
        median([run.said.tok_s for run in runs]),
        median([len(run.truth.streams) for run in runs]),
        f"{statistics.median(run.alien for run in runs):.0%}",
    ]


def words_of(client: Client, rivals: Path, *, may_install: bool) -> list[str] | str:
    """How to call a client, or why it cannot be: it is fetched first where that is wanted."""
    found = client.find(rivals)
    if isinstance(found, str) and may_install and client.install:
        print(f"fetching {client.name} into {rivals} …", file=sys.stderr, flush=True)
        rivals.mkdir(parents=True, exist_ok=True)
        try:
            client.install(rivals)
        except (subprocess.CalledProcessError, OSError, StopIteration, KeyError) as error:
            return f"could not be installed: {error}"
        found = client.find(rivals)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--with-rivals", action="store_true", help="fetch those that are missing")
    parser.add_argument("--rivals", type=Path, default=ROOT / "build" / "rivals", help="where they are or go")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--requests", type=int, default=768)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--itl-us", type=int, default=10_000)
    parser.add_argument("--only", default=",".join(client.name for client in CLIENTS))
    given = parser.parse_args()
    shape = Shape(given.streams, given.requests, given.tokens, given.itl_us)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    model_folder = make_tiny_model(ROOT / "build" / "bench-load" / "model", "llama")
    print(f"{shape.streams} streams × {shape.itl_us / 1000:g} ms, {shape.requests} requests of {shape.tokens} tokens,")
    print(f"medians of {given.repeats}; `true` is what the server sent in the same runs\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for client in CLIENTS:
        if client.name not in given.only.split(","):
            continue
        words = words_of(client, given.rivals.resolve(), may_install=given.with_rivals)
        if isinstance(words, str):
            print(f"| {client.name} | {words} |{' |' * (len(COLUMNS) - 2)}", flush=True)
            continue
        try:
            starts = [run_client(client, words, START, model_folder) for _ in range(given.repeats)]
            runs = [run_client(client, words, shape, model_folder) for _ in range(given.repeats)]
        except (RuntimeError, OSError, ValueError, LookupError, StopIteration) as error:
            print(f"| {client.name} | failed: {error} |{' |' * (len(COLUMNS) - 2)}", flush=True)
            continue
        print(f"| {' | '.join(row_of(client.name, starts, runs))} |", flush=True)


if __name__ == "__main__":
    main()
