"""The same load by this client and by vLLM's own, in turn, until the band around their ratio is narrow."""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from campaign.load.bench import Bench
from campaign.load.endpoint import Endpoint
from campaign.load.export import vllm_result
from campaign.load.latency import percentile
from campaign.load.prompts import Texts
from campaign.load.workload import Load

#: Shorter than a block of the prefix cache, which therefore answers neither client.
LOAD = Load(requests=24, input_tokens=12, output_tokens=40, concurrency=4)
#: Done when the 95 % band around every ratio is this narrow (half its width), after so many pairs, or after so long.
HALF_BAND = 0.02
PAIRS, MOST_PAIRS, LONGEST_S = 6, 30, 420.0
#: What counts as agreement.
CLOSE = 0.05
NAMES = ("output_throughput", "mean_tpot_ms", "mean_itl_ms", "median_e2el_ms")

#: vLLM's client in a process that stays: it takes 7 s of CPU to start. A line in is one benchmark's arguments.
DRIVER = """
import json, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
for line in sys.stdin:
    main(parser.parse_args(json.loads(line)))
    print("\\nDONE", flush=True)
"""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One number by both clients."""

    name: str
    ours: float
    """Median over runs."""
    theirs: float
    """Median over runs."""
    ratio: float
    """Median of the pairs' ratios, ours / theirs."""
    low: float
    high: float
    """95 % bootstrap interval of that median."""
    pairs: int

    @property
    def is_close(self) -> bool:
        """Whether the whole band lies within 5 % of 1: a band too wide to say so is no agreement."""
        return self.low >= 1 - CLOSE and self.high <= 1 + CLOSE

    @property
    def half_band(self) -> float:
        """Half the width of the band."""
        return (self.high - self.low) / 2

    @property
    def text(self) -> str:
        """All of it in a line."""
        return (
            f"{self.name}: ours {self.ours:.4g}, vLLM's {self.theirs:.4g}, ratio {self.ratio:.4f} "
            f"[{self.low:.4f}, {self.high:.4f}] over {self.pairs} pairs"
        )


def band_of(ratios: Sequence[float], rounds: int = 4000) -> tuple[float, float]:
    """95 % bootstrap interval of the median of paired ratios (percentile method, of their logarithms)."""
    rng, logs = random.Random(1), [math.log(ratio) for ratio in ratios]
    medians = sorted(statistics.median(rng.choices(logs, k=len(logs))) for _ in range(rounds))
    return math.exp(percentile(medians, 2.5)), math.exp(percentile(medians, 97.5))


class VllmClient:
    """vLLM's own client."""

    def __init__(self, endpoint: Endpoint, model: str, tokenizer: Path, folder: Path) -> None:
        self._endpoint, self._model, self._tokenizer, self._folder = endpoint, model, tokenizer, folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "vllm-client.log").open("w"),
            text=True,
        )

    def run(self, prompts: Path) -> dict[str, Any]:
        """One benchmark of a file of prompts; returns its result file."""
        out = self._folder / "vllm-client.json"
        options = {
            "model": self._model,
            "tokenizer": self._tokenizer,
            "base-url": self._endpoint.url,
            "dataset-name": "custom",
            "dataset-path": prompts,
            "custom-output-len": LOAD.output_tokens,
            "num-prompts": LOAD.requests,
            "max-concurrency": LOAD.concurrency,
            "temperature": 0,
            "percentile-metrics": "ttft,tpot,itl,e2el",
            "result-filename": out,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        flags = ["--ignore-eos", "--save-result", "--disable-tqdm", "--skip-chat-template", "--disable-shuffle"]
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([*words, *flags]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.strip() == "DONE":
                found: dict[str, Any] = json.loads(out.read_text())
                return found
        raise AssertionError((self._folder / "vllm-client.log").read_text()[-3000:])

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def write_prompts(path: Path, seed: int) -> list[tuple[str, int | None]]:
    """Prompts of exactly as many tokens as characters: the tiny tokenizer joins no digits (# keeps them a text)."""
    rng = random.Random(seed)
    texts = ["#" + "".join(rng.choices("0123456789", k=LOAD.input_tokens - 1)) for _ in range(LOAD.requests)]
    path.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    return [(text, None) for text in texts]


def run_ours(endpoint: Endpoint, model: str, texts: list[tuple[str, int | None]]) -> dict[str, Any]:
    """One cell of ours in the form of vLLM's file."""
    bench = Bench(endpoint, model, lambda seed: Texts(seed, texts, "completions"), warm_up_rounds=0)
    outcome = bench.run_cell(LOAD)
    assert outcome.cell.failed == 0 and outcome.cell.server.tokens_match
    assert outcome.cell.input_tokens_achieved == LOAD.input_tokens
    return vllm_result(outcome.cell, outcome.records, model=model)


def compare_with_vllm(endpoint: Endpoint, model: str, tokenizer: Path, folder: Path) -> list[Comparison]:
    """Pairs of runs of the same prompts, each client first in turn, until every band is narrow or enough were made."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    client = VllmClient(endpoint, model, tokenizer, folder)
    try:
        write_prompts(folder / "prompts.jsonl", seed=-1)
        begin = time.monotonic()
        client.run(folder / "prompts.jsonl")  # it loads its tokenizer, the server its kernels
        while True:
            number = len(ours)
            path = folder / "prompts.jsonl"
            texts = write_prompts(path, seed=number)
            if number % 2:
                ours.append(run_ours(endpoint, model, texts))
            theirs.append(client.run(path))
            if not number % 2:
                ours.append(run_ours(endpoint, model, texts))
            assert theirs[-1]["completed"] == LOAD.requests
            assert theirs[-1]["total_output_tokens"] == ours[-1]["total_output_tokens"]
            found = [_comparison(name, ours, theirs) for name in NAMES]
            is_narrow = all(comparison.half_band <= HALF_BAND for comparison in found)
            is_enough = is_narrow or len(ours) >= MOST_PAIRS or time.monotonic() - begin > LONGEST_S
            print("; ".join(f"{name} {ours[-1][name]:.4g} | {theirs[-1][name]:.4g}" for name in NAMES), flush=True)
            if len(ours) >= PAIRS and is_enough:
                return found
    finally:
        client.stop()


def _comparison(name: str, ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> Comparison:
    mine, other = [float(run[name]) for run in ours], [float(run[name]) for run in theirs]
    ratios = [a / b for a, b in zip(mine, other, strict=True)]
    low, high = band_of(ratios)
    return Comparison(
        name=name,
        ours=statistics.median(mine),
        theirs=statistics.median(other),
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        pairs=len(ratios),
    )
