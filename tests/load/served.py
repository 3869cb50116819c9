"""A real vLLM of the tiny model for the load generator's tests."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from campaign.load.endpoint import Endpoint, endpoint_of
from campaign.server import ServerRecord, launch, stop, vllm_spec, wait_ready
from tests.load.record_streams import make_thinking_model
from tests.load.truth import free_port

ARGS = ("--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "512", "--max-num-seqs", "16")
MODEL_FOLDER = "models/tiny"


class Served(msgspec.Struct, frozen=True):
    """A running vLLM."""

    folder: Path
    record: ServerRecord
    endpoint: Endpoint
    model: str


@contextlib.contextmanager
def serve(folder: Path, *more: str) -> Iterator[Served]:
    """Start it with further arguments and stop it; only one real server at a time on a machine."""
    make_thinking_model(folder / MODEL_FOLDER)
    args = (*ARGS, "--enforce-eager", *more)
    spec = vllm_spec(MODEL_FOLDER, port=free_port(), campaign_dir=folder, args=args, ready_timeout_s=600.0)
    with (Path(tempfile.gettempdir()) / "campaign-vllm-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record = launch(spec, folder / "server.log", lambda _record: None)
        try:
            record = wait_ready(record, spec, lambda _progress: None)
            endpoint = endpoint_of(f"http://{spec.host}:{spec.port}")
            yield Served(folder, record, endpoint, record.served_name)
        finally:
            stop(record, spec)
