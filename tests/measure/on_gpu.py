"""The proof on a GPU: `python -m tests.measure.on_gpu FOLDER [MODEL …]` on a machine with one GPU or more.

Each model's gemm phase at TP 8 shapes twice, its attention once, its collectives over the GPUs there are (two or
more); results, tables and a verdict go to FOLDER. Exit code 1 where a result was refused, wrong, or moved by more
than 3 % between the two runs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from campaign import schema
from campaign.phases import attention, collectives, gemm
from campaign.phases.kind import Context, PhaseKind, Target
from tests.measure.scripts import CONFIGS, ROOT, analyze, render

LIMIT = 0.03


def measure(kind: PhaseKind, context: Context, out: Path, **parameters: Any) -> schema.Result | None:
    """Run the script, log beside the result; None where it failed (the log says why)."""
    config = kind.configure(msgspec.convert(parameters, kind.parameters), context)
    given = out.with_suffix(".in.json")
    given.write_bytes(schema.encode(config))
    command = [sys.executable, "-m", f"campaign.measure.{kind.name}", "--config", str(given), "--out", str(out)]
    with out.with_suffix(".log").open("w") as log:
        code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, check=False).returncode
    if code:
        print(f"FAILED {out.name}: code {code}: {out.with_suffix('.log').read_text()[-400:]}")
        return None
    return schema.decode(out.read_bytes(), schema.Result)


def rows_of(kind: PhaseKind, result: schema.Result, context: Context, out: Path) -> list[dict[str, Any]]:
    """Rows of the table, which is written beside the result."""
    analysis = analyze(kind, result, context)
    out.with_suffix(".md").write_text(render(kind, analysis))
    view = schema.builtins(analysis.view)
    return [*view["rows"], *view.get("bursts", [])]


def refusals(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """Rows without a number because they were wrong; kernels that do not load are no failure."""
    return [f"{name}: {row}" for row in rows if str(row["note"]).startswith("refused")]


def moved(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[str]:
    """Medians that two runs do not agree on."""
    found = []
    for one, two in zip(first, second, strict=True):
        if one["cold_us"] and two["cold_us"] and abs(one["cold_us"] / two["cold_us"] - 1) > LIMIT:
            found.append(f"{one['kind']} at M = {one['m']}: {one['cold_us']:.4g} and {two['cold_us']:.4g} µs")
    return found


def prove(name: str, folder: Path, gpus: int) -> list[str]:
    """All measurements of one model; what is wrong."""
    target = Target(model=name, config_path=str(CONFIGS / f"{name}.json"), tensor_parallel=8, device="cuda")
    wrong: list[str] = []
    runs: list[list[dict[str, Any]]] = []
    for number in (1, 2):
        out = folder / f"{name}-gemm-{number}.json"
        result = measure(gemm.KIND, Context(target=target), out, batch=[1, 16])
        if result is not None:
            runs.append(rows_of(gemm.KIND, result, Context(target=target), out))
            wrong += refusals(out.stem, runs[-1])
    wrong += moved(*runs) if len(runs) == 2 else [f"{name}: gemm did not run twice"]
    out = folder / f"{name}-attention.json"
    result = measure(attention.KIND, Context(target=target), out)
    wrong += refusals(out.stem, rows_of(attention.KIND, result, Context(target=target), out)) if result else [out.stem]
    if gpus >= 2:
        context = Context(target=msgspec.structs.replace(target, tensor_parallel=gpus))
        out = folder / f"{name}-collectives.json"
        result = measure(collectives.KIND, context, out, timeout_s=90.0)
        wrong += refusals(out.stem, rows_of(collectives.KIND, result, context, out)) if result else [out.stem]
    return wrong


def main() -> None:
    """Measure, print the verdict."""
    import torch

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    gpus = torch.cuda.device_count()
    wrong = [text for name in sys.argv[2:] or ["qwen3-30b-a3b", "kimi-k2.5"] for text in prove(name, folder, gpus)]
    for table in sorted(folder.glob("*.md")):
        print(f"== {table.name}\n{table.read_text()}")
    print("\n".join(f"WRONG {text}" for text in wrong) or "all held")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
