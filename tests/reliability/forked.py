"""Measurement scripts forked instead of started anew: thousands of drills do not import torch each time.

What runs is the real script, as `python -m campaign.measure.KIND …` of its own session, with the same words,
folder, output and environment; only the interpreter's start and the imports are not repeated. The drills with real
signals (test_signals.py) start everything for real.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: What scripts import late, and what a runner does.
IMPORTED = (
    "torch.distributed", "numpy.ma", "concurrent.futures.process", "multiprocessing.queues",
    "campaign.runner.writing", "campaign.figures", "matplotlib.pyplot", "markdown_it", "rich._emoji_codes",
)  # fmt: skip
SCRIPTS = ("environment", "gemm", "collectives", "collectives_rank", "macro", "profile")
PREFIX = "campaign.measure."


def warm_up() -> None:
    """Import what the scripts import; the scripts themselves are run anew each time."""
    for name in (*IMPORTED, *(PREFIX + script for script in SCRIPTS)):
        importlib.import_module(name)
    for script in SCRIPTS:
        sys.modules.pop(PREFIX + script)
    subprocess.Popen = ForkedPopen  # type: ignore[misc]


class ForkedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A child that is forked from this process where it is one of the scripts, else started as ever."""

    def _execute_child(self, args: Any, executable: Any, *rest: Any) -> None:
        words = [os.fspath(word) for word in args] if isinstance(args, Sequence) and not isinstance(args, str) else []
        if words[:2] != [sys.executable, "-m"] or not words[2].startswith(PREFIX):
            super()._execute_child(args, executable, *rest)  # type: ignore[misc]
            return
        names = ("preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo", "creationflags", "shell",
                 "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite", "restore_signals", "gid",
                 "gids", "uid", "umask", "start_new_session", "process_group")  # fmt: skip
        given = dict(zip(names, rest, strict=True))
        started, closing = os.pipe()
        pid = os.fork()
        if pid == 0:
            _become(words, given)
        self.pid = pid
        os.close(closing)
        os.read(started, 1)  # as ever: not before the child has let go of the runner's files, its lock among them
        os.close(started)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in names[8:14]))  # type: ignore[attr-defined]


def _become(words: list[str], given: dict[str, Any]) -> None:
    """What exec, the interpreter's start and `-m` do; never returns."""
    code = 1
    try:
        if given["start_new_session"]:
            os.setsid()
        for source, target in ((given["p2cread"], 0), (given["c2pwrite"], 1), (given["errwrite"], 2)):
            if source not in (-1, target):
                os.dup2(source, target)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the runner's lock among them
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if given["cwd"] is not None:
            os.chdir(given["cwd"])
        if given["env"] is not None:
            os.environ.clear()
            os.environ.update(given["env"])
        _show_as(words)
        ctypes.CDLL(None).fault_become_script()
        sys.argv = words[2:]
        runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 (as the interpreter does at its end)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _show_as(words: list[str]) -> None:
    """Write the words where the system shows a process's command line; the warm process keeps room for them."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = b"".join(word.encode() + b"\0" for word in words)
    assert len(text) < end - start, f"the warm process was started with too few words for {words}"
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)
