"""Measures throughput and latency over a grid of loads: `python -m campaign.measure.macro --config IN --out OUT`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from campaign import host
from campaign.errors import LoadError
from campaign.load import rawfile
from campaign.load.bench import Bench
from campaign.load.cell import Cell
from campaign.load.endpoint import Endpoint, endpoint_of
from campaign.load.prompts import Sampling
from campaign.load.scrape import Scraper
from campaign.load.sources import PromptChoice, choose_prompts
from campaign.load.summary import summarize
from campaign.measurement import Measurement, now_utc, run_script
from campaign.phases.macro import KIND
from campaign.phases.macro_data import MacroConfig, MacroData, MacroPoint, points_of
from campaign.schema import decode


def main(argv: Sequence[str]) -> None:
    """Measure what is not measured yet, then write the result; raises `LoadError` where too many requests failed."""
    run = Measurement("macro", KIND.script_version, MacroConfig, argv)
    config = run.config
    endpoint = endpoint_of(config.server.url, api=config.api or "completions", api_key_env=config.server.api_key_env)
    wanted = points_of(config)
    failures: list[str] = []
    if not all(run.is_done(point.key) for point in wanted):
        bench = make_bench(config, endpoint, run)
        for point in wanted:
            if not run.is_done(point.key):
                failures += measure(run, bench, point)
    write_result(run, endpoint, {point.key for point in wanted})
    if failures:
        raise LoadError(f"{'; '.join(failures)}. The other cells are kept; look at the server's log and run again.")


def make_bench(config: MacroConfig, endpoint: Endpoint, run: Measurement[MacroConfig]) -> Bench:
    """The bench of this config, with the prompts it asks for."""
    api = config.api or "completions"
    choice = PromptChoice(
        kind=config.prompts, api=api, vocab_size=config.vocab_size, shared_prefix=config.shared_prefix
    )
    sampling = Sampling(api=api, ignore_eos=config.ignore_eos)
    if config.sampling is not UNSET:
        sampling = msgspec.structs.replace(sampling, parameters=config.sampling)
    return Bench(
        endpoint,
        config.server.model,
        choose_prompts(choice, endpoint, config.server.model),
        sampling=sampling,
        slo=config.slo,
        limits=config.limits,
        processes=config.processes,
        seed=config.seed,
        say=run.say,
    )


def measure(run: Measurement[MacroConfig], bench: Bench, point: MacroPoint) -> list[str]:
    """Run one cell; it is kept as done unless too many of its requests failed (then returns what to say)."""
    started_at = now_utc()
    run.say(f"{point.key} …")
    outcome = bench.run_cell(point.load, point.repeat)
    cell = outcome.cell
    rawfile.append(rawfile.path_beside(run.out), point.key, cell.seed, outcome.records)
    asked = cell.completed + cell.failed
    if cell.failed > run.config.max_failed * asked:
        return [f"{point.key}: {cell.failed} of {asked} requests failed ({', '.join(cell.errors)})"]
    run.keep_point(point.key, cell, started_at=started_at, duration_s=outcome.elapsed_s)
    return []


def write_result(run: Measurement[MacroConfig], endpoint: Endpoint, wanted: set[str]) -> None:
    """The result file from every point done."""
    cells = tuple(decode(point.data, Cell) for point in run.points() if point.key in wanted)
    scraper = Scraper(endpoint)
    data = MacroData(
        cells=cells,
        summary=summarize(cells),
        kv_capacity_tokens=scraper.read_kv_capacity(),
        raw_file=Path(rawfile.path_beside(run.out)).name,
    )
    scraper.close()
    run.write(data, host=host.read_host(run.config.device), versions=host.read_versions())


if __name__ == "__main__":
    run_script(main)
