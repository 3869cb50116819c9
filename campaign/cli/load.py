"""`load URL`: macro cells against any OpenAI-compatible server, no campaign needed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

import click
import httpx
import msgspec

from campaign import files, schema
from campaign.cli.load_table import search_lines, table_of
from campaign.errors import InterruptedRun, LoadError, UsageError
from campaign.load import export, rawfile
from campaign.load.arrivals import Arrival, Process, read_trace
from campaign.load.bench import Bench
from campaign.load.cell import Cell, LoadReport
from campaign.load.endpoint import Api, Endpoint, endpoint_of
from campaign.load.plan import Limits
from campaign.load.prompts import Sampling
from campaign.load.scrape import Scraper
from campaign.load.search import Search
from campaign.load.slo import Slo
from campaign.load.sources import PromptChoice, choose_prompts
from campaign.load.summary import summarize
from campaign.load.workload import Load


def _numbers(text: str | None, kind: type[float] | type[int], name: str) -> list[Any]:
    if not text:
        return []
    try:
        values = [kind(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UsageError(f"{name} {text!r}: write numbers with commas between, e.g. 1,4,16.") from error
    if any(value <= 0 for value in values):
        raise UsageError(f"{name} {text!r}: write numbers above 0.")
    return values


@click.command()
@click.argument("url")
@click.option("--model", default="", help="Served model name; default: the first the server lists.")
@click.option("--concurrency", default=None, help="Requests at once, e.g. 1,4,16 (one cell each).")
@click.option("--rate", default=None, help="Requests a second, e.g. 2,8 (open loop, one cell each).")
@click.option("--requests", default=None, type=click.IntRange(1), help="Requests a cell [twice the concurrency, ≥ 8].")
@click.option("--input-tokens", default="128", show_default=True, help="Prompt lengths, e.g. 128,1024.")
@click.option("--output-tokens", default=64, show_default=True, type=click.IntRange(1), help="Output length.")
@click.option("--repeats", default=1, show_default=True, type=click.IntRange(1), help="Repeats of each cell.")
@click.option("--arrival", default="poisson", show_default=True, type=click.Choice(get_args(Process)))
@click.option("--burstiness", default=1.0, show_default=True, help="Shape of gamma arrivals; below 1 = bursts.")
@click.option("--rate-from", default=0.0, show_default=True, help="Rate at the start of a ramp.")
@click.option("--trace", type=click.Path(path_type=Path), help="Replay (time, input, output) lines.")
@click.option("--turns", default=1, show_default=True, type=click.IntRange(1), help="Turns of a session.")
@click.option("--think-s", default=0.0, show_default=True, help="Pause between turns, seconds.")
@click.option("--cancel", "cancel_share", default=0.0, show_default=True, help="Fraction whose client hangs up.")
@click.option("--cancel-after", default=8, show_default=True, type=click.IntRange(1), help="After so many reads.")
@click.option("--search", is_flag=True, help="Find the knee and the highest goodput over concurrency.")
@click.option("--prompts", default="auto", show_default=True, help="auto, text, random, or a JSONL file.")
@click.option("--shared-prefix", default=0.0, show_default=True, help="Fraction of each prompt that a group shares.")
@click.option("--prefix-groups", default=1, show_default=True, type=click.IntRange(1), help="Different prefixes.")
@click.option("--vocab-size", default=256, show_default=True, type=click.IntRange(2), help="Random ids lie below it.")
@click.option("--api", default="completions", show_default=True, type=click.Choice(get_args(Api)))
@click.option("--sampling", default='{"temperature": 0}', show_default=True, help="Further fields of the body, JSON.")
@click.option("--respect-eos", is_flag=True, help="Let answers end by themselves.")
@click.option("--plain", is_flag=True, help="Leave out vLLM's extensions (ignore_eos, usage with each chunk).")
@click.option("--api-key-env", default="", help="Environment variable that holds the API key.")
@click.option("--insecure", is_flag=True, help="Do not check the server's certificate.")
@click.option("--reader-stamps", is_flag=True, help="Take the reader's times instead of the kernel's.")
@click.option("--slo", default="", help="Limits for goodput, e.g. ttft_ms=500,tpot_ms=50.")
@click.option("--warm-up", default=5, show_default=True, type=click.IntRange(0), help="Most warm-up rounds; 0 = none.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1), help="Client processes.")
@click.option("--idle-timeout-s", default=120.0, show_default=True, help="A stream silent for so long has failed.")
@click.option("--deadline-s", default=3600.0, show_default=True, help="A cell ends after so long.")
@click.option("--max-failed", default=0.0, show_default=True, help="Fraction of requests that may fail (exit 0).")
@click.option("--seed", default=1, show_default=True, help="Seed of prompts and arrivals.")
@click.option("--raw", type=click.Path(path_type=Path), help="Append every request's raw times to this file.")
@click.option("--vllm-result", type=click.Path(path_type=Path), help="Append each cell in vllm bench serve's form.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def load(url: str, **given: Any) -> None:
    """Measure throughput and latency of the server at URL."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    endpoint = endpoint_of(
        url,
        api=cast(Api, given["api"]),
        api_key_env=given["api_key_env"],
        is_verified=not given["insecure"],
        has_kernel_stamps=not given["reader_stamps"],
    )
    model = given["model"] or first_model(endpoint)
    bench = _bench(endpoint, model, given)
    if given["search"]:
        _search(bench, given)
        return
    cells: list[Cell] = []
    try:
        cells.extend(_measure(bench, model, given))  # takes each cell as it ends: what came before stays
    except KeyboardInterrupt as error:
        _report(endpoint, tuple(cells), as_json=given["as_json"])
        raise InterruptedRun(f"Interrupted after {len(cells)} whole cells, which are printed.") from error
    _report(endpoint, tuple(cells), as_json=given["as_json"])
    _judge(tuple(cells), given["max_failed"])


def _report(endpoint: Endpoint, cells: tuple[Cell, ...], *, as_json: bool) -> None:
    scraper = Scraper(endpoint)
    capacity = scraper.read_kv_capacity()
    scraper.close()
    if as_json:
        report = LoadReport(cells=cells, summary=summarize(cells), kv_capacity_tokens=capacity)
        click.echo(schema.encode_pretty(report).decode(), nl=False)
        return
    click.echo("\n".join(table_of(cells)))
    if capacity is not None:
        click.echo(f"the server's KV cache holds {capacity:,} tokens")


def _bench(endpoint: Endpoint, model: str, given: dict[str, Any]) -> Bench:
    choice = PromptChoice(
        kind=given["prompts"],
        api=cast(Api, given["api"]),
        vocab_size=given["vocab_size"],
        shared_prefix=given["shared_prefix"],
        groups=given["prefix_groups"],
    )
    try:
        parameters = msgspec.json.decode(given["sampling"], type=dict[str, float | int | bool | str])
    except msgspec.MsgspecError as error:
        raise UsageError(f"--sampling {given['sampling']!r}: {error}. Write JSON like '{{\"top_p\": 0.9}}'.") from error
    sampling = Sampling(
        api=cast(Api, given["api"]),
        ignore_eos=not (given["respect_eos"] or given["plain"]),
        running_usage=not given["plain"],
        parameters=parameters,
    )
    return Bench(
        endpoint,
        model,
        choose_prompts(choice, endpoint, model),
        sampling=sampling,
        slo=slo_of(given["slo"]),
        limits=Limits(idle_timeout_s=given["idle_timeout_s"], deadline_s=given["deadline_s"]),
        processes=given["processes"],
        warm_up_rounds=given["warm_up"],
        seed=given["seed"],
        say=lambda text: click.echo(text, err=True),
    )


def slo_of(text: str) -> Slo:
    """`ttft_ms=500,tpot_ms=50` as limits; raises `UsageError` for anything else."""
    try:
        return (
            msgspec.convert(
                {name.strip(): float(value) for name, value in (part.split("=") for part in text.split(",") if part)},
                type=Slo,
            )
            if _are_known(text)
            else Slo()
        )
    except ValueError as error:
        raise UsageError(f"--slo {text!r}: write limits like ttft_ms=500,tpot_ms=50.") from error


def _are_known(text: str) -> bool:
    names = {part.split("=")[0].strip() for part in text.split(",") if part}
    strangers = names - set(Slo.__struct_fields__)
    if strangers:
        raise ValueError(f"{', '.join(sorted(strangers))} is no limit")
    return True


def first_model(endpoint: Endpoint) -> str:
    """The first model that /v1/models lists; raises `LoadError` where the server cannot be asked."""
    try:
        with httpx.Client(verify=endpoint.is_verified if endpoint.is_tls else False, timeout=10.0) as client:
            answer = client.get(endpoint.url + "/v1/models", headers=dict(endpoint.headers))
        return str(answer.json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError) as error:
        raise LoadError(
            f"{endpoint.url}/v1/models does not answer ({error}). Start the server, or give --model."
        ) from error


def loads_of(given: dict[str, Any]) -> list[Load]:
    """One load a cell of the grid."""
    slots, rates = _numbers(given["concurrency"], int, "--concurrency"), _numbers(given["rate"], float, "--rate")
    lengths = _numbers(given["input_tokens"], int, "--input-tokens")
    common = {name: given[name] for name in ("output_tokens", "turns", "think_s", "cancel_share")}
    common["cancel_after_reads"] = given["cancel_after"]
    if given["trace"]:
        trace = tuple(read_trace(given["trace"]))
        cap = slots[0] if slots else None
        return [Load(requests=len(trace), input_tokens=trace[0].input_tokens, trace=trace, concurrency=cap, **common)]
    arrival = Arrival(process=given["arrival"], burstiness=given["burstiness"], rate_from=given["rate_from"])
    if rates:
        cap = slots[0] if slots else None
        return [
            Load(
                requests=given["requests"] or max(16, round(10 * rate)),
                input_tokens=n,
                rate=rate,
                arrival=arrival,
                concurrency=cap,
                **common,
            )
            for n in lengths
            for rate in rates
        ]
    return [
        Load(requests=given["requests"] or max(2 * c, 8), input_tokens=n, concurrency=c, **common)
        for n in lengths
        for c in slots or [1]
    ]


def _measure(bench: Bench, model: str, given: dict[str, Any]) -> Iterator[Cell]:
    for repeat in range(1, given["repeats"] + 1):
        for one in loads_of(given):
            outcome = bench.run_cell(one, repeat)
            cell = outcome.cell
            if given["raw"]:
                key = f"i{one.input_tokens}-c{one.concurrency}-q{one.rate}-r{repeat}"
                rawfile.append(given["raw"], key, cell.seed, outcome.records)
            if given["vllm_result"]:
                line = schema.encode(
                    export.vllm_result(cell, outcome.records, model=model, burstiness=given["burstiness"])
                )
                files.append_line(given["vllm_result"], line)
            yield cell


def _search(bench: Bench, given: dict[str, Any]) -> None:
    length = _numbers(given["input_tokens"], int, "--input-tokens")[0]
    limits = _numbers(given["concurrency"], int, "--concurrency")
    result = Search(bench, input_tokens=length, output_tokens=given["output_tokens"]).run(limits[-1] if limits else 256)
    if given["as_json"]:
        click.echo(schema.encode_pretty(result).decode(), nl=False)
    else:
        click.echo("\n".join([*table_of(result.cells), "", *search_lines(result)]))


def _judge(cells: tuple[Cell, ...], max_failed: float) -> None:
    """Raise `LoadError` where more requests of a cell failed than may."""
    for cell in cells:
        total = cell.completed + cell.failed
        if cell.failed > max_failed * total:
            kinds = ", ".join(f"{n} × {error}" for error, n in cell.errors.items())
            raise LoadError(f"{cell.failed} of {total} requests failed ({kinds}). Look at the server's log.")
