"""Large generated traces with their truth, made once and kept in a folder."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

from tests.trace import generator
from tests.trace.generator import Run, Shape

_STACKS = ("torch/nn/modules/module.py(1784): _call_impl", "vllm/v1/worker/gpu_model_runner.py(3941): execute_model")
_STACKS_A_STEP = 1000
_PLACES = {
    "registers per thread": 32, "shared memory": 1024, "blocks per SM": 1.939394, "warps per SM": 7.757576,
    "block": [128, 1, 1], "est. achieved occupancy %": 12,
}  # fmt: skip


def make(folder: Path, *, ranks: int, megabytes: float, is_gzip: bool) -> Path:
    """Write `traces/` of about so many (uncompressed) megabytes a rank and `truth.json`; returns the folder."""
    if (folder / "truth.json").exists() and (folder / "traces").exists():
        known = json.loads((folder / "truth.json").read_text())
        if abs(known["megabytes"] / ranks - megabytes) < 0.05 * megabytes:
            return folder
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    run = _run(ranks, _steps_for(megabytes))
    truth: dict[str, Any] = {"ranks": [], "megabytes": 0.0, "slow_rank": run.shape.slow_rank}
    for rank in range(ranks):
        text = _text(run, rank)
        path = folder / "traces" / f"rank{rank}.1.pt.trace.json{'.gz' if is_gzip else ''}"
        path.write_bytes(gzip.compress(text, 5) if is_gzip else text)
        truth["megabytes"] += len(text) / 1e6
        truth["ranks"].append(_busy(run, rank))
    (folder / "truth.json").write_text(json.dumps(truth))
    return folder


def _run(ranks: int, steps: int) -> Run:
    shape = Shape(seed=1, ranks=ranks, layers=61, steps=steps, slow_rank=3 % ranks, prefill_every=40)
    return generator.simulate(shape)


def _text(run: Run, rank: int) -> bytes:
    rows = _with_stacks(generator.chrome_events(run, rank), run, rank)
    return generator.render(rows, generator.header(run, rank), "lines").encode()


def _steps_for(megabytes: float) -> int:
    """How many steps make a file of this size: measured on two short ones."""
    few, more = (len(_text(_run(1, steps), 0)) / 1e6 for steps in (4, 12))
    return max(4, round(4 + (megabytes - few) * 8 / (more - few)))


def _with_stacks(rows: list[dict[str, Any]], run: Run, rank: int) -> list[dict[str, Any]]:
    """Python frames as real traces have them (half of their events), and the launch geometry of kernels."""
    draw, thread = random.Random(rank), 800 + rank
    for row in rows:
        if row.get("cat") == "kernel":
            row["args"].update(_PLACES)
    frames = [
        {
            "ph": "X", "cat": "python_function", "name": draw.choice(_STACKS), "pid": thread, "tid": thread,
            "ts": start + i * 300, "dur": 250, "args": {"Python parent id": i, "Python id": i + 1, "Ev Idx": i},
        }
        for _, start, _ in run.ranks[rank].annotations
        for i in range(_STACKS_A_STEP)
    ]  # fmt: skip
    return rows[:1] + frames + rows[1:]


def _busy(run: Run, rank: int) -> dict[str, Any]:
    """Per category the nanoseconds over decode steps of known length, and the waiting in them."""
    events = run.ranks[rank].events
    first: dict[int, int] = {}
    for event in events:
        first[event.step] = min(first.get(event.step, event.start), event.start)
    kept = [i for i, plan in enumerate(run.plan) if plan.kind == "decode" and i + 1 in first]
    chosen, busy = set(kept), dict.fromkeys((category for _, category in generator.KERNELS.values()), 0)
    whole = dict(busy)
    for event in events:
        whole[event.category] += event.duration
        if event.step in chosen:
            busy[event.category] += event.duration
    waits = [generator.waiting(run, rank, step)[0] for step in kept] if len(run.ranks) > 1 else [0]
    return {"steps": len(kept), "busy": busy, "whole": whole, "wait": sum(waits)}
