"""Rows of the attention table from a result: medians, rates, refusals."""

from __future__ import annotations

import msgspec

from campaign.host import describe_drift
from campaign.phases.attention_data import AttentionConfig, AttentionPoint
from campaign.phases.gemm_data import Peaks
from campaign.phases.gemm_table import LEAST_CPU_SHARE, PEAK_TOLERANCE
from campaign.phases.samples import flatten, median, percentile, spread_of_rounds


class AttentionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table; None = not known, shown as –."""

    backend: str
    """Kernel family."""
    kernel: str
    """What ran."""
    batch: int
    """Sequences."""
    context_tokens: int
    """Tokens a sequence."""
    kv_dtype: str
    """Format of the cache."""
    us: float | None
    """Median a call (one layer), cold."""
    p10_us: float | None
    """10th percentile."""
    p90_us: float | None
    """90th percentile."""
    gb_s: float | None
    """KV bytes over the time."""
    floor_fraction: float | None
    """KV bytes over bandwidth, over the time."""
    spread: float | None
    """Difference of the two rounds' medians over their mean."""
    step_ms: float | None
    """Times the layers."""
    note: str
    """Refusal or caveat."""


class AttentionView(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of the template."""

    rows: tuple[AttentionRow, ...]
    """One a point."""
    layers: int
    """Calls a decode step."""
    heads: int
    """Query heads of a rank."""
    is_latent: bool
    """MLA."""
    device: str
    """Device name."""
    is_cpu: bool
    """Whether a CPU was measured: its times say nothing of a GPU."""
    peaks_are_measured: bool
    """Whether floors rest on a bandwidth measured here."""
    memory_gb_s: float | None
    """Bandwidth that floors rest on."""
    drift: tuple[str, ...]
    """What changed on the device in between."""


def drift_of(point: AttentionPoint) -> tuple[str, ...]:
    """What changed on the device while one point was measured."""
    if point.cpu_share is not None and point.cpu_share < LEAST_CPU_SHARE:
        return (f"other processes took {1 - point.cpu_share:.0%} of the CPU time",)
    return () if point.before is None or point.after is None else describe_drift(point.before, point.after)


def _refusal(point: AttentionPoint, gb_s: float | None, peaks: Peaks) -> str:
    if not point.cold_us:
        return f"not measured: {point.note or 'no samples'}"
    if not point.is_correct:
        return f"refused: wrong result (error {point.relative_error})"
    limit = peaks.device.memory_gb_s
    if not peaks.is_measured and gb_s is not None and limit is not None and gb_s > limit * PEAK_TOLERANCE:
        return f"refused: {gb_s:.0f} GB/s is above the memory's {limit:.0f}"
    return ""


def row_of(point: AttentionPoint, config: AttentionConfig, peaks: Peaks) -> AttentionRow:
    """The row of one point."""
    samples = flatten(point.cold_us)
    us = median(samples)
    gb_s = point.kv_bytes / us / 1e3 if us else None
    refusal = _refusal(point, gb_s, peaks)
    limit = peaks.device.memory_gb_s
    is_usable = not refusal and us is not None and gb_s is not None
    return AttentionRow(
        backend=point.backend,
        kernel=point.kernel,
        batch=point.batch,
        context_tokens=point.context_tokens,
        kv_dtype=point.kv_dtype,
        us=us if is_usable else None,
        p10_us=percentile(samples, 10) if is_usable else None,
        p90_us=percentile(samples, 90) if is_usable else None,
        gb_s=gb_s if is_usable else None,
        floor_fraction=gb_s / limit if is_usable and limit and gb_s is not None else None,
        spread=spread_of_rounds(point.cold_us) if is_usable else None,
        step_ms=us * config.layers / 1e3 if is_usable and us is not None else None,
        note=refusal or "; ".join([*([point.note] if point.note else []), *drift_of(point)]),
    )
