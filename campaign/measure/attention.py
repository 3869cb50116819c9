"""Measures decode attention: `python -m campaign.measure.attention --config IN --out OUT`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec
import torch

from campaign import host
from campaign.measure import attention_kernels, devices_here, timing
from campaign.measure.reasons import no_graph
from campaign.measurement import Measurement, run_script
from campaign.phases.attention import KIND
from campaign.phases.attention_data import AttentionConfig, AttentionData, AttentionPoint, key_of, planned
from campaign.phases.gemm_data import Peaks
from campaign.schema import decode


def main(argv: Sequence[str]) -> None:
    """Measure what is not measured yet, then write the result."""
    run = Measurement("attention", KIND.script_version, AttentionConfig, argv)
    config = run.config
    devices_here.settle(config.device, config.ranks, config.seed)
    run.measure_point("peaks", partial(devices_here.measure_peaks, config.device, config.dtype))
    peaks = next(decode(p.data, Peaks) for p in run.points() if p.key == "peaks")
    for point in planned(config):
        run.measure_point(key_of(point), partial(_measure, config, point, peaks.cache_bytes))
    wanted = KIND.points(config)
    points = tuple(decode(p.data, AttentionPoint) for p in run.points() if p.key != "peaks" and p.key in wanted)
    data = AttentionData(peaks=peaks, points=points)
    run.write(data, host=host.read_host(config.device), versions=host.read_versions())


def _measure(config: AttentionConfig, point: AttentionPoint, cache_bytes: int) -> AttentionPoint:
    prepared = attention_kernels.prepare(config, point, cache_bytes)
    if isinstance(prepared, str):
        return msgspec.structs.replace(point, note=prepared)
    call = timing.rotate(prepared.copies, attention_kernels.calls_of(prepared))
    calls = timing.warm_up(call, config.device)
    before, wall, cpu = host.read_state(), time.perf_counter(), time.process_time()
    rounds, note = [], ""
    for _ in range(2):
        samples, note = _round(config, call, max(calls, prepared.copies if config.device == "cuda" else 1))
        rounds.append(samples)
    share = (time.process_time() - cpu) / (time.perf_counter() - wall) / torch.get_num_threads()
    return msgspec.structs.replace(
        point,
        kernel=prepared.kernel,
        cold_us=tuple(rounds),
        relative_error=prepared.error if prepared.error < float("inf") else None,
        is_correct=prepared.error <= prepared.tolerance,
        kv_bytes=prepared.kv_bytes,
        buffers=prepared.copies,
        cpu_share=None if config.device == "cuda" else min(1.0, share),
        note=note,
        before=before,
        after=host.read_state(),
    )


def _round(config: AttentionConfig, call: timing.Call, calls: int) -> tuple[tuple[float, ...], str]:
    if config.device != "cuda":
        return timing.time_calls(call, config.device, calls, config.samples), ""
    try:
        return timing.time_graph(timing.capture(call, calls), calls, config.samples), ""
    except RuntimeError as error:
        torch.cuda.synchronize()
        return timing.time_calls(call, config.device, calls, config.samples), no_graph(error)


if __name__ == "__main__":
    run_script(main)
