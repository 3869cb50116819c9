"""This client and vLLM's own on one server at the same time: they see the same steps, so that they must agree.

Measured one after the other they would differ by what the machine did meanwhile, which on a shared one is anything.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from campaign.load.endpoint import Endpoint
from campaign.load.export import vllm_result
from campaign.load.latency import percentile
from campaign.load.plan import Limits
from campaign.load.prompts import Sampling, Texts
from campaign.load.share import Task, run_share
from campaign.load.summary import Asked, cell_of
from campaign.load.workload import Load, plan_of

#: What both clients send, at the same moment: so many streams of one length each, which go through the same steps of
#: the server from first to last. With shorter ones, or with others after them, each client also sees steps that the
#: other one doesn't (a step is shorter while the other's stream makes room for its next), and no client is to blame.
#: Prompts are shorter than a block of the prefix cache, which answers nobody.
LOAD = Load(requests=2, input_tokens=12, output_tokens=300, concurrency=2)
#: From vLLM's client being told to its first request; this client waits as long.
HEAD_START_NS = 20_000_000
#: They ran together for so much of the time, or they saw other steps and the round is made again.
TOGETHER = 0.9
#: Done when the 95 % band around every ratio is this narrow (half its width), after so many rounds, or after so long.
HALF_BAND = 0.01
ROUNDS, MOST_ROUNDS, LONGEST_S = 12, 60, 400.0
#: What counts as agreement.
CLOSE = 0.02

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
    """Median of the rounds' ratios, ours / theirs."""
    low: float
    high: float
    """95 % bootstrap interval of that median."""
    rounds: int

    @property
    def is_close(self) -> bool:
        """Whether the whole band lies within 2 % of 1: a band too wide to say so is no agreement."""
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
            f"[{self.low:.4f}, {self.high:.4f}] over {self.rounds} rounds"
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
        flags = [
            "--ignore-eos",
            "--save-result",
            "--disable-tqdm",
            "--skip-chat-template",
            "--disable-shuffle",
            "--save-detailed",
        ]
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


class Seen(msgspec.Struct, frozen=True):
    """One client's requests of a round; the window is that in which both clients ran."""

    itl_ms: float
    """Mean over the intervals that ended within the window."""
    tpot_ms: float
    """Mean over the requests."""
    tok_s: float
    """Tokens that arrived within the window / window, those of a request spread evenly over its time."""


Window = tuple[float, float]


def seen_in(result: dict[str, Any], window: Window) -> Seen:
    """What a client's detailed result file says of a window: both clients' files are read alike."""
    low, high = window
    tpots, intervals = [], []
    tokens = 0.0
    rows = zip(result["start_times"], result["ttfts"], result["itls"], result["output_lens"], strict=True)
    for start, ttft, itls, length in rows:
        arrivals = list(itertools.accumulate(itls, initial=start + ttft))
        first, last = arrivals[0], arrivals[-1]
        tokens += length * max(0.0, min(last, high) - max(first, low)) / (last - first)
        intervals += [itl for itl, at in zip(itls, arrivals[1:], strict=True) if low <= at <= high]
        tpots.append((last - first) / (length - 1))
    return Seen(
        itl_ms=1e3 * statistics.fmean(intervals), tpot_ms=1e3 * statistics.fmean(tpots), tok_s=tokens / (high - low)
    )


def window_of(result: dict[str, Any]) -> Window:
    """From the first send to the last token."""
    ends = [a + b + sum(c) for a, b, c in zip(result["start_times"], result["ttfts"], result["itls"], strict=True)]
    return min(result["start_times"]), max(ends)


def overlap_of(one: Window, other: Window) -> Window | None:
    """Where both ran; null where that is not nearly all of the time, since one client began late."""
    low, high = max(one[0], other[0]), min(one[1], other[1])
    whole = max(one[1], other[1]) - min(one[0], other[0])
    return (low, high) if high - low > TOGETHER * whole else None


class OurRun(threading.Thread):
    """This client beside the other one."""

    def __init__(self, endpoint: Endpoint, model: str, texts: list[tuple[str, int | None]]) -> None:
        super().__init__()
        prompts = Texts("ours", texts, "completions")
        self._plan = plan_of(LOAD, prompts, Sampling(), model=model, seed="", limits=Limits())
        self._endpoint, self._model = endpoint, model
        self.result: dict[str, Any] = {}

    def run(self) -> None:
        """Run the plan; its times become those of the monotonic clock, as vLLM's are."""
        start_ns = time.time_ns() + HEAD_START_NS
        start_s = time.perf_counter() + (start_ns - time.time_ns()) / 1e9
        share = run_share(Task(plan=self._plan, endpoint=self._endpoint), start_ns)
        cell = cell_of(Asked(concurrency=LOAD.concurrency), [share], None)
        assert (cell.completed, cell.failed) == (LOAD.requests, 0)
        self.result = vllm_result(cell, share.records, model=self._model)
        self.result["start_times"] = [start_s + time_s for time_s in self.result["start_times"]]


def compare_with_vllm(endpoint: Endpoint, model: str, tokenizer: Path, folder: Path) -> list[Comparison]:
    """Rounds of both clients side by side until every band is narrow, or enough were made (none found: too few)."""
    rounds: list[tuple[Seen, Seen]] = []
    found: list[Comparison] = []
    client, path, begin = VllmClient(endpoint, model, tokenizer, folder), folder / "prompts.jsonl", time.monotonic()
    try:
        write_prompts(path, seed=-1)
        client.run(path)  # it loads its tokenizer, the server its kernels
        for attempt in range(MOST_ROUNDS):
            ours = OurRun(endpoint, model, write_prompts(path, seed=attempt))
            ours.start()
            theirs = client.run(path)
            ours.join()
            assert theirs["completed"] == LOAD.requests
            if (window := overlap_of(window_of(theirs), window_of(ours.result))) is None:
                continue
            rounds.append((seen_in(ours.result, window), seen_in(theirs, window)))
            print(*rounds[-1], sep=" | ", flush=True)
            if len(rounds) >= ROUNDS:
                found = [_comparison(name, rounds) for name in Seen.__struct_fields__]
                if all(comparison.half_band <= HALF_BAND for comparison in found):
                    break
            if time.monotonic() - begin > LONGEST_S:
                break
    finally:
        client.stop()
    return found


def _comparison(name: str, rounds: Sequence[tuple[Seen, Seen]]) -> Comparison:
    pairs = [(float(getattr(ours, name)), float(getattr(theirs, name))) for ours, theirs in rounds]
    ratios = [ours / theirs for ours, theirs in pairs]
    low, high = band_of(ratios)
    return Comparison(
        name=name,
        ours=statistics.median(ours for ours, _ in pairs),
        theirs=statistics.median(theirs for _, theirs in pairs),
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        rounds=len(rounds),
    )
