"""Real vLLM servers for the drills: a tiny model, one start at a time, nothing left behind."""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from campaign.server import ServerRecord, ServerSpec, make_tiny_model, stop, vllm_spec
from tests.server.records import read_record

ROOT = Path(__file__).parents[2]
ARGS = ("--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "512", "--max-num-seqs", "4")


def free_port() -> int:
    """A port nobody holds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture()
def heavy() -> Iterator[None]:
    """Only one real server at a time on this machine."""
    with (Path(tempfile.gettempdir()) / "campaign-vllm-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tiny_spec(folder: Path, *, tensor_parallel: int = 1, profile: bool = False, **overrides: int) -> ServerSpec:
    """The tiny DeepSeek in eager mode, ready in well under a minute on two calm cores."""
    make_tiny_model(folder / "models" / "tiny", "deepseek", **overrides)
    return vllm_spec(
        "models/tiny",
        port=free_port(),
        campaign_dir=folder,
        tensor_parallel=tensor_parallel,
        args=(*ARGS, "--enforce-eager"),
        profile_dir=folder / "profile" if profile else None,
        ready_timeout_s=600.0,
    )


def run_once(folder: Path, die: str = "", kill_after_s: float | None = None) -> int:
    """Run tests.server.runner on a folder, killed after so long if it still runs; returns its exit code."""
    runner = subprocess.Popen([sys.executable, "-m", "tests.server.runner", str(folder), die], cwd=ROOT)
    try:
        return runner.wait(timeout=kill_after_s)
    except subprocess.TimeoutExpired:
        runner.kill()
        return runner.wait()


@pytest.fixture()
def drill(tmp_path: Path) -> Iterator[Path]:
    """A folder whose server is stopped at the end, whatever happens."""
    yield tmp_path
    record = read_record(tmp_path / "server.json")
    if record is not None:
        stop(record)


def complete(record: ServerRecord, tokens: int = 8) -> None:
    """One request of so many tokens."""
    body = {"model": record.served_name, "prompt": "Hello", "max_tokens": tokens, "ignore_eos": True}
    httpx.post(f"{record.url}/v1/completions", json=body, timeout=120, trust_env=False).raise_for_status()
