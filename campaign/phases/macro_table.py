"""The macro section's rows: repeats of a load joined, with everything a reader compares systems by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from campaign.load.cell import Cell, CellSummary
from campaign.load.knee import knee_of
from campaign.load.latency import Distribution, Mean
from campaign.phases.macro_data import MacroConfig, MacroData

T = TypeVar("T")


class MacroRow(msgspec.Struct, frozen=True, kw_only=True):
    """One load of the grid."""

    input_tokens: int | None
    """Prompt length asked for."""
    output_tokens: int | None
    """Output length asked for."""
    concurrency: int | None
    """Slots asked for; null in an open loop."""
    rate: float | None
    """Requests a second asked for; null in a closed loop."""
    running_mean: float | None
    """Mean running requests on the server, as sampled."""
    running_max: float | None
    """Most running requests on the server, as sampled."""
    concurrency_achieved: Mean
    """Requests in flight, seen from the client."""
    rate_achieved: Mean
    """Completed requests a second."""
    output_tok_s: Mean
    """Output tokens a second."""
    tok_s_user: float | None
    """1000 / TPOT mean: the speed that one user sees, tok/s."""
    tok_s_gpu: float | None
    """Output tokens a second a device."""
    ttft_ms: Mean
    """Median TTFT over repeats."""
    ttft_p95_ms: float | None
    """Mean of the repeats' p95; null from too few samples."""
    itl_ms: Mean
    """Median ITL over repeats."""
    itl_p95_ms: float | None
    """Mean of the repeats' p95; null from too few samples."""
    chunk_gap_ms: float | None
    """Median time between events over repeats; with one token an event it is the ITL."""
    queue_ms: float | None
    """From intended to actual send, median over repeats; open loop only."""
    ttft_due_ms: float | None
    """TTFT from the intended send, median over repeats; open loop only."""
    e2el_due_ms: float | None
    """E2EL from the intended send, median over repeats; open loop only."""
    tpot_ms: Mean
    """Mean TPOT over repeats."""
    e2el_ms: Mean
    """Median E2EL over repeats."""
    goodput_req_s: Mean
    """Requests a second that met every stated limit."""
    goodput_share: float | None
    """Fraction of requests that met them."""
    input_achieved: float | None
    """Mean prompt length by the server's count."""
    output_achieved: float | None
    """Mean output length by the server's count."""
    cache_hit_rate: float | None
    """Prefix cache hits / queries."""
    acceptance_length: float | None
    """Tokens a step with speculation; null without."""
    acceptance_by_position: tuple[float, ...]
    """How often the draft's token at each position was accepted; empty without speculation."""
    prefill_tok_s: float | None
    """Prompt tokens a second of prefill, by the server's counters."""
    joules_per_token: float | None
    """GPU energy a token; null where nobody counts it."""
    failed: int
    """Failed requests over all repeats."""
    requests: int
    """Requests over all repeats."""
    repeats: int
    """Repeats averaged."""
    repeats_invalid: int
    """Repeats left out."""
    capacity_limited: bool
    """The server could not hold the asked concurrency."""
    lag_ms_p99: float | None
    """Largest p99 of the client's lag."""
    client_busy: float | None
    """Largest share of a core that a client process used."""
    notes: tuple[str, ...]
    """Flags and reasons of invalid repeats."""

    @property
    def is_headline(self) -> bool:
        """Whether the row may stand in the summary."""
        return self.repeats > 0 and not self.capacity_limited


class MacroView(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of macro.md.j2."""

    rows: tuple[MacroRow, ...]
    """One a load, in the order of the grid."""
    devices: int
    """Devices the throughput is divided by for the per-device column."""
    device_word: str
    """GPU or rank."""
    is_cpu: bool
    """The server ran on CPUs."""
    prompts: str
    """What prompts were made of."""
    ignore_eos: bool
    """Whether answers went on to the asked length."""
    slo: tuple[str, ...]
    """Stated limits as text; empty = none."""
    kv_capacity_tokens: int | None
    """Tokens the KV cache holds."""
    client_tokens: int
    """Tokens the client received in all cells with a server counter."""
    server_tokens: int | None
    """What the server's counter says of them."""
    best: MacroRow | None
    """The row of the highest throughput that is no capacity-limited or invalid one."""
    single: MacroRow | None
    """The row of one request at a time."""
    knee: MacroRow | None
    """Row from which on no step of concurrency gained half as much throughput as it asked for."""
    timestamps: str
    """kernel or reader."""
    raw_file: str
    """File with every request's raw times."""
    has_invalid: bool
    """Some repeat was left out."""
    is_random: bool
    """Some prompts were random token ids."""


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _max(values: Iterable[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def rows_of(data: MacroData, devices: int) -> tuple[MacroRow, ...]:
    """One row for each summary."""
    return tuple(_row(summary, _cells_of(summary, data.cells), devices) for summary in data.summary)


def _cells_of(summary: CellSummary, cells: Sequence[Cell]) -> list[Cell]:
    def key(x: Cell | CellSummary) -> tuple[object, ...]:
        return x.concurrency_asked, x.rate_asked, x.input_tokens_asked, x.output_tokens_asked

    return [cell for cell in cells if key(cell) == key(summary)]


def _row(summary: CellSummary, cells: Sequence[Cell], devices: int) -> MacroRow:
    valid = [cell for cell in cells if cell.is_averaged]

    def mean(value: Callable[[Cell], float | None]) -> float | None:
        return _mean(map(value, valid))

    def p95(of: Callable[[Cell], Distribution]) -> float | None:
        return _mean(of(cell).p95 for cell in valid)

    tpot, tok_s = summary.tpot_ms.mean, summary.output_tok_s.mean
    return MacroRow(
        input_tokens=summary.input_tokens_asked,
        output_tokens=summary.output_tokens_asked,
        concurrency=summary.concurrency_asked,
        rate=summary.rate_asked,
        running_mean=mean(lambda c: c.server.running_mean),
        running_max=_max(c.server.running_max for c in valid),
        concurrency_achieved=summary.concurrency_achieved,
        rate_achieved=summary.rate_achieved,
        output_tok_s=summary.output_tok_s,
        tok_s_user=1000 / tpot if tpot else None,
        tok_s_gpu=tok_s / devices if tok_s is not None else None,
        ttft_ms=summary.ttft_ms,
        ttft_p95_ms=p95(lambda c: c.ttft_ms),
        itl_ms=summary.itl_ms,
        itl_p95_ms=p95(lambda c: c.itl_ms),
        chunk_gap_ms=mean(lambda c: c.chunk_gap_ms.p50),
        queue_ms=mean(lambda c: c.queue_ms.p50),
        ttft_due_ms=mean(lambda c: c.ttft_due_ms.p50),
        e2el_due_ms=mean(lambda c: c.e2el_due_ms.p50),
        tpot_ms=summary.tpot_ms,
        e2el_ms=summary.e2el_ms,
        goodput_req_s=summary.goodput_req_s,
        goodput_share=mean(lambda c: c.goodput.share if c.goodput else None),
        input_achieved=mean(lambda c: c.input_tokens_achieved),
        output_achieved=mean(lambda c: c.output_tokens_achieved),
        cache_hit_rate=mean(lambda c: c.server.cache_hit_rate),
        acceptance_length=mean(lambda c: c.server.acceptance_length),
        acceptance_by_position=_by_position(valid),
        prefill_tok_s=mean(lambda c: c.server.prefill_tok_s),
        joules_per_token=mean(lambda c: c.joules_per_token),
        failed=sum(c.failed for c in cells),
        requests=sum(c.completed + c.failed + c.cancelled for c in cells),
        repeats=summary.repeats,
        repeats_invalid=summary.repeats_invalid,
        capacity_limited=summary.capacity_limited,
        lag_ms_p99=_max(c.client.lag_ms_p99 for c in cells),
        client_busy=_max(c.client.busy for c in cells),
        notes=_notes(cells),
    )


def _by_position(cells: Sequence[Cell]) -> tuple[float, ...]:
    """Means over the cells with speculation, as far as all of them go."""
    known = [cell.server.acceptance_by_position for cell in cells if cell.server.acceptance_by_position]
    return tuple(sum(values) / len(values) for values in zip(*known, strict=False))


def _notes(cells: Sequence[Cell]) -> tuple[str, ...]:
    notes = [note for cell in cells for note in cell.flags]
    notes += [f"repeat {c.repeat} left out: {c.client.why}" for c in cells if not c.client.valid]
    notes += [f"repeat {c.repeat}: {n} × {error}" for c in cells for error, n in c.errors.items()]
    return tuple(dict.fromkeys(notes))


def _knee(rows: Sequence[MacroRow]) -> MacroRow | None:
    """The row of the knee among the headlines of the smallest prompt length, closed loop."""
    closed = [row for row in rows if row.concurrency and row.is_headline and row.output_tok_s.mean]
    shortest = min((row.input_tokens or 0 for row in closed), default=0)
    ladder = sorted((r for r in closed if (r.input_tokens or 0) == shortest), key=lambda r: r.concurrency or 0)
    knee = knee_of([(row.concurrency or 0, row.output_tok_s.mean or 0.0) for row in ladder])
    return next((row for row in ladder if row.concurrency == knee), None)


def view_of(config: MacroConfig, data: MacroData, *, devices: int, is_cpu: bool) -> MacroView:
    """The template's variables."""
    rows = rows_of(data, devices)
    counted = [c for c in data.cells if c.server.generation_tokens_delta is not None]
    headlines = [r for r in rows if r.is_headline and r.output_tok_s.mean is not None]
    slo = config.slo
    limits = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2EL", slo.e2el_ms))
    return MacroView(
        rows=rows,
        devices=devices,
        device_word="rank" if is_cpu else "GPU",
        is_cpu=is_cpu,
        prompts=", ".join(dict.fromkeys(c.prompts for c in data.cells)),
        ignore_eos=config.ignore_eos,
        slo=tuple(f"{name} ≤ {limit:g} ms" for name, limit in limits if limit is not None),
        kv_capacity_tokens=data.kv_capacity_tokens,
        client_tokens=sum(c.tokens_received for c in counted),
        server_tokens=sum(c.server.generation_tokens_delta or 0 for c in counted) if counted else None,
        best=max(headlines, key=lambda r: r.output_tok_s.mean or 0, default=None),
        single=next((r for r in headlines if r.concurrency == 1), None),
        knee=_knee(rows),
        timestamps=", ".join(dict.fromkeys(c.client.timestamps for c in data.cells)),
        raw_file=data.raw_file,
        has_invalid=any(r.repeats_invalid for r in rows),
        is_random=any(c.prompts.split(",")[0].endswith("random") for c in data.cells),
    )
