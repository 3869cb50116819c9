"""macro: throughput and latency as users see them, over context length × concurrency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import msgspec
from msgspec import UNSET

from campaign import host
from campaign.errors import ConfigError
from campaign.load.arrivals import Arrival, Process
from campaign.load.latency import Mean
from campaign.load.plan import Limits
from campaign.load.slo import Slo
from campaign.phases.kind import Analysis, Context, Figure, PhaseKind
from campaign.phases.macro_data import MacroConfig, MacroData, points_of
from campaign.phases.macro_parameters import MacroParameters
from campaign.phases.macro_table import MacroRow, MacroView, view_of
from campaign.schema import Finding, Quantity, Result, Source, decode


def _tuple(value: tuple[int, ...] | int) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


def _configure(parameters: MacroParameters, context: Context) -> MacroConfig:
    rates = parameters.rate if isinstance(parameters.rate, tuple) else (parameters.rate,)
    concurrency, lengths = _tuple(parameters.concurrency), _tuple(parameters.input_tokens)
    if not lengths or not (concurrency or rates):
        raise ConfigError("macro: nothing to measure. Write e.g. input_tokens = [128] and concurrency = [1, 4].")
    if len(set(concurrency)) < len(concurrency) or len(set(lengths)) < len(lengths):
        raise ConfigError("macro: a value stands twice in input_tokens or concurrency. Leave one of them out.")
    if parameters.arrival not in get_args(Process):
        raise ConfigError(f"macro: arrival = {parameters.arrival!r}: write {', '.join(get_args(Process))}.")
    how = {"process": parameters.arrival, "burstiness": parameters.burstiness, "rate_from": parameters.rate_from}
    usual = MacroParameters()
    return MacroConfig(
        server=context.server,
        input_tokens=lengths,
        output_tokens=parameters.output_tokens,
        concurrency=concurrency,
        rate=rates,
        arrival=msgspec.convert(how, type=Arrival),
        repeats=parameters.repeats,
        requests=parameters.requests,
        slo=msgspec.convert(msgspec.to_builtins(parameters.slo), type=Slo),
        ignore_eos=parameters.ignore_eos,
        prompts=parameters.prompts,
        shared_prefix=parameters.shared_prefix,
        vocab_size=_vocab_size(context.target.config_path),
        processes=parameters.processes,
        max_failed=parameters.max_failed,
        device=context.target.device,
        seed=parameters.seed,
        limits=Limits(idle_timeout_s=parameters.idle_timeout_s, deadline_s=parameters.cell_deadline_s),
        api=parameters.api if parameters.api != usual.api else UNSET,
        sampling=parameters.sampling if parameters.sampling != usual.sampling else UNSET,
        turns=parameters.turns if parameters.turns != usual.turns else UNSET,
        think_s=parameters.think_s if parameters.think_s != usual.think_s else UNSET,
    )


def _vocab_size(config_path: str) -> int:
    """Vocabulary of the model; 256 (which every model has) where its config is not at hand."""
    try:
        config = host.read_model_config(config_path)
    except ConfigError:
        return 256
    inner = config.get("text_config")
    found = config.get("vocab_size") or (inner.get("vocab_size") if isinstance(inner, dict) else None)
    return found if isinstance(found, int) else 256


def _points(config: MacroConfig) -> tuple[str, ...]:
    return tuple(point.key for point in points_of(config))


def _analyze(result: Result, context: Context) -> Analysis:
    config, data = decode(result.config, MacroConfig), decode(result.data, MacroData)
    target = context.target
    devices = max(target.tensor_parallel * target.pipeline_parallel, context.server.world_size)
    view = view_of(config, data, devices=devices, is_cpu=target.device == "cpu")
    quantities = tuple(_quantities(view, result, has_lengths=len(config.input_tokens) > 1))
    return Analysis(view=view, quantities=quantities, findings=tuple(_findings(view)), figures=lambda: _figures(view))


def _figures(view: MacroView) -> tuple[Figure, ...]:
    from campaign.phases.macro_figures import draw

    return draw(view)


def _quantities(view: MacroView, result: Result, *, has_lengths: bool) -> Iterator[Quantity]:
    for number, row in enumerate(view.rows):
        suffix = f"q{row.rate:g}" if row.concurrency is None else f"c{row.concurrency}"
        suffix += f".i{row.input_tokens}" if has_lengths else ""
        source = Source(phase="macro", attempt=result.attempt, pointer=f"/summary/{number}")
        note = "capacity-limited" if row.capacity_limited else ""
        named: tuple[tuple[str, Mean, str], ...] = (
            ("tpot_ms", row.tpot_ms, "ms"),
            ("itl_ms", row.itl_ms, "ms"),
            ("ttft_ms", row.ttft_ms, "ms"),
            ("e2el_ms", row.e2el_ms, "ms"),
            ("output_tok_s", row.output_tok_s, "tok/s"),
            ("goodput_req_s", row.goodput_req_s, "req/s"),
        )
        for name, mean, unit in named:
            low, high = mean.ci95 or (None, None)
            yield Quantity(
                name=f"macro.{name}.{suffix}", value=mean.mean, unit=unit, low=low, high=high, source=source, note=note
            )
    source = Source(phase="macro", attempt=result.attempt, pointer="/cells")
    yield Quantity(name="macro.client_tokens", value=view.client_tokens, unit="1", source=source)
    yield Quantity(name="macro.server_tokens", value=view.server_tokens, unit="1", source=source)


def _findings(view: MacroView) -> Iterator[Finding]:
    if view.server_tokens is not None and view.server_tokens != view.client_tokens:
        yield Finding(
            id="macro.tokens",
            text=f"The server counted {view.server_tokens} tokens, the client received {view.client_tokens}.",
            severity="notice",
        )
    if view.has_invalid:
        yield Finding(
            id="macro.invalid",
            text="Some repeats were bound by the client and are left out of every mean.",
            severity="notice",
        )
    limited = [row for row in view.rows if row.capacity_limited]
    if limited:
        yield Finding(id="macro.capacity", text=f"The server could not hold {_names(limited)}.", severity="notice")
    failed = sum(row.failed for row in view.rows)
    if failed:
        total = sum(row.requests for row in view.rows)
        yield Finding(id="macro.failed", text=f"{failed} of {total} requests failed.", severity="notice")


def _names(rows: list[MacroRow]) -> str:
    return ", ".join(f"{r.concurrency or f'{r.rate:g}/s'} × {r.input_tokens} tokens" for r in rows)


KIND = PhaseKind(
    name="macro",
    title="Throughput and latency",
    parameters=MacroParameters,
    script_version=1,
    server="running",
    configure=_configure,
    points=_points,
    analyze=_analyze,
    template="macro.md.j2",
)
