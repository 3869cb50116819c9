"""The whole small campaign cut into stretches, so that a fault in one phase costs a run of that phase alone.

Each stretch begins in the folder as the one before left it, and the last one ends with the campaign: together they
make every call of a whole campaign. One more begins where a measurement was interrupted between its points.
"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from campaign.measurement import read_points
from campaign.store import Store
from tests.reliability import faults
from tests.reliability.drill import Runners, wait_until
from tests.reliability.faults import Control
from tests.reliability.kinds import WHOLE_PHASES
from tests.reliability.quick_server import Served
from tests.reliability.sweep import Base

INTERRUPTED = "interrupted gemm"
#: Every stretch, in the order of the campaign.
STRETCHES = (*WHOLE_PHASES, INTERRUPTED)


class Stretches:
    """The stretches of one campaign folder, made when they are asked for."""

    def __init__(self, runners: Runners, server: Served, unbegun: Path, scratch: Path) -> None:
        self.server = server
        """What macro and profile are measured on."""
        self._runners = runners
        self._scratch = scratch
        self._folders = {WHOLE_PHASES[0]: unbegun}

    def named(self, name: str) -> Base:
        """A stretch by the phase that it measures, or the interrupted one."""
        if name == INTERRUPTED:
            return Base(name=name, folder=self._interrupted(), until="gemm")
        return Base(name=name, folder=self._before(name), until=None if name == WHOLE_PHASES[-1] else name)

    def _before(self, phase: str) -> Path:
        """The campaign when all phases before this one are done."""
        if phase not in self._folders:
            earlier = WHOLE_PHASES[WHOLE_PHASES.index(phase) - 1]
            folder = self._copy(self._before(earlier), f"before-{phase}")
            ended = self._runners.resume(folder, until=earlier)
            assert ended.code == 0, ended.output
            self._folders[phase] = folder
        return self._folders[phase]

    def _interrupted(self) -> Path:
        """The gemm phase with one of its three points done, its measurement dead and its runner ended by a person."""
        if INTERRUPTED in self._folders:
            return self._folders[INTERRUPTED]
        counted = self._copy(self._before("gemm"), "counted")
        trace = self._scratch / "trace"
        control = Control(self._scratch / "count", counted, roles=faults.SCRIPT, trace=trace)
        assert self._runners.resume(counted, control, until="gemm").code == 0
        writes = [n for n, call in enumerate(trace.read_text().splitlines(), 1) if _writes_point(call)]
        folder = self._copy(self._before("gemm"), "interrupted-gemm")
        killing = Control(self._scratch / "kill", folder, mode=faults.KILL, roles=faults.SCRIPT, at=writes[1])
        run = self._runners.begin(folder, killing, until="gemm")
        wait_until(lambda: "attempt 2 of 3" in run.said())
        run.send(signal.SIGTERM)
        ended = run.wait()
        assert ended.code == 130, ended.output
        assert len(read_points(Store(folder).results_folder / "gemm" / "1" / "result.points.jsonl")) == 1
        self._folders[INTERRUPTED] = folder
        return folder

    def _copy(self, folder: Path, name: str) -> Path:
        return Path(shutil.copytree(folder, self._scratch / name, symlinks=True)).resolve()


def _writes_point(call: str) -> bool:
    what, _, path = call.partition(" ")
    return what == "write" and path.endswith("points.jsonl")
