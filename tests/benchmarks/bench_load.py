"""What load generators cost and how truly they report, side by side, from what is installed here.

    python -m tests.benchmarks.bench_load [--streams 256] [--tokens 200] [--requests 768] [--only ours,vllm]

The paced server runs on core 0 and each client, with all its children, on core 1. Where the system allows it both
come before other work of the machine. CPU is user + system time of the client's whole process tree, from its start
cost on; `true` is what the server truly sent. CPU times vary with the neighbours: repeat, and take medians.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from campaign.load.latency import percentile
from tests.load.truth import TruthServer

VLLM_CLIENT = (
    "import sys\n"
    "from vllm.benchmarks.serve import add_cli_args, main\n"
    "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
    "parser = FlexibleArgumentParser()\nadd_cli_args(parser)\nmain(parser.parse_args(sys.argv[1:]))\n"
)


class Shape(msgspec.Struct, frozen=True):
    """One load."""

    streams: int
    requests: int
    tokens: int
    itl_us: int

    @property
    def model(self) -> str:
        """The model's name that asks the paced server for it."""
        return f"itl={self.itl_us}"


class Row(msgspec.Struct, frozen=True):
    """What one client cost and said."""

    cpu_s: float
    wall_s: float
    report: Mapping[str, float | None]


def ours(server: TruthServer, shape: Shape, folder: Path) -> tuple[list[str], Callable[[str], Mapping[str, Any]]]:
    """This package's command."""
    words = [
        sys.executable,
        "-m",
        "campaign",
        "load",
        server.url,
        "--model",
        shape.model,
        "--concurrency",
        str(shape.streams),
    ]
    words += ["--requests", str(shape.requests), "--input-tokens", "64", "--output-tokens", str(shape.tokens)]
    words += ["--prompts", "random", "--warm-up", "0", "--json"]

    def parse(output: str) -> Mapping[str, Any]:
        cell = json.loads(output)["cells"][0]
        return {
            "ttft_p50_ms": cell["ttft_ms"]["p50"],
            "itl_p99_ms": cell["itl_ms"]["p99"],
            "tok_s": cell["output_tok_s"],
            "lag_p99_ms": cell["client"]["lag_ms_p99"],
        }

    return words, parse


def vllm(server: TruthServer, shape: Shape, folder: Path) -> tuple[list[str], Callable[[str], Mapping[str, Any]]]:
    """vLLM's Python client."""
    from campaign.server import make_tiny_model

    make_tiny_model(folder / "tokenizer", "llama")
    words = [sys.executable, "-c", VLLM_CLIENT, "--model", shape.model, "--base-url", server.url]
    words += ["--tokenizer", str(folder / "tokenizer"), "--dataset-name", "random", "--random-input-len", "64"]
    words += ["--random-output-len", str(shape.tokens), "--num-prompts", str(shape.requests)]
    words += ["--max-concurrency", str(shape.streams), "--save-result", "--result-filename", str(folder / "r.json")]
    words += ["--percentile-metrics", "ttft,itl", "--metric-percentiles", "50,99", "--disable-tqdm"]

    def parse(_output: str) -> Mapping[str, Any]:
        found = json.loads((folder / "r.json").read_text())
        return {
            "ttft_p50_ms": found["p50_ttft_ms"],
            "itl_p99_ms": found["p99_itl_ms"],
            "tok_s": found["output_throughput"],
            "lag_p99_ms": None,
        }

    return words, parse


CLIENTS = {"ours": ours, "vllm": vllm}


def is_installed(name: str) -> bool:
    """Whether a client can be run here."""
    return name == "ours" or importlib.util.find_spec(name) is not None or shutil.which(name) is not None


def take_a_core() -> None:
    """The last core, ahead of other work on this machine where that is allowed."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def measure(name: str, shape: Shape) -> tuple[Row, list[float]]:
    """Run one client against a fresh server; returns its row and the true intervals in ms."""
    server = TruthServer()
    folder = Path(tempfile.mkdtemp())
    try:
        os.sched_setaffinity(server.process.pid, {0})
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(server.process.pid, os.SCHED_FIFO, os.sched_param(2))
        words, parse = CLIENTS[name](server, shape, folder)
        before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, check=False, preexec_fn=take_a_core)
        after, wall_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - begin
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr[-2000:]}")
        sent = server.get("/sent")["sent"].values()
        gaps = [(b - a) / 1e6 for times in sent for a, b in itertools.pairwise(times)]
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Row(cpu_s, wall_s, parse(done.stdout)), sorted(gaps)
    finally:
        server.stop()
        shutil.rmtree(folder)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--requests", type=int, default=768)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--itl-us", type=int, default=10_000)
    parser.add_argument("--only", default=",".join(CLIENTS))
    given = parser.parse_args()
    shape = Shape(given.streams, given.requests, given.tokens, given.itl_us)
    print(f"{shape.streams} streams × {shape.itl_us / 1000:g} ms, {shape.requests} requests of {shape.tokens} tokens")
    columns = ("client", "start, CPU s", "CPU µs/token", "ITL p99, ms", "true", "TTFT p50, ms", "tok/s", "lag p99, ms")
    print("  ".join(columns))
    for name in given.only.split(","):
        if not is_installed(name):
            print(f"{name}: not installed")
            continue
        start, _ = measure(name, Shape(1, 1, 2, 0))
        row, gaps = measure(name, shape)
        tokens = shape.requests * shape.tokens
        cost = (row.cpu_s - start.cpu_s) * 1e6 / tokens
        values = [start.cpu_s, cost, row.report["itl_p99_ms"], percentile(gaps, 99)]
        values += [row.report["ttft_p50_ms"], row.report["tok_s"], row.report["lag_p99_ms"]]
        texts = ["–" if v is None else f"{v:.4g}" for v in values]
        cells = [name, *texts]
        print("  ".join(text.rjust(len(head)) for text, head in zip(cells, columns, strict=True)), flush=True)


if __name__ == "__main__":
    main()
