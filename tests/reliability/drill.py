"""What the drills share: runners forked from a warm process, and what must hold whatever was done to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any

from campaign import schema
from campaign.events import Event
from campaign.files import TEMPORARY_PREFIX
from campaign.measurement import read_points
from campaign.state import CampaignState
from campaign.store import Store
from tests.reliability.faults import Control, preload

ROOT = Path(__file__).resolve().parents[2]
#: Room for the words of a forked script, see forked.py.
ROOM = "-" * 4096


class Runners:
    """Runners of campaign folders, each forked from one warm process."""

    def __init__(self, library: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._number = 0
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.warm", ROOM], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=preload(library, {**os.environ, "OMP_NUM_THREADS": "1"}),
        )  # fmt: skip
        assert self._answer() == "warm"

    def __enter__(self) -> Runners:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        assert self._warm.stdin is not None
        self._warm.stdin.close()
        self._warm.wait(timeout=60)

    def _answer(self) -> str:
        assert self._warm.stdout is not None
        line = self._warm.stdout.readline()
        assert line, "the warm process died"
        return line.strip()

    def begin(self, folder: Path, control: Control | None = None, until: str | None = None) -> Run:
        """A runner that has just been forked."""
        self._number += 1
        output = self._scratch / f"output-{self._number}.txt"
        order = {
            "folder": str(folder), "control": str(control.path) if control else "", "until": until,
            "output": str(output),
        }  # fmt: skip
        assert self._warm.stdin is not None
        self._warm.stdin.write(json.dumps(order) + "\n")
        self._warm.stdin.flush()
        return Run(json.loads(self._answer())["pid"], output, self._answer)

    def resume(self, folder: Path, control: Control | None = None, until: str | None = None) -> Ended:
        """A runner from start to end."""
        return self.begin(folder, control, until).wait()


class Ended:
    """A runner that has ended."""

    def __init__(self, code: int, output: str) -> None:
        self.code = code
        """Exit code; negative: the signal that ended it."""
        self.output = output
        """What it said."""


class Run:
    """A runner at work."""

    def __init__(self, pid: int, output: Path, answer: Any) -> None:
        self.pid = pid
        self._output = output
        self._answer = answer

    def send(self, number: int) -> bool:
        """Send it a signal, unless it has ended; says whether it was sent."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def is_alive(self) -> bool:
        """Whether it still works."""
        return self.send(0)

    def said(self) -> str:
        """What it said so far."""
        return self._output.read_text() if self._output.exists() else ""

    def wait(self) -> Ended:
        """Wait for its end."""
        code = int(json.loads(self._answer())["code"])
        return Ended(code, self.said())


def outcome(state: CampaignState) -> dict[str, Any]:
    """A state without its times and attempt numbers: what two runs of one campaign must agree on."""
    phases = []
    for entry in state.phases:
        fields = schema.builtins(entry)
        for name in ("attempts", "last_attempt", "result_attempt", "started_at", "duration_s", "result_hash"):
            fields.pop(name, None)
        if "inputs" in fields:
            fields["inputs"] = {k: v for k, v in fields["inputs"].items() if not k.startswith("result.")}
        phases.append(fields)
    sections = {name: section.state for name, section in state.document.sections.items()}
    server = {name: value for name, value in (state.server or {}).items() if name not in ("started_at", "ready_s")}
    return {"phases": phases, "sections": sections, "server": server}


def damage(folder: Path) -> list[str]:
    """Every file that is not whole: state, results, events, points. Torn tails of append-only files are allowed."""
    store = Store(folder)
    found = []
    for path in (store.state_path, store.previous_path):
        if path.exists():
            try:
                schema.decode(path.read_bytes(), CampaignState)
            except Exception as error:  # noqa: BLE001 (whatever it is, the file is not whole)
                found.append(f"{path}: {error}")
    results = store.results_folder.glob("*/*/result.json")
    found += [f"{path}: not whole" for path in results if store.load_result(path) is None]
    document = folder / "doc" / "report.md"
    if document.exists():
        text = document.read_text()
        if text.count("campaign:begin") != text.count("campaign:end"):
            found.append(f"{document}: not whole")
    if store.events.path.exists():
        for line in store.events.path.read_bytes().split(b"\n")[:-1]:
            if line.endswith(b"}"):
                try:
                    schema.decode(line, Event)
                except Exception as error:  # noqa: BLE001
                    found.append(f"{store.events.path}: {error}")
    return found


def measured_twice(folder: Path) -> list[str]:
    """Points that were on disk and were measured once more under the same parameters."""
    seen: dict[tuple[str, str, str], set[tuple[str, float]]] = defaultdict(set)
    for path in Store(folder).results_folder.glob("*/*/result.points.jsonl"):
        for point in read_points(path):
            seen[path.parent.parent.name, point.config_hash, point.key].add((point.started_at, point.duration_s))
    return [" ".join(key) for key, times in seen.items() if len(times) > 1]


def temporaries(folder: Path) -> list[str]:
    """Left-over temporary files."""
    return [str(path) for path in folder.rglob(TEMPORARY_PREFIX + "*")]


def measurements_alive(folder: Path) -> list[int]:
    """Measurement processes that work in a campaign folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                if b"campaign.measure." in words and (entry / "cwd").resolve() == folder:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition: Any, timeout_s: float = 60.0) -> None:
    """Wait until `condition()` is true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.02)
