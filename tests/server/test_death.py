"""Causes of death read from what engines wrote: the root, not the last line."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaign.server.log import LogReader

TAIL = """\
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "v1/engine/utils.py", line 900, in wait_for_engine_startup
(APIServer pid=1)     raise RuntimeError(
(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""

CASES = {
    "left-over memory": (
        "(EngineCore pid=2) ERROR 11-29 15:22:05 [core.py:9] EngineCore failed to start.\n"
        "(EngineCore pid=2) ERROR 11-29 15:22:05 [core.py:9] Traceback (most recent call last):\n"
        "(EngineCore pid=2) ERROR 11-29 15:22:05 [core.py:9] ValueError: Free memory on device cuda:0 (3.2/139.8 GiB) "
        "on startup is less than desired GPU memory utilization (0.9, 125.8 GiB).\n",
        "Free memory on device cuda:0",
        True,
    ),
    "context too long": (
        "(EngineCore pid=2) ERROR 11-29 15:22:05 [core.py:9] ValueError: To serve at least one request with the "
        "models's max seq len (131072), (12.0 GiB KV cache is needed, which is larger than the available KV cache "
        "memory (3.1 GiB).\n",
        "To serve at least one request",
        False,
    ),
    "architecture": (
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "(APIServer pid=1)   Value error, Model architectures ['X'] are not supported for now. Supported: []\n"
        "(APIServer pid=1)     For further information visit https://errors.pydantic.dev\n",
        "are not supported for now",
        False,
    ),
    "device memory": (
        "(Worker_TP0 pid=3) ERROR 11-29 15:22:05 [w.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 2.00 GiB.\n(EngineCore pid=2) ERROR 11-29 15:22:06 [core.py:9] Exception: WorkerProc "
        "initialization failed due to an exception in a background process.\n",
        "CUDA out of memory",
        False,
    ),
    "nccl": (
        "(Worker_TP1 pid=3) ERROR 11-29 15:22:05 [w.py:1] torch.distributed.DistBackendError: NCCL error in: "
        "NCCLUtils.cpp:94, unhandled system error\n",
        "NCCL error in",
        True,
    ),
    "port": (
        "(APIServer pid=1) OSError: [Errno 98] Address already in use\n",
        "Address already in use",
        True,
    ),
    "unknown": (
        "(Worker_TP0 pid=3) ERROR 11-29 15:22:05 [w.py:1] Traceback (most recent call last):\n"
        "(Worker_TP0 pid=3) ERROR 11-29 15:22:05 [w.py:1] KeyError: 'model.layers.3.mlp.gate.bias'\n"
        "(EngineCore pid=2) ERROR 11-29 15:22:06 [core.py:9] Exception: WorkerProc initialization failed\n",
        "KeyError: 'model.layers.3.mlp.gate.bias'",
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cause__root_not_the_last_line(name: str, tmp_path: Path) -> None:
    text, root, is_transient = CASES[name]
    path = tmp_path / "server.log"
    path.write_text(text + TAIL)
    log = LogReader(path)
    log.finish()
    cause = log.root_cause()
    assert cause is not None
    assert root in cause.text
    assert "Engine core initialization failed" not in cause.text
    assert cause.is_transient == is_transient
    assert cause.is_known == bool(cause.advice) == (name != "unknown")
    assert log.fatal_line


@pytest.mark.parametrize("level", ["INFO", "WARNING", "DEBUG"])
def test_cause__warnings_are_no_deaths(level: str, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        f"(W pid=1) {level} 11-29 15:22:05 [a.py:1] ModuleNotFoundError: retrying, the former one died unexpectedly\n"
        "ERROR: External init callback must run in same thread as registerClient (1 != 2)\n"
    )
    log = LogReader(path)
    log.finish()
    assert (log.fatal_line, log.root_cause()) == ("", None)
