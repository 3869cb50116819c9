"""How fast and how right the trace analysis is, side by side with others, in fresh processes on the same files.

`python -m tests.benchmarks.bench_trace [--with-rivals] [--repeats N] [--folder F]`. Rivals: a plain json loop (always)
and HolisticTraceAnalysis 0.5.0 (`--with-rivals`, installed into a virtual environment of its own in the folder).
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
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HTA = "HolisticTraceAnalysis==0.5.0"
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Timing:
    """The best of some runs."""

    name: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    """Proportional memory of the whole process tree, the largest of the runs."""
    worst_error: float | None
    """Largest relative error of a category's time."""


def contender_campaign(folder: Path) -> dict[str, Any]:
    """The analysis as users run it, whole: everything it computes."""
    from campaign.trace import analyze

    found = analyze([folder], trim=0)
    decode = [rank.decode for rank in found.ranks if rank.decode is not None]
    return {
        "busy": [{c.name: c.busy_ms_per_step * 1e6 * d.steps for c in d.categories} for d in decode],
        "slowest": found.skew.slowest_rank,
        "wait_ms": list(found.skew.wait_ms_per_step),
    }


def contender_json_loop(folder: Path) -> dict[str, Any]:
    """The straightforward script: json.loads and a loop over the kernels, whole file, no steps."""
    import gzip

    from campaign.trace.categories import CATEGORIES, table

    known, found = table(), []
    for path in sorted(folder.glob("*.trace.json*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        whole: dict[str, float] = defaultdict(float)
        names: dict[str, str] = {}
        for event in json.loads(data)["traceEvents"]:
            if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
                name = event["name"]
                if name not in names:
                    names[name] = CATEGORIES[known.category(name)]
                whole[names[name]] += event["dur"] * 1000
        found.append(dict(whole))
    return {"whole": found}


_HTA_SCRIPT = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_dir=sys.argv[1])
asked = dict(visualize=False, num_kernels=10000, duration_ratio=1.0, include_memory_kernels=True)
_, kernels = t.get_gpu_kernel_breakdown(**asked)
rows = [[r["name"], float(r["sum (us)"])] for _, r in kernels.iterrows()]
print("RESULT " + json.dumps({"kernels": rows}))
"""


def run(name: str, command: list[str], folder: Path, repeats: int) -> tuple[Timing, dict[str, Any]]:
    """Time a command that prints `RESULT {json}`."""
    walls, cpus, peaks, result = [], [], [], {}
    for _ in range(repeats):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
        peak = [0.0]
        watcher = threading.Thread(target=_watch, args=(process, peak), daemon=True)
        watcher.start()
        output = process.stdout.read() if process.stdout is not None else ""
        _, status, usage = os.wait4(process.pid, 0)
        walls.append(time.perf_counter() - begin)
        process.returncode = os.waitstatus_to_exitcode(status)
        watcher.join()
        cpus.append(usage.ru_utime + usage.ru_stime)
        peaks.append(max(peak[0], usage.ru_maxrss / 1024))
        if process.returncode:
            raise SystemExit(f"{name}: exit {process.returncode}")
        result = json.loads(next(line[7:] for line in output.splitlines() if line.startswith("RESULT ")))
    truth = json.loads((folder / "truth.json").read_text())
    return Timing(name, min(walls), min(cpus), max(peaks), worst_error(result, truth)), result


def _watch(process: subprocess.Popen[str], peak: list[float]) -> None:
    while process.returncode is None and Path(f"/proc/{process.pid}").exists():
        peak[0] = max(peak[0], _tree_mb(process.pid))
        time.sleep(0.02)
        if _state(process.pid) in ("Z", ""):
            return


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][:1]
    except (OSError, IndexError):
        return ""


def _tree_mb(pid: int) -> float:
    total, todo = 0, [pid]
    while todo:
        one = todo.pop()
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text()
            total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
            for task in Path(f"/proc/{one}/task").iterdir():
                todo += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, StopIteration, ValueError):
            continue
    return total / 1024


def worst_error(result: dict[str, Any], truth: dict[str, Any]) -> float | None:
    """Largest relative error over categories and ranks; whole-run sums where the contender knows no steps."""
    if "kernels" in result:
        from campaign.trace.categories import CATEGORIES, table

        whole: dict[str, float] = defaultdict(float)
        for name, us in result["kernels"]:
            whole[CATEGORIES[table().category(name)]] += us * 1000
        want: dict[str, float] = defaultdict(float)
        for rank in truth["ranks"]:
            for name, ns in rank["whole"].items():
                want[name] += ns
        pairs = [(whole.get(name, 0.0), ns) for name, ns in want.items() if ns and name != "copy"]
    else:
        key = "busy" if "busy" in result else "whole"
        pairs = [
            (found.get(name, 0.0), ns)
            for found, rank in zip(result[key], truth["ranks"], strict=True)
            for name, ns in rank[key].items()
            if ns
        ]
    error = max(abs(found - ns) / ns for found, ns in pairs)
    return error if error > 1e-12 else 0.0


def rivals(folder: Path) -> str:
    """A python that can import the rival, installed on first use."""
    home = folder / "rivals"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", HTA, "setuptools<81"], check=True)
    return str(python)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with-rivals", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "campaign-bench-trace")
    parser.add_argument("--only", choices=("one", "eight"), help="one of the two inputs")
    parser.add_argument("--contender", nargs=2, metavar=("NAME", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contender:
        contender = {"campaign": contender_campaign, "json_loop": contender_json_loop}[given.contender[0]]
        print("RESULT " + json.dumps(contender(Path(given.contender[1]))))
        return
    from tests.benchmarks.trace_inputs import make

    inputs = (("one", "1 rank, 80 MB", 1, 80.0), ("eight", "8 ranks, 630 MB (.gz)", 8, 78.6))
    cases = [
        (title, make(given.folder / key, ranks=ranks, megabytes=megabytes, is_gzip=ranks > 1))
        for key, title, ranks, megabytes in inputs
        if given.only in (None, key)
    ]
    print("| input | contender | wall s | CPU s | peak MB in all | worst error of a category | wall, times ours |")
    print("|---|---|---|---|---|---|---|")
    for title, folder in cases:
        here = [sys.executable, "-m", "tests.benchmarks.bench_trace", "--contender"]
        commands = [("campaign", [*here, "campaign", str(folder)]), ("json loop", [*here, "json_loop", str(folder)])]
        if given.with_rivals:
            commands.append((HTA, [rivals(given.folder), "-c", _HTA_SCRIPT, str(folder)]))
        ours = None
        for name, command in commands:
            timing, result = run(name, command, folder, given.repeats if name == "campaign" else 1)
            ours = ours or timing.wall_s
            error = "–" if timing.worst_error is None else f"{100 * timing.worst_error:.6g} %"
            print(
                f"| {title} | {name} | {timing.wall_s:.2f} | {timing.cpu_s:.2f} | {timing.peak_mb:.0f} | {error} "
                f"| {timing.wall_s / ours:.1f} |",
                flush=True,
            )
            if name == "campaign":
                _print_skew(title, folder, result)


def _print_skew(title: str, folder: Path, result: dict[str, Any]) -> None:
    truth = json.loads((folder / "truth.json").read_text())
    if len(truth["ranks"]) < 2:
        return
    want = [rank["wait"] / rank["steps"] / 1e6 for rank in truth["ranks"]]
    off = max(abs(a - b) for a, b in zip(want, result["wait_ms"], strict=True))
    found = "found" if result["slowest"] == truth["slow_rank"] else f"not found ({result['slowest']})"
    print(f"| {title} | straggler {truth['slow_rank']} {found}; waiting off by at most {off:.6f} ms a step | | | | | |")


if __name__ == "__main__":
    main()
