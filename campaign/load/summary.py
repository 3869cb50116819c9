"""Records and counters of one run → a cell; repeats of a cell → its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from campaign.load import latency
from campaign.load.cell import Cell, CellSummary, Client, Goodput, Server
from campaign.load.counters import Watch
from campaign.load.latency import Distribution, Mean, Window
from campaign.load.record import Record
from campaign.load.share import Share
from campaign.load.slo import Slo

#: A client process above this share of a core had no time left to read.
BUSY_LIMIT = 0.9
#: With reader stamps: the lag p99 may be so large a part of the median ITL.
LAG_LIMIT = 0.1
#: A late reader finds several events in one read, which then share the last one's stamp: above this it is said.
SHARED_READS_LIMIT = 0.05
CLOCK_STEP_LIMIT_MS = 1.0


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell was asked to be; copied into it beside what it was."""

    repeat: int = 1
    concurrency: int | None = None
    rate: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    ignore_eos: bool = True
    prompts: str = "random"
    seed: int = 0
    slo: Slo = Slo()


def cell_of(
    asked: Asked,
    shares: Sequence[Share],
    watch: Watch | None,
    *,
    joules: float | None = None,
    flags: Sequence[str] = (),
) -> Cell:
    """Everything that is said about one run."""
    records = sorted((r for share in shares for r in share.records), key=lambda r: r.index)
    done = [r for r in records if r.is_completed]
    window = latency.steady_window(records, asked.concurrency)
    tokens = sum(map(latency.received_tokens, records))
    duration_s = _duration_s(records)
    in_window = latency.tokens_between(records, window) if window else None
    itl, gaps = _itl_ms(done), _ms(gap for r in done for gap in latency.chunk_gaps_ns(r))
    client = _client(shares, records, tokens, itl if itl.n else gaps)
    server = _server(watch, records, tokens)
    is_limited = _is_capacity_limited(asked, watch, server)
    return Cell(
        repeat=asked.repeat,
        concurrency_asked=asked.concurrency,
        concurrency_achieved=latency.mean_concurrency(records, window) if window else None,
        concurrency_peak=latency.peak_concurrency(records),
        rate_asked=asked.rate,
        rate_achieved=len(done) / duration_s if duration_s else None,
        input_tokens_asked=asked.input_tokens,
        input_tokens_achieved=_mean(r.input_tokens for r in records),
        output_tokens_asked=asked.output_tokens,
        output_tokens_achieved=_mean(r.output_tokens for r in done),
        ignore_eos=asked.ignore_eos,
        prompts=asked.prompts,
        seed=asked.seed,
        completed=len(done),
        failed=sum(bool(r.error) for r in records),
        cancelled=sum(r.is_cancelled for r in records),
        errors=dict(Counter(_error_class(r.error) for r in records if r.error)),
        duration_s=duration_s,
        window_s=window.duration_s if window else None,
        tokens_received=tokens,
        output_tok_s=in_window / window.duration_s if in_window is not None and window and window.duration_s else None,
        output_tok_s_peak=latency.peak_tokens_per_s(records),
        ttft_ms=_ms(latency.ttft_ns(r) for r in done),
        itl_ms=itl,
        chunk_gap_ms=gaps,
        tpot_ms=_ms(latency.tpot_ns(r) for r in done),
        e2el_ms=_ms(latency.e2el_ns(r) for r in done),
        queue_ms=_ms(latency.queue_ns(r) for r in records),
        ttft_due_ms=_ms(latency.ttft_ns(r, from_due=True) for r in done if r.due_ns is not None),
        e2el_due_ms=_ms(latency.e2el_ns(r, from_due=True) for r in done if r.due_ns is not None),
        goodput=_goodput(asked.slo, records, duration_s),
        joules_per_token=joules / tokens if joules is not None and tokens else None,
        capacity_limited=is_limited,
        client=client,
        server=server,
        flags=(*flags, *_flags(asked, records, server, window, is_limited=is_limited)),
    )


def _ms(values_ns: Iterable[float | None]) -> Distribution:
    return latency.distribution(value / 1e6 for value in values_ns if value is not None)


def _itl_ms(records: Sequence[Record]) -> Distribution:
    samples: list[float] = []
    for record in records:
        found = latency.itls_ns(record)
        if found is None:
            return Distribution()
        samples += found
    return _ms(samples)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _duration_s(records: Sequence[Record]) -> float:
    sent = [r.sent_ns for r in records if r.sent_ns is not None]
    ends = [r.end_ns for r in records if r.end_ns is not None]
    return (max(ends) - min(sent)) / 1e9 if sent and ends else 0.0


def _error_class(error: str) -> str:
    """`http 500`, `in-band error`, `cut` …: the part before the colon."""
    return error.split(":", 1)[0]


def _client(shares: Sequence[Share], records: Sequence[Record], tokens: int, pace: Distribution) -> Client:
    lags = sorted(lag / 1e6 for share in shares for lag in share.lags_ns)
    stamps = "reader" if any(share.stamps == "reader" for share in shares) else "kernel"
    busy = max(share.busy for share in shares)
    lag = latency.percentile(lags, 99) if lags else None
    events = sum(len(r.chunk_ns) for r in records)
    shared = sum(r.shared_reads for r in records) / events if events else 0.0
    is_late = lag is not None and pace.p50 is not None and lag > LAG_LIMIT * pace.p50
    why = []
    if busy > BUSY_LIMIT:
        why.append(f"a client process used {busy:.0%} of a core")
    if stamps == "reader" and is_late:
        why.append(f"reader stamps lag {lag:.2f} ms behind at an ITL of {pace.p50:.2f} ms")
    step_ms = max((abs(share.clock_step_ns) for share in shares), default=0) / 1e6
    if step_ms > CLOCK_STEP_LIMIT_MS:
        why.append(f"the wall clock was set by {step_ms:.1f} ms meanwhile")
    return Client(
        cpu_us_per_token=sum(share.cpu_s for share in shares) * 1e6 / tokens if tokens else None,
        lag_ms_p99=lag,
        busy=busy,
        processes=len(shares),
        has_priority=all(share.has_priority for share in shares),
        timestamps=stamps,
        missing_stamps=sum(share.missing_stamps for share in shares) / len(lags) if lags else 0.0,
        shared_reads=shared,
        valid=not why,
        why="; ".join(why),
    )


def _server(watch: Watch | None, records: Sequence[Record], tokens: int) -> Server:
    if watch is None:
        return Server()
    generated, prompt = watch.delta("generation_tokens_total"), watch.delta("prompt_tokens_total")
    surplus = None if generated is None else round(generated) - tokens
    cut = sum(not r.is_completed for r in records)
    is_clean = all(r.is_completed and r.output_tokens is not None for r in records)
    prefill_s, drafts = watch.delta("request_prefill_time_seconds_sum"), watch.delta("spec_decode_num_drafts_total")
    accepted, preempted = watch.delta("spec_decode_num_accepted_tokens_total"), watch.delta("num_preemptions_total")
    queries, hits = watch.delta("prefix_cache_queries_total"), watch.delta("prefix_cache_hits_total")
    return Server(
        generation_tokens_delta=None if generated is None else round(generated),
        prompt_tokens_delta=None if prompt is None else round(prompt),
        cache_hit_rate=hits / queries if queries and hits is not None else None,
        surplus_tokens=surplus,
        surplus_per_cut=surplus / cut if surplus is not None and cut else None,
        tokens_match=surplus == 0 if surplus is not None and is_clean else None,
        running_mean=_mean(watch.running),
        running_max=max(watch.running, default=None),
        waiting_max=max(watch.waiting, default=None),
        kv_usage_max=max(watch.kv_usage, default=None),
        preemptions=None if preempted is None else round(preempted),
        prefill_tok_s=prompt / prefill_s if prompt and prefill_s else None,
        acceptance_length=1 + accepted / drafts if drafts and accepted is not None else None,
        acceptance_by_position=tuple(a / drafts for a in watch.accepted_per_position) if drafts else (),
    )


def _is_capacity_limited(asked: Asked, watch: Watch | None, server: Server) -> bool:
    """Preempted, or requests waited through most of the samples while fewer ran than were asked for."""
    if watch is None:
        return False
    if server.preemptions:
        return True
    waited = sum(w > 0 for w in watch.waiting)
    is_short = asked.concurrency is None or (server.running_max or 0) < asked.concurrency
    return len(watch.waiting) >= 2 and waited > len(watch.waiting) / 2 and is_short


def _goodput(slo: Slo, records: Sequence[Record], duration_s: float) -> Goodput | None:
    if not slo.is_stated or not duration_s:
        return None
    good = [r for r in records if slo.is_met(r)]
    return Goodput(
        req_s=len(good) / duration_s,
        tok_s=sum(map(latency.received_tokens, good)) / duration_s,
        share=len(good) / len(records),
    )


def _flags(
    asked: Asked, records: Sequence[Record], server: Server, window: Window | None, *, is_limited: bool
) -> list[str]:
    flags = []
    if server.tokens_match is False:
        flags.append(f"client and server disagree on tokens by {server.surplus_tokens}")
    cut = sum(not r.is_completed for r in records)
    if (
        server.surplus_tokens is not None
        and cut
        and (server.surplus_tokens > 0 or any(r.is_cancelled for r in records))
    ):
        each = f"{server.surplus_tokens / cut:.3g} each"
        flags.append(f"{cut} streams cut: the server computed {server.surplus_tokens} tokens nobody received, {each}")
    if is_limited:
        flags.append("capacity-limited: the server did not hold the asked concurrency")
    done = [r for r in records if r.is_completed]
    if done and any(r.chunk_tokens is None for r in done):
        flags.append("tokens a chunk unknown: no ITL")
    short = [r for r in done if asked.output_tokens and (r.output_tokens or 0) < asked.output_tokens]
    if short:
        flags.append(f"{len(short)} of {len(done)} answers ended before the asked length")
    if asked.concurrency and len(records) < asked.concurrency:
        flags.append("fewer requests than slots")
    made_up = sum(r.has_stand_in for r in records)
    if made_up:
        flags.append(f"{made_up} turns sent stand-ins for answers: the server's own failed, or came without token ids")
    shared, events = sum(r.shared_reads for r in records), sum(len(r.chunk_ns) for r in records)
    if shared > SHARED_READS_LIMIT * events:
        flags.append(f"{shared / events:.1%} of events came in one read with the one before: their ITL is its mean")
    if window is None:
        flags.append("nothing was sent")
    return flags


def summarize(cells: Sequence[Cell]) -> tuple[CellSummary, ...]:
    """Join the repeats of each load; invalid cells and cells with failed requests only are never averaged in."""
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        key = (cell.concurrency_asked, cell.rate_asked, cell.input_tokens_asked, cell.output_tokens_asked)
        groups.setdefault(key, []).append(cell)
    return tuple(_summary(group) for group in groups.values())


def _summary(group: Sequence[Cell]) -> CellSummary:
    valid, first = [c for c in group if c.is_averaged], group[0]

    def over(value: Callable[[Cell], float | None]) -> Mean:
        return latency.mean_over_runs([v for v in map(value, valid) if v is not None])

    return CellSummary(
        concurrency_asked=first.concurrency_asked,
        rate_asked=first.rate_asked,
        input_tokens_asked=first.input_tokens_asked,
        output_tokens_asked=first.output_tokens_asked,
        repeats=len(valid),
        repeats_invalid=len(group) - len(valid),
        capacity_limited=any(c.capacity_limited for c in group),
        output_tok_s=over(lambda c: c.output_tok_s),
        rate_achieved=over(lambda c: c.rate_achieved),
        concurrency_achieved=over(lambda c: c.concurrency_achieved),
        ttft_ms=over(lambda c: c.ttft_ms.p50),
        itl_ms=over(lambda c: c.itl_ms.p50),
        tpot_ms=over(lambda c: c.tpot_ms.mean),
        e2el_ms=over(lambda c: c.e2el_ms.p50),
        goodput_req_s=over(lambda c: c.goodput.req_s if c.goodput else None),
        prefill_tok_s=over(lambda c: c.server.prefill_tok_s),
        joules_per_token=over(lambda c: c.joules_per_token),
    )
