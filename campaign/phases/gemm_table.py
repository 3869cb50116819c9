"""Rows of the gemm table from a result: medians, rates, floors, refusals."""

from __future__ import annotations

import msgspec

from campaign.host import describe_drift
from campaign.model import Linear, linear_floor_us
from campaign.phases.gemm_data import EXPERTS, GemmConfig, GemmData, GemmPoint, Peaks
from campaign.phases.samples import flatten, median, percentile, spread_of_rounds

#: A data sheet's peak is exact to about this; above it a result is wrong, not fast.
PEAK_TOLERANCE = 1.02
#: A process that got less of its CPUs was disturbed.
LEAST_CPU_SHARE = 0.9


class GemmRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; None = not known, shown as –."""

    kind: str
    """Layer kind, or `experts`."""
    category: str
    """gemm or moe_gemm."""
    m: int
    """Tokens."""
    n: int
    """Output features on a rank."""
    k: int
    """Input features on a rank."""
    matrices: int
    """Matrices in one call."""
    dtype: str
    """Weight format of the model."""
    kernel: str
    """Kernel that ran."""
    cold_us: float | None
    """Median, cold."""
    p10_us: float | None
    """10th percentile, cold."""
    p90_us: float | None
    """90th percentile, cold."""
    hot_us: float | None
    """Median, hot."""
    eager_us: float | None
    """Median, launched one by one."""
    tflops: float | None
    """TFLOP/s, cold."""
    gb_s: float | None
    """GB/s, cold."""
    floor_us: float | None
    """Least time of the measured format on this device."""
    floor_fraction: float | None
    """Floor over measured: 1 = at the limit."""
    spread: float | None
    """Difference of the two rounds' medians over their mean."""
    calls: int
    """Calls a step."""
    step_ms: float | None
    """Cold × calls."""
    note: str = ""
    """Refusal or caveat."""


class GemmView(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the template."""

    rows: tuple[GemmRow, ...]
    """One a kind and M, in the order of a layer."""
    batches: tuple[int, ...]
    """M asked for."""
    step_ms: dict[str, float | None]
    """Cold × calls over all kinds, by M (as text)."""
    device: str
    """Device name."""
    is_cpu: bool
    """Whether a CPU was measured: its times say nothing of a GPU."""
    peaks_are_measured: bool
    """Whether floors rest on peaks measured here."""
    memory_gb_s: float | None
    """Memory bandwidth that floors rest on."""
    peak_tflops: float | None
    """Peak of the activation format that floors rest on."""
    other_peaks_tflops: dict[str, float]
    """Weight format → peak, of the measured formats that a faster unit multiplies."""
    tensor_parallel: int
    """Ranks that share a layer."""
    cache_mb: float
    """Last-level cache."""
    drift: tuple[str, ...]
    """What changed on the device in between."""
    notes: tuple[str, ...]
    """Caveats."""


def rows_of(config: GemmConfig, data: GemmData) -> tuple[GemmRow, ...]:
    """One row a point, in the order of measurement."""
    table = {linear.kind: linear for linear in config.linears}
    rows = []
    for point in data.points:
        linears = experts_of(config) if point.kind == EXPERTS else (table[point.kind],)
        rows.append(_row(point, linears, data.peaks))
    return tuple(rows)


def other_peaks_of(config: GemmConfig, data: GemmData) -> dict[str, float]:
    """Weight format → peak TFLOP/s, where it is another than that of the activations."""
    known = {point.dtype: data.peaks.device.peak_tflops(point.dtype) for point in data.points}
    usual = data.peaks.device.peak_tflops(config.dtype)
    return {form: peak for form, peak in known.items() if peak is not None and peak != usual}


def experts_of(config: GemmConfig) -> tuple[Linear, ...]:
    """gate_up and down of the routed experts."""
    return tuple(linear for linear in config.linears if linear.category == "moe_gemm")


def _row(point: GemmPoint, linears: tuple[Linear, ...], peaks: Peaks) -> GemmRow:
    first = linears[0]
    cold, hot, eager = flatten(point.cold_us), flatten(point.hot_us), flatten(point.eager_us)
    measured = [_as_measured(linear, point) for linear in linears]
    cold_us = median(cold)
    flops = sum(linear.flops(point.m) for linear in measured)
    moved = sum(linear.bytes_moved(point.m) for linear in measured)
    tflops = None if cold_us is None else flops / cold_us / 1e6
    gb_s = None if cold_us is None else moved / cold_us / 1e3
    floors = [linear_floor_us(linear, peaks.device, point.m) for linear in measured]
    floor_us = sum(f for f in floors if f is not None) if all(f is not None for f in floors) else None
    refusal = _refusal(point, tflops, gb_s, peaks)
    is_usable = refusal is None and cold_us is not None
    return GemmRow(
        kind=point.kind,
        category=first.category,
        m=point.m,
        n=first.n,
        k=first.k,
        matrices=first.matrices,
        dtype=first.label,
        kernel=point.kernel,
        cold_us=cold_us if is_usable else None,
        p10_us=percentile(cold, 10) if is_usable else None,
        p90_us=percentile(cold, 90) if is_usable else None,
        hot_us=median(hot) if is_usable else None,
        eager_us=median(eager) if is_usable else None,
        tflops=tflops if is_usable else None,
        gb_s=gb_s if is_usable else None,
        floor_us=floor_us,
        floor_fraction=floor_us / cold_us if is_usable and floor_us is not None and cold_us else None,
        spread=spread_of_rounds(point.cold_us) if is_usable else None,
        calls=first.calls,
        step_ms=first.calls * cold_us / 1e3 if is_usable and cold_us is not None else None,
        note=refusal or "; ".join([*point.notes, *_drift_of(point)]),
    )


def _as_measured(linear: Linear, point: GemmPoint) -> Linear:
    """The product with the weight format that was read, and as many experts as were."""
    changed = msgspec.structs.replace(linear, dtype=point.dtype, bytes_per_weight=point.bytes_per_weight)
    if point.distinct_experts is None or linear.active is None:
        return changed
    return msgspec.structs.replace(changed, distinct=point.distinct_experts)


def _refusal(point: GemmPoint, tflops: float | None, gb_s: float | None, peaks: Peaks) -> str | None:
    if not point.cold_us:
        return "not measured: " + ("; ".join(point.notes) or "no samples")
    if not point.is_correct:
        error = "not finite" if point.relative_error is None else f"{point.relative_error:.2g} of the largest value"
        return f"refused: wrong result (error {error})"
    limit_tflops, limit_gb_s = peaks.device.peak_tflops(point.dtype), peaks.device.memory_gb_s
    if peaks.is_measured:
        return None
    if tflops is not None and limit_tflops is not None and tflops > limit_tflops * PEAK_TOLERANCE:
        return f"refused: {tflops:.0f} TFLOP/s is above the peak of {limit_tflops:.0f}"
    if gb_s is not None and limit_gb_s is not None and gb_s > limit_gb_s * PEAK_TOLERANCE:
        return f"refused: {gb_s:.0f} GB/s is above the memory's {limit_gb_s:.0f}"
    return None


def _drift_of(point: GemmPoint) -> tuple[str, ...]:
    if point.cpu_share is not None and point.cpu_share < LEAST_CPU_SHARE:
        return (f"other processes took {1 - point.cpu_share:.0%} of the CPU time",)
    return () if point.before is None or point.after is None else describe_drift(point.before, point.after)


def drift_of(data: GemmData) -> tuple[str, ...]:
    """What changed on the device during any point, each once."""
    shares = [p.cpu_share for p in data.points if p.cpu_share is not None and p.cpu_share < LEAST_CPU_SHARE]
    if shares:
        worst = 1 - min(shares)
        return (
            f"other processes took up to {worst:.0%} of the CPU time at {len(shares)} of {len(data.points)} points",
        )
    return tuple(dict.fromkeys(text for point in data.points for text in _drift_of(point)))


def step_ms_of(rows: tuple[GemmRow, ...], m: int, category: str | None = None) -> float | None:
    """Cold × calls over the rows of this M; None where one of them is missing."""
    counted = [r.step_ms for r in rows if r.m == m and category in (None, r.category)]
    known = [value for value in counted if value is not None]
    return sum(known) if counted and len(known) == len(counted) else None


def floors_ms_of(config: GemmConfig, peaks: Peaks, m: int) -> dict[str, float]:
    """Least time of a step by category in the model's own weight formats, ms; empty where no peak is known."""
    floors: dict[str, float] = {}
    for linear in config.linears:
        each_us = linear_floor_us(linear, peaks.device, m)
        if each_us is not None:
            floors[linear.category] = floors.get(linear.category, 0.0) + linear.calls * each_us / 1e3
    return floors
