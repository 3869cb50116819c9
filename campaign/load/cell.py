"""A cell: one repeat of one load, with everything that is said about it."""

from __future__ import annotations

import msgspec

from campaign.load.latency import Distribution, Mean


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What the client itself cost and whether it could follow."""

    cpu_us_per_token: float | None
    """User and system time of all its processes, parsing included, a received token."""
    lag_ms_p99: float | None
    """How long arrived bytes waited for the reader; with reader stamps an upper bound from the loop's own pace."""
    busy: float
    """Largest share of a core that one of its processes used while streams ran."""
    processes: int
    """Processes that shared the load."""
    has_priority: bool = False
    """Whether it could run before other work of its machine (needs the right to real-time scheduling)."""
    timestamps: str
    """kernel or reader."""
    missing_stamps: float = 0.0
    """Fraction of reads for which the kernel gave no stamp."""
    shared_reads: float = 0.0
    """Fraction of content events whose read holds later bytes too that perhaps came later: they have those' time."""
    valid: bool
    """False where the client was the bottleneck."""
    why: str = ""
    """Reason of an invalid cell."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's own counters say about the cell."""

    generation_tokens_delta: int | None = None
    """Change of its token counter."""
    prompt_tokens_delta: int | None = None
    """Change of its prompt token counter."""
    cache_hit_rate: float | None = None
    """Prefix cache hits / queries over the cell."""
    surplus_tokens: int | None = None
    """Its tokens less the client's: tokens of cancelled and cut streams that nobody received."""
    surplus_per_cut: float | None = None
    """That surplus over the streams that were cancelled or failed; null where all were whole."""
    tokens_match: bool | None = None
    """Whether both counts agree; null where there is no counter or streams were cut."""
    running_mean: float | None = None
    """Mean of its running requests, as sampled."""
    running_max: float | None = None
    """Most running requests, as sampled."""
    waiting_max: float | None = None
    """Most waiting requests, as sampled."""
    kv_usage_max: float | None = None
    """Largest used fraction of the KV cache, as sampled."""
    preemptions: int | None = None
    """Requests preempted during the cell."""
    prefill_tok_s: float | None = None
    """Δ prompt tokens / Δ prefill time: prompt tokens a second of one request's prefill."""
    acceptance_length: float | None = None
    """Tokens a step with speculation: 1 + accepted / drafts; null without."""
    acceptance_by_position: tuple[float, ...] = ()
    """Accepted / drafts by position of the draft."""


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """What met every stated limit."""

    req_s: float
    """Requests a second."""
    tok_s: float
    """Output tokens a second of those requests."""
    share: float
    """Fraction of the requests sent."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat of one load; a missing value is null."""

    repeat: int
    """From 1."""
    concurrency_asked: int | None = None
    """Slots of the closed loop; null in an open one without a cap."""
    concurrency_achieved: float | None = None
    """Requests in flight, averaged over the window."""
    concurrency_peak: int = 0
    """Most requests in flight at one moment."""
    rate_asked: float | None = None
    """Requests a second asked for; null in a closed loop."""
    rate_achieved: float | None = None
    """Requests a second that completed in the cell."""
    input_tokens_asked: int | None = None
    """Prompt length asked for; null where it varies by request."""
    input_tokens_achieved: float | None = None
    """Mean prompt length by the server's usage."""
    output_tokens_asked: int | None = None
    """Output length asked for; null where it varies by request."""
    output_tokens_achieved: float | None = None
    """Mean output length of completed requests by the server's usage."""
    ignore_eos: bool = True
    """Whether the end-of-sequence token was ignored."""
    prompts: str = "random"
    """random ids, text, shared prefix or file: what the prompts were made of."""
    seed: int = 0
    """Seed of the prompts and arrivals."""
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    errors: dict[str, int] = {}
    """Failure → how many requests."""
    duration_s: float
    """From the first send to the last end."""
    window_s: float | None = None
    """Length of the measured window, without ramp and drain."""
    tokens_received: int = 0
    """All tokens that arrived, of failed streams too."""
    output_tok_s: float | None = None
    """Tokens that arrived inside the window / window."""
    output_tok_s_peak: float | None = None
    """Most tokens that arrived within any one second."""
    ttft_ms: Distribution = Distribution()
    itl_ms: Distribution = Distribution()
    chunk_gap_ms: Distribution = Distribution()
    tpot_ms: Distribution = Distribution()
    e2el_ms: Distribution = Distribution()
    queue_ms: Distribution = Distribution()
    """From intended to actual send (open loop)."""
    ttft_due_ms: Distribution = Distribution()
    """TTFT from the intended send."""
    e2el_due_ms: Distribution = Distribution()
    """E2EL from the intended send."""
    goodput: Goodput | None = None
    """Null where no limits were stated."""
    joules_per_token: float | None = None
    """Energy of the GPUs over the cell / tokens received; null where NVML counts none."""
    capacity_limited: bool = False
    """The server could not hold the asked concurrency (queue, preemptions, KV full): no headline."""
    client: Client
    server: Server = Server()
    flags: tuple[str, ...] = ()
    """What a reader must know about this cell."""

    @property
    def is_averaged(self) -> bool:
        """Whether it counts in a mean: the client could follow and some request completed."""
        return self.client.valid and self.completed > 0


class CellSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The valid repeats of one load, joined."""

    concurrency_asked: int | None = None
    rate_asked: float | None = None
    input_tokens_asked: int | None = None
    output_tokens_asked: int | None = None
    repeats: int = 0
    """Repeats averaged."""
    repeats_invalid: int = 0
    """Repeats left out."""
    capacity_limited: bool = False
    """Any repeat was capacity-limited."""
    output_tok_s: Mean = Mean()
    rate_achieved: Mean = Mean()
    concurrency_achieved: Mean = Mean()
    ttft_ms: Mean = Mean()
    """Mean of the repeats' medians, as for the other latencies."""
    itl_ms: Mean = Mean()
    tpot_ms: Mean = Mean()
    """Mean of the repeats' means."""
    e2el_ms: Mean = Mean()
    goodput_req_s: Mean = Mean()
    prefill_tok_s: Mean = Mean()
    joules_per_token: Mean = Mean()


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `load --json` prints and the macro result holds."""

    schema: str = "campaign-load"
    schema_version: int = 1
    cells: tuple[Cell, ...] = ()
    summary: tuple[CellSummary, ...] = ()
    kv_capacity_tokens: int | None = None
    """Tokens that the server's KV cache holds; null where it does not tell."""
