"""Against a real vLLM: the client's tokens are the server's, cancellations cost little, vLLM's own client agrees."""

from __future__ import annotations

import fcntl
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from campaign.load.bench import Bench, Outcome
from campaign.load.endpoint import Endpoint, endpoint_of
from campaign.load.plan import Limits
from campaign.load.prompts import RandomIds, Sampling, TextIds
from campaign.load.scrape import Scraper
from campaign.load.sources import PromptChoice, choose_prompts
from campaign.load.summary import Asked
from campaign.load.workload import Load, plan_of
from campaign.server import ServerRecord, launch, make_tiny_model, stop, vllm_spec, wait_ready
from tests.load.truth import free_port

ARGS = ("--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len", "512", "--max-num-seqs", "16")
MODEL_FOLDER = "models/tiny"


class Served(msgspec.Struct, frozen=True):
    """A running vLLM."""

    folder: Path
    record: ServerRecord
    endpoint: Endpoint
    model: str


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One tiny vLLM for this module; only one real server at a time on a machine."""
    folder = tmp_path_factory.mktemp("vllm")
    make_tiny_model(folder / MODEL_FOLDER, "llama")
    spec = vllm_spec(
        MODEL_FOLDER, port=free_port(), campaign_dir=folder, args=(*ARGS, "--enforce-eager"), ready_timeout_s=600.0
    )
    with (Path(tempfile.gettempdir()) / "campaign-vllm-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record = launch(spec, folder / "server.log", lambda _record: None)
        try:
            record = wait_ready(record, spec, lambda _progress: None)
            endpoint = endpoint_of(f"http://{spec.host}:{spec.port}")
            yield Served(folder, record, endpoint, record.served_name)
        finally:
            stop(record, spec)


def bench_of(vllm: Served, **options: object) -> Bench:
    """A bench of random ids below the tiny model's vocabulary."""
    return Bench(vllm.endpoint, vllm.model, lambda seed: RandomIds(seed, 2, 1000), **options)  # type: ignore[arg-type]


def run_plain(
    vllm: Served, *, requests: int, output: int, concurrency: int, cancel_after: int | None = None
) -> Outcome:
    """A cell without a warm-up, its streams cancelled after so many reads where asked."""
    load = Load(requests=requests, input_tokens=24, output_tokens=output, concurrency=concurrency)
    source = RandomIds(f"{requests}/{cancel_after}", 2, 1000)
    plan = plan_of(load, source, Sampling(), model=vllm.model, seed="v", limits=Limits())
    if cancel_after is not None:
        cut = tuple(msgspec.structs.replace(r, cancel_after_reads=cancel_after) for r in plan.requests)
        plan = msgspec.structs.replace(plan, requests=cut)
    asked = Asked(concurrency=concurrency, input_tokens=24, output_tokens=output)
    return bench_of(vllm).run_prepared(plan, asked)


@pytest.mark.vllm
def test_vllm__tokens_are_the_servers_and_prompts_are_exact(vllm: Served) -> None:
    cell = bench_of(vllm).run_cell(Load(requests=48, input_tokens=40, output_tokens=16, concurrency=8)).cell
    assert (cell.completed, cell.failed) == (48, 0)
    assert cell.server.tokens_match is True
    assert cell.server.generation_tokens_delta == 48 * 16
    assert cell.server.prompt_tokens_delta == 48 * 40
    assert (cell.input_tokens_achieved, cell.output_tokens_achieved) == (40, 16)
    assert cell.itl_ms.n == 48 * 15
    assert cell.client.timestamps == "kernel"
    assert cell.server.prefill_tok_s is not None
    scraper = Scraper(vllm.endpoint)
    assert (scraper.read_kv_capacity() or 0) > 512
    scraper.close()


@pytest.mark.vllm
def test_vllm__text_prompts_have_exact_lengths(vllm: Served) -> None:
    make = choose_prompts(PromptChoice(), vllm.endpoint, vllm.model)
    assert isinstance(make("1"), TextIds)
    bench = Bench(vllm.endpoint, vllm.model, make)
    cell = bench.run_cell(Load(requests=8, input_tokens=100, output_tokens=4, concurrency=4)).cell
    assert (cell.prompts, cell.input_tokens_achieved, cell.failed) == ("text", 100, 0)


@pytest.mark.vllm
def test_vllm__chat_counts_alike(vllm: Served) -> None:
    endpoint = endpoint_of(vllm.endpoint.url, api="chat")
    bench = Bench(
        endpoint,
        vllm.model,
        choose_prompts(PromptChoice(api="chat"), endpoint, vllm.model),
        sampling=Sampling(api="chat"),
    )
    try:
        cell = bench.run_cell(Load(requests=8, input_tokens=20, output_tokens=8, concurrency=2)).cell
    except Exception as error:
        if "chat template" in str(error):  # the tiny tokenizer has none: the reason itself is what is checked
            assert "http 400" in str(error)
            return
        raise
    assert cell.server.tokens_match is True


@pytest.mark.vllm
def test_vllm__cancelled_streams_cost_the_server_little(vllm: Served) -> None:
    cell = run_plain(vllm, requests=32, output=200, concurrency=8, cancel_after=6).cell
    print(f"cancelled {cell.cancelled}, received {cell.tokens_received}, surplus {cell.server.surplus_tokens}")
    assert (cell.cancelled, cell.failed, cell.completed) == (32, 0, 0)
    surplus = cell.server.surplus_tokens
    assert surplus is not None
    assert 0 <= surplus <= 32 * 12
    assert cell.server.tokens_match is None


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__a_thousand_requests_agree_to_the_token(vllm: Served) -> None:
    cell = run_plain(vllm, requests=1000, output=12, concurrency=16).cell
    print(f"{cell.output_tok_s} tok/s, client {cell.client}, server {cell.server}")
    assert (cell.completed, cell.failed, cell.errors) == (1000, 0, {})
    assert cell.tokens_received == cell.server.generation_tokens_delta == 12_000
    assert cell.server.tokens_match is True


@pytest.mark.vllm
@pytest.mark.proof
def test_vllm__its_own_client_agrees(vllm: Served) -> None:
    load = Load(requests=40, input_tokens=32, output_tokens=32, concurrency=4)
    bench = bench_of(vllm)
    ours, theirs = [], []
    for repeat in range(1, 4):
        ours.append(bench.run_cell(load, repeat).cell)
        theirs.append(run_vllm_client(vllm, load, repeat))
    own = statistics.median(cell.tpot_ms.mean or 0 for cell in ours)
    other = statistics.median(float(result["mean_tpot_ms"]) for result in theirs)
    print("TPOT ms", [cell.tpot_ms.mean for cell in ours], [result["mean_tpot_ms"] for result in theirs])
    print("tok/s", [cell.output_tok_s for cell in ours], [result["output_throughput"] for result in theirs])
    noise = max(abs((cell.tpot_ms.mean or 0) - own) for cell in ours) + max(
        abs(float(result["mean_tpot_ms"]) - other) for result in theirs
    )
    assert abs(own - other) <= max(0.1 * own, noise)


def run_vllm_client(vllm: Served, load: Load, repeat: int) -> dict[str, float]:
    """The same load by `vllm bench serve`."""
    out = vllm.folder / f"bench-{repeat}.json"
    code = (
        "import sys\n"
        "from vllm.benchmarks.serve import add_cli_args, main\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parser = FlexibleArgumentParser()\nadd_cli_args(parser)\nmain(parser.parse_args(sys.argv[1:]))\n"
    )
    options = {
        "model": vllm.model,
        "tokenizer": str(vllm.folder / MODEL_FOLDER),
        "base-url": vllm.endpoint.url,
        "dataset-name": "random",
        "random-input-len": load.input_tokens,
        "random-output-len": load.output_tokens,
        "num-prompts": load.requests,
        "max-concurrency": load.concurrency,
        "seed": repeat,
        "result-filename": str(out),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [
        sys.executable,
        "-c",
        code,
        *words,
        "--ignore-eos",
        "--temperature",
        "0",
        "--save-result",
        "--disable-tqdm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, float] = json.loads(out.read_text())
    return found
