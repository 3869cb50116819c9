"""A profile as the document shows it: the step's rows, fine and coarse, and the all-reduce paths."""

from __future__ import annotations

import msgspec

from campaign.phases.profile_data import Capture, Config
from campaign.trace.categories import bare_name
from campaign.trace.result import Collective, CompiledKernel, Host, Kernel, Unclassified

#: Categories of the coarse table that people compare campaigns by; the rest is rolled up as `other`.
COARSE = ("allreduce", "gemm", "attention", "rms_norm", "rope", "silu_mul")
#: Categories that count as gemm in the coarse table.
ROLLED_UP = {"moe_gemm": "gemm"}


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


def capture_view(capture: Capture, config: Config) -> CaptureView | None:
    """One batch for the template; None where no decode step was found."""
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
