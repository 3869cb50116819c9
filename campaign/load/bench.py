"""Cells against a server: warm-up until two rounds agree, the run, the counters beside it, retries of invalid cells."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import msgspec

from campaign.errors import LoadError
from campaign.load import energy
from campaign.load.cell import Cell
from campaign.load.counters import watch_of
from campaign.load.endpoint import Endpoint
from campaign.load.fleet import run_plan
from campaign.load.plan import Limits, Plan
from campaign.load.prompts import Sampling
from campaign.load.record import Record
from campaign.load.scrape import Sampler, Scraper
from campaign.load.share import Share
from campaign.load.slo import Slo
from campaign.load.summary import Asked, cell_of
from campaign.load.workload import Load, PromptFactory, plan_of, seed_number, seed_text, warm_up_plan

WARM_UP_ROUNDS = 5
WARM_UP_AGREEMENT = 0.05


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished cell with the raw times behind it."""

    cell: Cell
    records: tuple[Record, ...]
    """Every request of the cell."""
    elapsed_s: float
    """How long it took, with the counters beside it."""


class Bench:
    """Runs cells of one model on one server with one way of asking."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        prompts: PromptFactory,
        *,
        sampling: Sampling | None = None,
        slo: Slo | None = None,
        limits: Limits | None = None,
        processes: int = 1,
        warm_up_rounds: int = WARM_UP_ROUNDS,
        seed: int = 1,
        scrape_interval_s: float = 1.0,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._prompts = prompts
        self._sampling = sampling or Sampling()
        self._slo = slo or Slo()
        self._limits = limits or Limits()
        self._processes = processes
        self._rounds = warm_up_rounds
        self._seed = seed
        self._interval_s = scrape_interval_s
        self._say = say
        self._warm: dict[tuple[int | None, int], tuple[str, ...]] = {}

    def run_cell(self, load: Load, repeat: int = 1) -> Outcome:
        """One repeat of a load, warmed up before; a cell that its client bound is run again with more processes.

        Raises `LoadError` where the server takes no request at all.
        """
        flags = self.warm_up(load)
        processes, attempt = self._processes, 1
        while True:
            outcome = self._run_once(load, repeat, attempt, processes, flags)
            more = min(2 * processes, len(os.sched_getaffinity(0)), load.concurrency or load.requests)
            if outcome.cell.client.valid or more <= processes:
                return outcome
            self._say(f"invalid: {outcome.cell.client.why}; again with {more} client processes")
            processes, attempt = more, attempt + 1

    def warm_up(self, load: Load) -> tuple[str, ...]:
        """Rounds at the load's own concurrency until two agree within 5 % (five at most), once a load.

        Returns the flags to put on its cells. Raises `LoadError` where every request of a round failed.
        """
        key = (load.concurrency, load.input_tokens)
        if key not in self._warm:
            self._warm[key] = self._warm_up_rounds(load)
        return self._warm[key]

    def _warm_up_rounds(self, load: Load) -> tuple[str, ...]:
        last: float | None = None
        for number in range(1, self._rounds + 1):
            seed = seed_text(self._seed, "warm-up", load.concurrency, load.input_tokens, number, os.getpid())
            plan = warm_up_plan(load, self._prompts(seed), self._sampling, model=self._model, limits=self._limits)
            pace = self._pace(run_plan(plan, self._endpoint), is_last_chance=number > 1 and last is None)
            if pace is None:
                continue
            if last is not None and abs(pace - last) <= WARM_UP_AGREEMENT * max(pace, last):
                self._say(f"warm after {number} rounds")
                return ()
            last = pace
        if not self._rounds:
            return ("no warm-up",)
        return (f"warm-up rounds still differed by over {WARM_UP_AGREEMENT:.0%} after {self._rounds}",)

    def _pace(self, shares: Sequence[Share], *, is_last_chance: bool) -> float | None:
        """Events a second of a round; null where all of it failed, which `is_last_chance` makes a `LoadError`."""
        records = [r for share in shares for r in share.records]
        done = [r for r in records if r.is_completed]
        if not done and not is_last_chance and not records[0].error.startswith("unreachable"):
            return None
        if not done:
            raise LoadError(
                f"{self._endpoint.url}: every warm-up request failed, the first with: {records[0].error}. "
                "Check the model's name, its context length and the server's log."
            )
        span_s = max(r.end_ns or 0 for r in done) / 1e9
        return sum(len(r.chunk_ns) for r in done) / span_s

    def _run_once(self, load: Load, repeat: int, attempt: int, processes: int, flags: Sequence[str]) -> Outcome:
        seed = seed_text(self._seed, load.concurrency, load.rate, load.input_tokens, repeat, attempt)
        prompts = self._prompts(seed)
        plan = plan_of(load, prompts, self._sampling, model=self._model, seed=seed, limits=self._limits)
        asked = Asked(
            repeat=repeat,
            concurrency=load.concurrency,
            rate=load.rate,
            input_tokens=None if load.trace else load.input_tokens,
            output_tokens=None if load.trace else load.output_tokens,
            ignore_eos=self._sampling.ignore_eos,
            prompts=prompts.label + (f", {load.turns} turns with the server's answers" if load.turns > 1 else ""),
            seed=seed_number(seed),
            slo=self._slo,
        )
        return self.run_prepared(plan, asked, processes=processes, flags=flags)

    def _joules(self) -> float | None:
        """The GPUs' energy so far; null for a server on another machine."""
        return energy.total_joules() if energy.is_here(self._endpoint) else None

    def run_prepared(self, plan: Plan, asked: Asked, *, processes: int = 1, flags: Sequence[str] = ()) -> Outcome:
        """Run a plan as it is, with the counters beside it."""
        begin, scraper = time.monotonic(), Scraper(self._endpoint)
        before, joules = scraper.read(), self._joules()
        sampler = Sampler(self._endpoint, self._interval_s) if before else None
        if sampler:
            sampler.start()
        try:
            shares = run_plan(plan, self._endpoint, processes)
        finally:
            if sampler:
                sampler.stop()
        used = energy.joules_between(joules, self._joules())
        records = tuple(sorted((r for s in shares for r in s.records), key=lambda r: r.index))
        after = scraper.read_settled(before, sum(r.output_tokens or 0 for r in records))
        scraper.close()
        watch = watch_of(before, after, sampler.texts if sampler else [])
        cell = cell_of(asked, shares, watch, joules=used, flags=flags)
        return Outcome(cell=cell, records=records, elapsed_s=time.monotonic() - begin)
