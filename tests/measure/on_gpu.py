"""The proof on GPUs: `python -m tests.measure.on_gpu FOLDER [PART or MODEL …]`.

Parts: `shapes` (each model's gemm at TP 8 twice, its attention once), `formats` (weight formats and the engine's
kernels for them, once each), `collectives` (each model's over the GPUs there are, two or more). No part = all that
can run here. What has a result in FOLDER is not measured again, and a measurement that was cut off goes on at its
next point. Results, logs and tables go to FOLDER, and all of them to FOLDER/all.tar.gz after each measurement.
Exit code 1 where a result was refused, wrong, or moved by more than 3 % between the two runs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import msgspec

from campaign import schema
from campaign.measure.reasons import NO_GRAPH
from campaign.phases import attention, collectives, gemm
from campaign.phases.gemm_data import GemmConfig
from campaign.phases.kind import Context, PhaseKind, Target
from campaign.phases.microbenchmark import REFUSED
from tests.measure import weight_formats as formats
from tests.measure.scripts import CONFIGS, ROOT, analyze, render

LIMIT = 0.03
#: One measurement; a GPU that hangs must not hold the machine.
MEASUREMENT_S = 240.0
#: All of them together; what does not fit is left out, or cut off at its last point.
TOTAL_S = float(os.environ.get("ON_GPU_TOTAL_S", "570"))
#: A measurement needs about this much to be worth its start.
LEAST_S = 45.0
PARTS = ("collectives", "shapes", "formats")
MODELS = ("qwen3-30b-a3b", "kimi-k2.5")
STARTED = time.monotonic()

#: name, model, ranks, quantization_config in place of its own, parameters of the gemm phase.
FORMATS: tuple[tuple[str, str, int, dict[str, Any] | None, dict[str, Any]], ...] = (
    ("fp8-block", "deepseek-v3", 8, None, {}),
    ("fp8-block-deepgemm", "deepseek-v3", 8, None, {"linear_backend": "deep_gemm", "moe_backend": "deep_gemm"}),
    ("fp8-block-cutlass", "deepseek-v3", 8, None, {"linear_backend": "cutlass", "moe_backend": "triton"}),
    ("fp8-block-marlin", "deepseek-v3", 8, None, {"linear_backend": "marlin", "moe_backend": "marlin"}),
    ("fp8-block-triton", "deepseek-v3", 8, None, {"linear_backend": "triton", "moe_backend": "triton"}),
    ("fp8-tensor", "qwen3-30b-a3b", 2, formats.FP8_TENSOR, {}),
    ("fp8-token", "qwen3-30b-a3b", 2, formats.FP8_TOKEN, {}),
    ("nvfp4-compressed", "qwen3-30b-a3b", 2, formats.NVFP4, {}),
    ("nvfp4-modelopt", "qwen3-30b-a3b", 2, formats.MODELOPT_NVFP4, {}),
    ("mxfp4", "gpt-oss-120b", 8, None, {}),
    ("mxfp4-marlin", "gpt-oss-120b", 8, None, {"moe_backend": "marlin"}),
    ("int4-g128", "qwen3-32b", 4, formats.INT4, {}),
)


def measure(kind: PhaseKind, context: Context, out: Path, **parameters: Any) -> schema.Result | None:
    """Run the script, log beside the result; None where it failed (the log says why)."""
    if not out.exists():
        if left_s() < LEAST_S:
            print(f"LEFT OUT {out.stem}: no time left; the same command goes on there", flush=True)
            return None
        config = kind.configure(msgspec.convert(parameters, kind.parameters), context)
        given = out.with_suffix(".in.json")
        given.write_bytes(schema.encode(config))
        module = [f"campaign.measure.{kind.name}", "--config", str(given), "--out", str(out)]
        # vLLM takes FP8 Marlin on a GPU that multiplies FP8 only when it is forced to.
        forced = {"VLLM_TEST_FORCE_FP8_MARLIN": "1"} if parameters.get("linear_backend") == "marlin" else {}
        code = run(module, out.with_suffix(".log"), forced)
        if code:
            print(f"FAILED {out.stem}: code {code}: {out.with_suffix('.log').read_text()[-600:]}", flush=True)
            pack(out.parent)
            return None
    return schema.decode(out.read_bytes(), schema.Result)


def left_s() -> float:
    """Seconds left of the whole."""
    return TOTAL_S - (time.monotonic() - STARTED)


def run(module: list[str], log: Path, more: dict[str, str]) -> int:
    """A script in a group of its own, ended as a whole when its time is over."""
    start = time.monotonic()
    command = [sys.executable, "-m", *module]
    with log.open("a") as sink:
        process = subprocess.Popen(command, cwd=ROOT, stdout=sink, stderr=sink, env=more | os.environ, process_group=0)
        try:
            code = process.wait(min(MEASUREMENT_S, left_s()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait(30)
    print(f"{log.stem}: {time.monotonic() - start:.0f} s, code {code}", flush=True)
    return code


def pack(folder: Path) -> None:
    """All that was written, as one small file."""
    made = folder / "all.tar.gz"
    with tarfile.open(made, "w:gz") as archive:
        for path in sorted(folder.iterdir()):
            if path != made:
                archive.add(path, arcname=path.name)


def rows_of(kind: PhaseKind, result: schema.Result, context: Context, out: Path) -> list[dict[str, Any]]:
    """Rows of the table, which is written beside the result."""
    analysis = analyze(kind, result, context)
    out.with_suffix(".md").write_text(render(kind, analysis))
    view = schema.builtins(analysis.view)
    rows = [*view.get("bursts", []), *view["rows"]]
    for row in rows:
        print("  " + brief(row), flush=True)
    pack(out.parent)
    return rows


def brief(row: dict[str, Any]) -> str:
    """One short line of a row, whichever kind it is of."""
    shown = ["kind", "m", "backend", "operation", "kernel", "calls", "size_bytes", "cold_us", "ms", "us", "graph_ms"]
    shown += ["graph_us", "kernel_us", "floor_fraction"]
    known = {key: row[key] for key in shown if row.get(key) is not None}
    parts = [f"{key}={value:.4g}" if isinstance(value, float) else str(value)[:60] for key, value in known.items()]
    return " ".join([*parts, str(row["note"])[:200]])


def refusals(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """Rows that were wrong, or that hold the launches too; kernels that do not load are no failure."""
    return [f"{name}: {brief(row)}" for row in rows if str(row["note"]).startswith(REFUSED) or NO_GRAPH in row["note"]]


def moved(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[str]:
    """Medians that two runs do not agree on."""
    found = []
    for one, two in zip(first, second, strict=True):
        if one["cold_us"] and two["cold_us"] and abs(one["cold_us"] / two["cold_us"] - 1) > LIMIT:
            found.append(f"{one['kind']} at M = {one['m']}: {one['cold_us']:.4g} and {two['cold_us']:.4g} µs")
    return found


def target_of(name: str, tp: int, config: Path | None = None) -> Target:
    """A model of our configs on GPUs."""
    path = config or CONFIGS / f"{name}.json"
    return Target(model=name, config_path=str(path), tensor_parallel=tp, device="cuda")


def prove_shapes(models: list[str], folder: Path) -> list[str]:
    """gemm twice and attention of each model; what is wrong."""
    wrong: list[str] = []
    for name in models:
        context, runs = Context(target=target_of(name, 8)), []
        for number in (1, 2):
            out = folder / f"{name}-gemm-{number}.json"
            result = measure(gemm.KIND, context, out, batch=[1, 16])
            if result is not None:
                runs.append(rows_of(gemm.KIND, result, context, out))
                wrong += refusals(out.stem, runs[-1])
        wrong += moved(*runs) if len(runs) == 2 else [f"{name}: gemm did not run twice"]
        out = folder / f"{name}-attention.json"
        result = measure(attention.KIND, context, out)
        wrong += refusals(out.stem, rows_of(attention.KIND, result, context, out)) if result else [out.stem]
    return wrong


def format_context(name: str, folder: Path) -> Context:
    """The target of an entry of `FORMATS`, its config.json written to the folder."""
    _, model, tp, quantization, _ = next(entry for entry in FORMATS if entry[0] == name)
    config = folder / f"{name}.config.json"
    content = json.loads((CONFIGS / f"{model}.json").read_text())
    config.write_text(json.dumps(content | ({"quantization_config": quantization} if quantization else {})))
    return Context(target=target_of(model, tp, config))


def prove_formats(folder: Path) -> list[str]:
    """Each weight format through the engine's kernels; what is wrong."""
    wrong: list[str] = []
    for name, _, _, _, parameters in FORMATS:
        context, out = format_context(name, folder), folder / f"{name}.json"
        configured = gemm.KIND.configure(gemm.GemmParameters(), context)
        assert isinstance(configured, GemmConfig)
        quantized = {linear.kind for linear in configured.linears if linear.dtype not in ("bf16", "fp32")}
        chosen = sorted(quantized - {"index_q", "qkv_a", "gate_up", "down"})
        result = measure(gemm.KIND, context, out, batch=[1, 16], samples=8, kinds=chosen, **parameters)
        wrong += refusals(out.stem, rows_of(gemm.KIND, result, context, out)) if result else [out.stem]
    return wrong


def prove_collectives(models: list[str], folder: Path, gpus: int) -> list[str]:
    """The collectives of each model over these GPUs, the first with the whole sweep; what is wrong."""
    wrong: list[str] = []
    for position, name in enumerate(models):
        context, out = Context(target=target_of(name, gpus)), folder / f"{name}-collectives.json"
        more: dict[str, Any] = {} if position == 0 else {"sizes_bytes": [], "operations": ["all_reduce"]}
        result = measure(collectives.KIND, context, out, timeout_s=45.0, **more)
        wrong += refusals(out.stem, rows_of(collectives.KIND, result, context, out)) if result else [out.stem]
    return wrong


def main() -> None:
    """Measure, print the verdict."""
    import torch

    folder, given = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    gpus = torch.cuda.device_count()
    models = [name for name in given if name not in PARTS] or list(MODELS)
    parts = [part for part in PARTS if part in given] or list(PARTS)
    wrong: list[str] = []
    if "collectives" in parts and gpus >= 2:
        wrong += prove_collectives(models, folder, gpus)
    if "shapes" in parts:
        wrong += prove_shapes(models, folder)
    if "formats" in parts:
        wrong += prove_formats(folder)
    print("\n".join(f"WRONG {text}" for text in wrong) or "all held")
    pack(folder)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
