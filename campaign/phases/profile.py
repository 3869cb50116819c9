"""profile: where every microsecond of a decode step goes, by batch size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec

from campaign import host, schema
from campaign.model import read_model, shard
from campaign.phases.kind import Analysis, Context, Figure, PhaseKind, ServerAccess, Target
from campaign.schema import Finding, Quantity, Result, Source
from campaign.trace import Breakdown, TraceAnalysis
from campaign.trace.categories import bare_name
from campaign.trace.result import Collective, CompiledKernel, Host, Kernel, Unclassified

Positive = Annotated[int, msgspec.Meta(ge=1)]
#: Categories of the coarse table that people compare campaigns by; the rest is rolled up as `other`.
COARSE = ("allreduce", "gemm", "attention", "rms_norm", "rope", "silu_mul")
#: Categories that count as gemm in the coarse table.
ROLLED_UP = {"moe_gemm": "gemm"}


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "profile"."""

    batch: tuple[Positive, ...] | Positive = 1
    """Concurrent requests under the profiler; one point each."""
    steps: Positive = 50
    """Decode steps to record; bounds the size of the traces."""
    input_tokens: Positive = 128
    """Prompt length."""
    step_regex: str = ""
    """Names of step annotations, where the engine's are not recognised."""
    categories: dict[str, str] = {}
    """Name pattern → category, looked at before the shipped table."""


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What the model's arithmetic says of a decode step."""

    allreduces_per_step: int | None = None
    layers: int | None = None
    message_bytes_per_token: int | None = None
    """Bytes of one all-reduce at batch 1."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The script's config."""

    target: Target
    server: ServerAccess
    batch: tuple[int, ...]
    steps: int
    input_tokens: int
    step_regex: str = ""
    categories: dict[str, str] = {}
    expected: Expected = Expected()


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """One profiled batch."""

    batch: int
    traces: tuple[str, ...]
    """One file a rank, relative to the campaign folder."""
    trace_bytes: int
    """Size of all of them."""
    unprofiled_tpot_ms: float | None
    """Mean TPOT of the warm-up round just before, profiler off."""
    stop_s: float
    """How long the profiler took to write."""
    analysis: TraceAnalysis
    floor_ms: dict[str, float] = {}
    """Physical floor of a step by category, where the device's peaks are known."""
    weight_bytes: float | None = None
    """Weight bytes that a rank reads in a step at this batch."""


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The profile's result."""

    captures: tuple[Capture, ...]


class CategoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the step's table."""

    name: str
    calls: float | None
    """Calls a step."""
    busy_ms: float | None
    """Sum of kernel (or op) times a step."""
    exposed_ms: float | None
    """Part of the step's wall that this category alone accounts for."""
    share: float | None
    """exposed / wall, a fraction."""
    us_per_call: float | None
    floor_ms: float | None
    """Physical floor, where known."""
    is_below_floor: bool = False
    """Its kernels must stand elsewhere: no hardware is faster than its floor."""
    reason: str = ""
    """Why there is nothing, where there is nothing."""


class AllreducePath(msgspec.Struct, frozen=True, kw_only=True):
    """All-reduces of one kernel."""

    kernel: str
    """Its name up to the first template argument or parenthesis."""
    calls: float
    """Calls a step."""
    us_per_call: float
    unexplained: float | None = None
    """Calls beyond those that the model needs; the first path is held against the model, others serve nothing known."""


class CaptureView(msgspec.Struct, frozen=True, kw_only=True):
    """One batch as the template sees it."""

    batch: int
    steps: int
    """Decode steps kept."""
    trimmed: int
    """Unsteady decode steps left out."""
    wall_mean_ms: float
    wall_p10_ms: float | None
    wall_p90_ms: float | None
    unprofiled_tpot_ms: float | None
    """TPOT of the same requests just before, profiler off."""
    overhead: float | None
    """Profiled step over unprofiled TPOT, less 1."""
    rows: tuple[CategoryRow, ...]
    """Every category, largest first."""
    coarse: tuple[CategoryRow, ...]
    """The coarser table."""
    idle_ms: float
    idle_share: float
    idle: dict[str, float]
    """Idle ms a step by reason."""
    is_cpu: bool
    """Ops of the CPU, not GPU kernels: idle is then the host's time outside any known op."""
    paths: tuple[AllreducePath, ...]
    """All-reduces by kernel, most calls first: an engine's own one beside NCCL's is another path."""
    allreduces: float | None
    """All-reduces found a step."""
    allreduces_expected: int | None
    kernels: tuple[Kernel, ...]
    """Top kernels (or ops): name, category, calls_per_step, us_per_call, busy_ms_per_step."""
    collectives: tuple[Collective, ...]
    """name, kernel, calls_per_step, us_per_call, wait_us_per_call, transfer_us_per_call."""
    ranks: int
    slowest_rank: int | None
    spread_ms: float | None
    """Slowest less fastest rank's own work a step."""
    problems: tuple[str, ...]
    """What was wrong with the traces."""
    unclassified: tuple[Unclassified, ...]
    """Kernels that no rule knows: name, busy_ms_per_step, share_of_busy."""
    compiled: tuple[CompiledKernel, ...]
    """Generated kernels without a telling name, with their neighbours."""
    representative: str
    """Whether rank 0 stands for all, and whether the steps suffice."""
    host: Host
    """Launches and the host's time a step."""
    traces: tuple[str, ...]
    trace_mb: float
    figure: str
    """File name of the stacked step."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of profile.md.j2."""

    captures: tuple[CaptureView, ...]
    """One a batch, in the order of campaign.toml."""
    layers: int | None
    """Layers of the model."""
    message_bytes: int | None
    """Bytes of one all-reduce at batch 1."""
    tensor_parallel: int


def _batches(parameters: Parameters) -> tuple[int, ...]:
    return (parameters.batch,) if isinstance(parameters.batch, int) else parameters.batch


def _configure(parameters: Parameters, context: Context) -> Config:
    target = context.target
    expected = Expected()
    if target.config_path:
        shards = shard(
            read_model(host.read_model_config(target.config_path)), target.tensor_parallel, target.expert_parallel
        )
        expected = Expected(
            allreduces_per_step=shards.collectives_per_step if target.tensor_parallel > 1 else 0,
            layers=shards.model.layers,
            message_bytes_per_token=shards.message_bytes(1),
        )
    return Config(
        target=target, server=context.server, batch=_batches(parameters), steps=parameters.steps,
        input_tokens=parameters.input_tokens, step_regex=parameters.step_regex, categories=parameters.categories,
        expected=expected,
    )  # fmt: skip


def _points(config: Config) -> tuple[str, ...]:
    return tuple(f"batch {batch}" for batch in config.batch)


def _category_rows(capture: Capture) -> list[CategoryRow]:
    rows = []
    for category in capture.analysis.decode.categories if capture.analysis.decode else ():
        floor_ms = capture.floor_ms.get(category.name)
        rows.append(
            CategoryRow(
                name=category.name,
                calls=category.calls_per_step,
                busy_ms=category.busy_ms_per_step,
                exposed_ms=category.exposed_ms_per_step,
                share=category.share_of_wall,
                us_per_call=category.us_per_call,
                floor_ms=floor_ms,
                is_below_floor=floor_ms is not None and category.busy_ms_per_step < floor_ms,
            )
        )
    return sorted(rows, key=lambda row: -(row.exposed_ms or 0.0))


def _coarse_rows(capture: Capture, rows: list[CategoryRow], wall_ms: float) -> list[CategoryRow]:
    """The table people compare campaigns by: its rows and the idle time add up to the step."""
    made = []
    decode = capture.analysis.decode
    absent = {category.name: category.absent_reason for category in decode.absent} if decode else {}
    for name in COARSE:
        members = [row for row in rows if ROLLED_UP.get(row.name, row.name) == name]
        made.append(_sum_row(name, members, wall_ms, "" if members else absent.get(name, "no kernel of its own")))
    rest = [row for row in rows if ROLLED_UP.get(row.name, row.name) not in COARSE]
    made.append(_sum_row("other", rest, wall_ms, ""))
    return made


def _sum_row(name: str, members: list[CategoryRow], wall_ms: float, reason: str) -> CategoryRow:
    if not members:
        return CategoryRow(
            name=name, calls=None, busy_ms=None, exposed_ms=None, share=None, us_per_call=None, floor_ms=None,
            reason=reason,
        )  # fmt: skip
    calls = sum(row.calls or 0.0 for row in members)
    busy_ms = sum(row.busy_ms or 0.0 for row in members)
    exposed_ms = sum(row.exposed_ms or 0.0 for row in members)
    return CategoryRow(
        name=name, calls=calls, busy_ms=busy_ms, exposed_ms=exposed_ms, share=exposed_ms / wall_ms if wall_ms else None,
        us_per_call=busy_ms * 1000 / calls if calls else None, floor_ms=None,
    )  # fmt: skip


def _paths(capture: Capture, expected: int | None) -> tuple[AllreducePath, ...]:
    decode = capture.analysis.decode
    found = [one for one in decode.collectives if one.name == "allreduce"] if decode else []
    made = []
    for number, one in enumerate(sorted(found, key=lambda c: -c.calls_per_step)):
        rest = one.calls_per_step - (expected or 0) if number == 0 else one.calls_per_step
        made.append(
            AllreducePath(
                kernel=bare_name(one.kernel),
                calls=one.calls_per_step,
                us_per_call=one.us_per_call,
                unexplained=None if expected is None else rest,
            )
        )
    return tuple(made)


def _capture_view(capture: Capture, config: Config) -> CaptureView | None:
    analysis, decode = capture.analysis, capture.analysis.decode
    if decode is None or decode.wall_ms.mean is None:
        return None
    wall_ms, idle_ms = decode.wall_ms.mean, decode.idle_ms_per_step or 0.0
    rows = _category_rows(capture)
    tpot_ms = capture.unprofiled_tpot_ms
    return CaptureView(
        batch=capture.batch,
        steps=decode.steps,
        trimmed=decode.trimmed,
        wall_mean_ms=wall_ms,
        wall_p10_ms=decode.wall_ms.p10,
        wall_p90_ms=decode.wall_ms.p90,
        unprofiled_tpot_ms=tpot_ms,
        overhead=wall_ms / tpot_ms - 1 if tpot_ms else None,
        rows=tuple(rows),
        coarse=tuple(_coarse_rows(capture, rows, wall_ms)),
        idle_ms=idle_ms,
        idle_share=idle_ms / wall_ms if wall_ms else 0.0,
        idle=decode.idle,
        is_cpu=analysis.device == "cpu",
        paths=_paths(capture, config.expected.allreduces_per_step),
        allreduces=next((row.calls for row in rows if row.name == "allreduce"), None),
        allreduces_expected=config.expected.allreduces_per_step,
        kernels=tuple(decode.kernels[:12]),
        collectives=tuple(decode.collectives),
        ranks=len(analysis.ranks),
        slowest_rank=analysis.skew.slowest_rank,
        spread_ms=analysis.skew.spread_ms_per_step,
        problems=tuple(
            dict.fromkeys([*analysis.problems, *(problem for rank in analysis.ranks for problem in rank.problems)])
        ),
        unclassified=decode.unclassified,
        compiled=decode.compiled,
        representative=analysis.representative.text,
        host=decode.host,
        traces=capture.traces,
        trace_mb=capture.trace_bytes / 1e6,
        figure=f"step-b{capture.batch}.svg",
    )


def _quantities(capture: Capture, view: CaptureView, config: Config, source: Source, suffix: str) -> Iterator[Quantity]:
    def quantity(name: str, value: float | None, unit: str, **more: float | None) -> Quantity:
        return Quantity(name=f"{name}{suffix}", value=value, unit=unit, source=source, **more)  # type: ignore[arg-type]

    decode = capture.analysis.decode
    assert decode is not None
    ci95_ms = decode.wall_ms.ci95 or (None, None)
    yield quantity("profile.step_ms", view.wall_mean_ms, "ms", low=ci95_ms[0], high=ci95_ms[1])
    yield quantity("profile.idle_ms", view.idle_ms, "ms")
    yield quantity("profile.batch", view.batch, "1")
    yield quantity("profile.steps", view.steps, "1")
    yield quantity("profile.unprofiled_tpot_ms", view.unprofiled_tpot_ms, "ms")
    yield quantity("profile.rank_spread_ms", view.spread_ms, "ms")
    for row, category in zip(view.rows, sorted(decode.categories, key=lambda c: -c.exposed_ms_per_step), strict=True):
        share_ci = category.share_ci95 or (None, None)
        yield quantity(f"profile.busy_ms.{row.name}", row.busy_ms, "ms")
        yield quantity(f"profile.exposed_ms.{row.name}", row.exposed_ms, "ms")
        yield quantity(f"profile.share.{row.name}", row.share, "1", low=share_ci[0], high=share_ci[1])
        yield quantity(f"profile.busy_share.{row.name}", category.share_of_busy, "1")
        yield quantity(f"profile.calls.{row.name}", row.calls, "1")
        yield quantity(f"profile.us_per_call.{row.name}", row.us_per_call, "us")
    if len(view.paths) > 1:
        yield quantity("profile.path_calls.allreduce", view.paths[0].calls, "1")
        further_ms = sum(path.calls * path.us_per_call for path in view.paths[1:]) / 1e3
        yield quantity("profile.further_paths_ms.allreduce", further_ms, "ms")
    unknown = sum(row.share or 0.0 for row in view.rows if row.name in ("other", "compiled"))
    yield quantity("profile.unclassified_share", unknown, "1")
    yield from _allreduce_quantities(decode, quantity_of=quantity)
    yield quantity("model.allreduces_per_step", config.expected.allreduces_per_step, "1")
    if config.expected.message_bytes_per_token is not None:
        yield quantity("model.message_bytes", config.expected.message_bytes_per_token * view.batch, "B")
    yield quantity("model.weight_bytes_per_step", capture.weight_bytes, "B")
    for name, floor_ms in capture.floor_ms.items():
        yield quantity(f"model.floor_ms.{name}", floor_ms, "ms")


def _allreduce_quantities(decode: Breakdown, *, quantity_of: object) -> Iterator[Quantity]:
    make = quantity_of
    assert callable(make)
    for name, attribute in (("wait", "wait_us_per_call"), ("transfer", "transfer_us_per_call")):
        known = [
            (getattr(c, attribute), c.calls_per_step)
            for c in decode.collectives
            if c.name == "allreduce" and getattr(c, attribute) is not None
        ]
        calls = sum(count for _, count in known)
        mean_us = sum(us * count for us, count in known) / calls if calls else None
        yield make(f"profile.allreduce_{name}_us", mean_us, "us")


def _findings(view: View) -> Iterator[Finding]:
    for capture in view.captures:
        expected = capture.allreduces_expected
        for number, path in enumerate(capture.paths if expected else ()):
            if path.unexplained is not None and abs(path.unexplained) >= 0.5:
                known = f"the model's arithmetic gives {expected}" if number == 0 else "no number explains them"
                yield Finding(
                    id=f"profile.collective_calls.b{capture.batch}" + (f".{number}" if number else ""),
                    text=f"{path.calls:.4g} all-reduces a step at batch {capture.batch} by {path.kernel}; {known}.",
                    severity="notice",
                )
        for row in capture.rows:
            if row.is_below_floor:
                yield Finding(
                    id=f"profile.below_floor.{row.name}.b{capture.batch}",
                    text=f"{row.name} takes {row.busy_ms:.2f} ms a step, below its physical floor of "
                    f"{row.floor_ms:.2f} ms: some of its kernels stand in another category.",
                    severity="broken",
                )


def _analyze(result: Result, context: Context) -> Analysis:
    data, config = schema.decode(bytes(result.data), Data), schema.decode(bytes(result.config), Config)
    views: list[CaptureView] = []
    quantities: list[Quantity] = []
    for number, capture in enumerate(data.captures):
        view = _capture_view(capture, config)
        if view is not None:
            suffix = "" if not views else f"@b{capture.batch}"
            source = Source(phase="profile", attempt=result.attempt, pointer=f"/captures/{number}/analysis")
            quantities += _quantities(capture, view, config, source, suffix)
            views.append(view)
    whole = View(
        captures=tuple(views),
        layers=config.expected.layers,
        message_bytes=config.expected.message_bytes_per_token,
        tensor_parallel=context.target.tensor_parallel,
    )
    return Analysis(
        view=whole, quantities=tuple(quantities), findings=tuple(_findings(whole)), figures=lambda: _figures(whole)
    )


def _figures(view: View) -> tuple[Figure, ...]:
    from campaign.figures import stacked_bar

    made = []
    for capture in view.captures:
        parts = [(row.name, row.exposed_ms or 0.0) for row in capture.rows if row.exposed_ms]
        parts.append(("host" if capture.is_cpu else "idle", capture.idle_ms))
        svg = stacked_bar(parts, unit="ms", title=f"One decode step at batch {capture.batch}")
        made.append(Figure(name=capture.figure, svg=svg))
    return tuple(made)


KIND = PhaseKind(
    name="profile",
    title="Where a decode step goes",
    parameters=Parameters,
    script_version=1,
    server="profiled",
    configure=_configure,
    points=_points,
    analyze=_analyze,
    template="profile.md.j2",
)
