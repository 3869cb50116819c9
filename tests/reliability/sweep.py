"""One fault at every call that changes a campaign folder, each in a fresh copy, and what must hold afterwards."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from campaign.runner.survey import survey
from campaign.store import Store
from tests.reliability import faults
from tests.reliability.drill import Ended, Runners, damage, measured_twice, outcome, temporaries
from tests.reliability.faults import Control


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong at one call."""

    name: str
    mode: int
    error: int = 0
    roles: int = faults.RUNNER
    """Whose calls are counted."""

    def __str__(self) -> str:
        return self.name


KILL = Fault(name="SIGKILL", mode=faults.KILL)
TORN = Fault(name="half a write, then SIGKILL", mode=faults.TORN)
KILL_SCRIPT = Fault(name="SIGKILL of the measurement", mode=faults.KILL, roles=faults.SCRIPT)
TORN_SCRIPT = Fault(name="half a write of the measurement, then SIGKILL", mode=faults.TORN, roles=faults.SCRIPT)
FULL = Fault(name="ENOSPC from here on", mode=faults.ERROR_FROM, error=errno.ENOSPC, roles=faults.BOTH)
BROKEN = Fault(name="EIO once", mode=faults.ERROR_ONCE, error=errno.EIO, roles=faults.BOTH)
DENIED = Fault(name="EACCES once", mode=faults.ERROR_ONCE, error=errno.EACCES, roles=faults.BOTH)
SHORT = Fault(name="short write", mode=faults.SHORT_ONCE, roles=faults.BOTH)


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """Where every run of a sweep begins and ends."""

    name: str
    """The stretch's name."""
    folder: Path
    """A campaign folder that is copied for each fault."""
    until: str | None
    """The phase after which a run ends; None = the whole campaign."""


class Sweep:
    """All faults of one kind over one stretch of a campaign."""

    def __init__(self, runners: Runners, base: Base, scratch: Path) -> None:
        self._runners = runners
        self._base = base
        self._scratch = scratch
        self._copies = 0

    def count(self, fault: Fault) -> tuple[list[int], Counter[str]]:
        """Numbers of the calls of an uninterrupted run that the fault can hit, and on which files they are.

        Remembers what that run comes to.
        """
        folder = self._copy()
        trace = self._scratch / f"trace-{self._copies}"
        trace.touch()
        control = self._control(folder, fault, mode=faults.COUNT, trace=trace)
        ended = self._runners.resume(folder, control, self._base.until)
        assert ended.code == 0, ended.output
        self.expected = self._outcome(folder)
        shutil.rmtree(folder)
        calls = [line.split(" ", 1) for line in trace.read_text().splitlines()]
        assert len(calls) == control.count
        hit = [number for number, (what, _) in enumerate(calls, 1) if _can_hit(fault, what)]
        return hit, Counter(_kind_of_file(calls[number - 1][1]) for number in hit)

    def run(self, fault: Fault, numbers: Iterable[int]) -> int:
        """Let the fault happen at each of these calls; returns how many times it did."""
        happened = 0
        for number in numbers:
            folder = self._copy()
            control = self._control(folder, fault, at=number)
            ended = self._runners.resume(folder, control, self._base.until)
            happened += control.fired > 0
            problem = self._problem(folder, fault, ended, has_fired=control.fired > 0)
            assert not problem, f"{fault.name} at call {number}: {problem}\n{ended.output}"
            shutil.rmtree(folder)
        return happened

    def _problem(self, folder: Path, fault: Fault, ended: Ended, *, has_fired: bool) -> str:
        """What does not hold after the fault, or after the next resume; empty = all holds."""
        if "Traceback" in ended.output:
            return "a traceback"
        if has_fired and fault.roles == faults.RUNNER and fault.mode in (faults.KILL, faults.TORN) and ended.code != -9:
            return f"not killed: exit code {ended.code}"
        if fault.mode == faults.ERROR_FROM and has_fired and ended.code == 0:
            return "a full disk was not said"
        if ended.code not in (0, -9) and "(disk of " not in ended.output and "No space left" not in ended.output:
            return f"exit code {ended.code} and no word of the disk"
        spoiled = damage(folder)
        if spoiled:
            return f"not whole: {spoiled}"
        survey(folder)
        again = self._runners.resume(folder, None, self._base.until)
        return _after(folder, again) or self._difference(folder, again)

    def _difference(self, folder: Path, again: Ended) -> str:
        got = self._outcome(folder)
        return "" if got == self.expected else f"ends otherwise: {got}\nnot: {self.expected}\n{again.output}"

    def _outcome(self, folder: Path) -> object:
        state = Store(folder).load_state()
        assert state is not None
        return outcome(state)

    def _copy(self) -> Path:
        self._copies += 1
        folder = self._scratch / f"copy-{self._copies}"
        shutil.copytree(self._base.folder, folder, symlinks=True)
        return folder.resolve()

    def _control(
        self, folder: Path, fault: Fault, *, at: int = 0, mode: int | None = None, trace: Path | None = None
    ) -> Control:
        mode = fault.mode if mode is None else mode
        path = self._scratch / f"control-{self._copies}"
        return Control(path, folder, mode=mode, at=at, error=fault.error, roles=fault.roles, trace=trace)


def sweep_and_say(runners: Runners, base: Base, scratch: Path, fault: Fault, samples: int = 0) -> None:
    """A whole sweep, or about `samples` points of it; prints what was done."""
    scratch.mkdir(exist_ok=True)
    sweep = Sweep(runners, base, scratch)
    hit, files = sweep.count(fault)
    chosen = hit[:: max(1, len(hit) // samples)] if samples else hit
    happened = sweep.run(fault, chosen)
    print(f"{fault.name}, stretch {base.name}: at {happened} of {len(hit)} calls {dict(files)}; all holds")
    assert hit
    # Calls of two processes interleave: at the very end a run may make one or two fewer than the one counted.
    assert happened >= 0.9 * len(chosen) - 1


def _after(folder: Path, again: Ended) -> str:
    """What must hold after any resume that was left alone."""
    if again.code != 0:
        return f"the next resume ends with {again.code}: {again.output}"
    if "Traceback" in again.output:
        return f"a traceback: {again.output}"
    for name, found in (
        ("not whole", damage(folder)),
        ("measured twice", measured_twice(folder)),
        ("left over", temporaries(folder)),
    ):
        if found:
            return f"{name} after the next resume: {found}"
    return ""


def _can_hit(fault: Fault, call: str) -> bool:
    if fault.mode in (faults.TORN, faults.SHORT_ONCE):
        return call == "write"
    if fault.error == errno.ENOSPC:
        return call not in ("unlink", "chmod")  # a full disk lets these happen
    if fault.error == errno.EACCES:
        return call not in ("write", "fsync", "truncate")  # what is open was permitted
    return True


def _kind_of_file(path: str) -> str:
    for part, name in (
        ("campaign.previous.json", "state"),
        ("campaign.json", "state"),
        ("events.jsonl", "events"),
        ("lock.json", "lock"),
        ("points.jsonl", "points"),
        ("/results/", "results"),
        ("/sections", "document"),
        ("/doc", "document"),
    ):
        if part in path:
            return name
    return "temporaries and folders"
