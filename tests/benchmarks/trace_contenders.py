"""Who is measured beside the analysis: each runs in a process of its own and prints `RESULT {json}`.

`python -m tests.benchmarks.trace_contenders NAME figures|damage FOLDER`.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def campaign_figures(folder: Path) -> dict[str, Any]:
    """The analysis as users run it, whole: everything it computes."""
    from campaign.trace import analyze

    found = analyze([folder], trim=0)
    decode = [rank.decode for rank in found.ranks if rank.decode is not None]
    return {
        "busy": [{c.name: c.busy_ms_per_step * 1e6 * d.steps for c in d.categories} for d in decode],
        "slowest": found.skew.slowest_rank,
        "wait_ms": list(found.skew.wait_ms_per_step),
    }


def campaign_whole(folder: Path) -> dict[str, Any]:
    """The whole file by category, and what is said of it."""
    from campaign.trace import analyze

    rank = analyze([folder], trim=0, processes=1).ranks[0]
    return {"whole": {c.name: round(c.busy_ms_per_step * 1e6) for c in rank.whole}, "problems": list(rank.problems)}


def json_figures(folder: Path) -> dict[str, Any]:
    """The straightforward script: json.loads and a loop over the kernels, whole file, no steps."""
    return {"whole": [_json_sums(path) for path in sorted(folder.glob("*.trace.json*"))]}


def json_whole(folder: Path) -> dict[str, Any]:
    """The same for one file."""
    return {"whole": _json_sums(next(folder.glob("*.trace.json*")))}


def _json_sums(path: Path) -> dict[str, float]:
    from campaign.trace.categories import CATEGORIES, table

    known, names = table(), dict[str, str]()
    sums: dict[str, float] = defaultdict(float)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for event in json.loads(data)["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            name = event["name"]
            if name not in names:
                names[name] = CATEGORIES[known.category(name)]
            sums[names[name]] += event["dur"] * 1000
    return dict(sums)


#: HolisticTraceAnalysis' own interpreter runs this: kernel sums by name (the categories are ours), then stragglers.
HTA_FIGURES = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_dir=sys.argv[1])
asked = dict(visualize=False, num_kernels=10000, duration_ratio=1.0, include_memory_kernels=True)
_, kernels = t.get_gpu_kernel_breakdown(**asked)
rows = [[int(r["rank"]), r["name"], float(r["sum (us)"])] for _, r in kernels.iterrows()]
try:
    slow = [int(rank) for rank in t.get_potential_stragglers(num_candidates=1)] if len(t.t.traces) > 1 else None
except Exception as error:
    slow = repr(error)
print("RESULT " + json.dumps({"kernels": rows, "slowest": slow}))
"""

#: The same for each damaged file, with HTA_DISABLE_NS_ROUNDING=1 in the environment.
HTA_DAMAGE = """
import json, logging, pathlib, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
asked = dict(visualize=False, num_kernels=10000, duration_ratio=1.0, include_memory_kernels=True)
found = {}
for folder in sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_dir()):
    try:
        _, kernels = TraceAnalysis(trace_dir=str(folder)).get_gpu_kernel_breakdown(**asked)
        found[folder.name] = {"kernels": [[0, r["name"], float(r["sum (us)"])] for _, r in kernels.iterrows()]}
    except BaseException as error:
        found[folder.name] = {"error": repr(error)}
print("RESULT " + json.dumps(found))
"""


def by_category(rows: list[tuple[int, str, float]], ranks: int) -> list[dict[str, float]]:
    """Sums by kernel, µs → sums by our categories, ns, a rank."""
    from campaign.trace.categories import CATEGORIES, table

    sums: list[dict[str, float]] = [defaultdict(float) for _ in range(ranks)]
    for rank, name, us in rows:
        sums[rank][CATEGORIES[table().category(name)]] += us * 1000
    return [dict(one) for one in sums]


def main() -> None:
    """Run one contender."""
    name, task, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if task == "figures":
        found = {"campaign": campaign_figures, "json": json_figures}[name](folder)
    else:
        read = {"campaign": campaign_whole, "json": json_whole}[name]
        found = {}
        for place in sorted(p for p in folder.iterdir() if p.is_dir()):
            try:
                found[place.name] = read(place)
            except Exception as error:  # noqa: BLE001 - failing on a file is a contender's result
                found[place.name] = {"error": repr(error)}
    print("RESULT " + json.dumps(found))


if __name__ == "__main__":
    main()
