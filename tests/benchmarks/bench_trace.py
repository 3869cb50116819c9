"""How fast and how right the trace analysis is, side by side with others, in fresh processes on the same files.

`python -m tests.benchmarks.bench_trace [--with-rivals] [--repeats N] [--folder F]`. Rivals: a plain json loop (always)
and HolisticTraceAnalysis 0.5.0 (`--with-rivals`, installed into a virtual environment of its own in the folder).
TraceLens of AMD is not on PyPI (the package `tracelens` there is another program), so it is not measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.process_memory import tree_mb
from tests.benchmarks.trace_contenders import HTA_DAMAGE, HTA_FIGURES, by_category

HTA = "HolisticTraceAnalysis==0.5.0"
#: It writes wide numbers into narrow columns, which pandas 3 refuses.
_RIVAL_NEEDS = ("pandas<3", "setuptools<81")
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Contender:
    """How to call one; a folder of traces is the last argument."""

    name: str
    figures: list[str]
    damage: list[str]
    repeats: int


@dataclass(frozen=True)
class Timing:
    """The best of some runs."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    """Proportional memory of the whole process tree, the largest of the runs."""


def run(name: str, command: list[str], repeats: int) -> tuple[Timing, dict[str, Any]]:
    """Time a command that prints `RESULT {json}`."""
    walls, cpus, peaks, result = [], [], [], {}
    environment = {**os.environ, "HTA_DISABLE_NS_ROUNDING": "1"} if "damage" in name else dict(os.environ)
    for _ in range(repeats):
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, text=True, env=environment
        )
        peak = [0.0]
        watcher = threading.Thread(target=_watch, args=(process, peak), daemon=True)
        watcher.start()
        output = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        walls.append(time.perf_counter() - begin)
        process.returncode = os.waitstatus_to_exitcode(status)
        watcher.join()
        cpus.append(usage.ru_utime + usage.ru_stime)
        peaks.append(peak[0])
        if process.returncode:
            raise SystemExit(f"{name}: exit {process.returncode}; its command was {command}")
        result = json.loads(next(line[7:] for line in output.splitlines() if line.startswith("RESULT ")))
    return Timing(min(walls), min(cpus), max(peaks)), result


def _watch(process: subprocess.Popen[str], peak: list[float]) -> None:
    while process.returncode is None:
        found = tree_mb(process.pid)
        if found is None:
            return
        peak[0] = max(peak[0], found)
        time.sleep(0.02)


def worst_error(result: dict[str, Any], truth: dict[str, Any]) -> tuple[float, str]:
    """Largest relative error over categories and ranks, and whose; whole-run sums where no steps are known."""
    if "kernels" in result:
        result = {"whole": by_category(result["kernels"], len(truth["ranks"]))}
    key = "busy" if "busy" in result else "whole"
    errors = [
        (abs(found.get(name, 0.0) - ns) / ns, name)
        for found, rank in zip(result[key], truth["ranks"], strict=True)
        for name, ns in rank[key].items()
        if ns
    ]
    error, name = max(errors)
    return (error, name) if error > 1e-12 else (0.0, "")


def straggler(result: dict[str, Any], truth: dict[str, Any]) -> str:
    """Whether the slow rank was found, and how far the waiting is off."""
    if len(truth["ranks"]) < 2 or "slowest" not in result:
        return "–"
    slowest = result["slowest"]
    found = slowest[0] if isinstance(slowest, list) and len(slowest) == 1 else slowest
    text = "found" if found == truth["slow_rank"] else f"no: {found}"
    if "wait_ms" in result:
        want = [rank["wait"] / rank["steps"] / 1e6 for rank in truth["ranks"]]
        off = max(abs(a - b) for a, b in zip(want, result["wait_ms"], strict=True))
        text += f"; waiting off by {off:.6f} ms a step"
    return text[:70]


def contenders(folder: Path, repeats: int, *, has_rivals: bool) -> list[Contender]:
    """Ours first."""
    own = [sys.executable, "-m", "tests.benchmarks.trace_contenders"]
    found = [
        Contender(name, [*own, key, "figures"], [*own, key, "damage"], count)
        for name, key, count in (("campaign", "campaign", repeats), ("json loop", "json", 1))
    ]
    if has_rivals:
        python = _rival(folder)
        found.append(Contender(HTA, [python, "-c", HTA_FIGURES], [python, "-c", HTA_DAMAGE], 1))
    return found


def _rival(folder: Path) -> str:
    """A python that can import the rival, installed on first use."""
    home = folder / "rivals"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    if subprocess.run(
        [python, "-c", "import hta, pandas; assert pandas.__version__ < '3'"], check=False, capture_output=True
    ).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", HTA, *_RIVAL_NEEDS], check=True)
    return str(python)


def _speed_table(folder: Path, chosen: list[Contender], only: str | None) -> None:
    from tests.benchmarks.trace_inputs import make

    print("| input | contender | wall s | CPU s | peak MB | worst error | straggler | CPU, × ours | wall, × ours |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key, ranks, megabytes in (("one", 1, 80.0), ("eight", 8, 78.6)):
        if only not in (None, key):
            continue
        place = make(folder / key, ranks=ranks, megabytes=megabytes, is_gzip=ranks > 1)
        truth = json.loads((place / "truth.json").read_text())
        title = f"{ranks} rank{'s' if ranks > 1 else ''}, {truth['megabytes']:.0f} MB{' (.gz)' if ranks > 1 else ''}"
        ours = None
        for one in chosen:
            timing, result = run(one.name, [*one.figures, str(place / "traces")], one.repeats)
            ours = ours or timing
            error, category = worst_error(result, truth)
            print(
                f"| {title} | {one.name} | {timing.wall_s:.2f} | {timing.cpu_s:.2f} | {timing.peak_mb:.0f} "
                f"| {100 * error:.4g} % {category} | {straggler(result, truth)} "
                f"| {timing.cpu_s / ours.cpu_s:.1f} | {timing.wall_s / ours.wall_s:.1f} |",
                flush=True,
            )


def _damage_table(chosen: list[Contender]) -> None:
    from tests.benchmarks import trace_damage

    print("\n| contender | damaged or unusual files read right | not read right |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        place = trace_damage.make(Path(folder))
        for one in chosen:
            _, result = run(f"{one.name}, damage", [*one.damage, str(place)], 1)
            wrong = trace_damage.failed(result)
            count = len(trace_damage.KINDS)
            print(f"| {one.name} | {count - len(wrong)} of {count} | {', '.join(wrong) or '–'} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with-rivals", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "campaign-bench-trace")
    parser.add_argument("--only", choices=("one", "eight", "damage"), help="one of the three tables' inputs")
    given = parser.parse_args()
    chosen = contenders(given.folder, given.repeats, has_rivals=given.with_rivals)
    if given.only != "damage":
        _speed_table(given.folder, chosen, given.only)
    if given.only in (None, "damage"):
        _damage_table(chosen)


if __name__ == "__main__":
    main()
