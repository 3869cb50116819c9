"""Real vLLM servers for the drills: a tiny model, one start at a time, nothing left behind."""

from __future__ import annotations

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.server import ServerSpec, make_tiny_model, vllm_spec

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
