"""Cells of a load as lines of text."""

from __future__ import annotations

from campaign.load.cell import Cell
from campaign.load.latency import Distribution
from campaign.load.search import SearchResult

COLUMNS = (
    "at once",
    "run",
    "in flight",
    "running",
    "req/s",
    "tok/s",
    "TTFT p50",
    "ITL p50",
    "TPOT",
    "E2EL p50",
    "in",
    "out",
    "hits",
    "client",
    "failed",
)

RANDOM_IDS = " token ids, which distort the routing and the acceptance of real weights"


def search_lines(result: SearchResult) -> list[str]:
    """The outcome of a search in words."""
    lines = []
    if result.knee is not None:
        lines.append(f"knee: {result.knee} concurrent requests; beyond it throughput gains less than half as much")
    if result.best_goodput is not None and result.best_goodput_req_s is not None:
        lines.append(f"highest goodput: {result.best_goodput_req_s:.3g} req/s at {result.best_goodput}")
    return lines or ["no knee up to the concurrency tried"]


def table_of(cells: tuple[Cell, ...]) -> list[str]:
    """The cells as lines of text, times in ms; `running` is the mean and the most on the server, as sampled."""
    rows = [list(COLUMNS), *(_row(cell) for cell in cells)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    prompts = ", ".join(dict.fromkeys(cell.prompts for cell in cells))
    if prompts:
        random = "random" in prompts.split(", ")
        lines.append(f"prompts: {prompts}" + (RANDOM_IDS if random else ""))
    joules = [cell.joules_per_token for cell in cells]
    if any(value is not None for value in joules):
        lines.append("J/token: " + ", ".join("–" if value is None else f"{value:.3g}" for value in joules))
    lines += [_both_origins(cell) for cell in cells if cell.queue_ms.n]
    for cell in cells:
        lines += [f"! {flag}" for flag in cell.flags]
        lines += [f"! invalid: {cell.client.why}"] if not cell.client.valid else []
        lines += [f"! {count} × {error}" for error, count in cell.errors.items()]
    return lines


def _achieved(achieved: float | None, asked: int | None) -> str:
    """A length as it was, with the asked one where that differs."""
    if achieved is None:
        return "–"
    return f"{achieved:.4g}" if asked is None or achieved == asked else f"{achieved:.4g} of {asked}"


def _both_origins(cell: Cell) -> str:
    """An open loop's latencies from the intended send, beside those of the table."""
    rate = "trace" if cell.rate_asked is None else f"{cell.rate_asked:g}/s"
    values = (("queue", cell.queue_ms), ("TTFT", cell.ttft_due_ms), ("E2EL", cell.e2el_due_ms))
    told = ", ".join(f"{name} {of.p50:.4g}" for name, of in values if of.p50 is not None)
    return f"{rate}, from the intended send (p50, ms): {told}"


def _row(cell: Cell) -> list[str]:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4g}"

    def median(of: Distribution) -> str:
        return number(of.p50)

    asked = str(cell.concurrency_asked) if cell.rate_asked is None else f"{cell.rate_asked:g}/s"
    lag = f"{cell.client.timestamps} {number(cell.client.lag_ms_p99)} ms, {number(cell.client.cpu_us_per_token)} µs/tok"
    return [
        asked,
        str(cell.repeat),
        number(cell.concurrency_achieved),
        f"{number(cell.server.running_mean)}/{number(cell.server.running_max)}",
        number(cell.rate_achieved),
        number(cell.output_tok_s),
        median(cell.ttft_ms),
        median(cell.itl_ms),
        number(cell.tpot_ms.mean),
        median(cell.e2el_ms),
        _achieved(cell.input_tokens_achieved, cell.input_tokens_asked),
        _achieved(cell.output_tokens_achieved, cell.output_tokens_asked),
        "–" if cell.server.cache_hit_rate is None else f"{cell.server.cache_hit_rate:.0%}",
        lag,
        f"{cell.failed}/{cell.completed + cell.failed}",
    ]
