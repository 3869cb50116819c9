"""Measures every matrix product of a decode step: `python -m campaign.measure.gemm --config IN --out OUT`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from campaign import host
from campaign.measure import devices_here, experts, matrices, timing
from campaign.measure.engine_layers import Engine
from campaign.measure.matrices import Pool, Prepared, Room
from campaign.measure.reasons import no_graph
from campaign.measurement import Measurement, run_script
from campaign.model import Linear
from campaign.phases.gemm import KIND
from campaign.phases.gemm_data import EXPERTS, GemmConfig, GemmData, GemmPoint, Peaks, fused_pair, point_key, singles_of
from campaign.schema import decode


def main(argv: Sequence[str]) -> None:
    """Measure what is not measured yet, then write the result."""
    run = Measurement("gemm", KIND.script_version, GemmConfig, argv)
    config = run.config
    devices_here.settle(config.device, config.ranks, config.seed)
    run.measure_point("peaks", partial(devices_here.measure_peaks, config.device, config.dtype))
    peaks = next(decode(p.data, Peaks) for p in run.points() if p.key == "peaks")
    wanted = KIND.points(config)
    if not all(run.is_done(key) for key in wanted):
        _measure_products(run, peaks)
    points = tuple(decode(p.data, GemmPoint) for p in run.points() if p.key != "peaks" and p.key in wanted)
    data = GemmData(peaks=peaks, points=points)
    run.write(data, host=host.read_host(config.device), versions=host.read_versions())


def _measure_products(run: Measurement[GemmConfig], peaks: Peaks) -> None:
    config = run.config
    limit_bytes = min(config.memory_limit_gb * 1e9, _free_bytes(config.device) * 0.5)
    # Fused experts bring their own weights; the pool is for what is measured one by one.
    needed = max(_pool_bytes(linear, peaks.cache_bytes) for linear in singles_of(config) or config.linears)
    pool = Pool(int(min(limit_bytes, needed)), config.dtype, config.device, config.seed)
    room = Room(pool=pool, cache_bytes=peaks.cache_bytes, memory_bytes=limit_bytes)
    pair, engine = fused_pair(config), _engine_of(config)
    for m in config.batch:
        for linear in singles_of(config):
            prepare = partial(_prepare, linear, m, room, engine)
            run.measure_point(point_key(linear.kind, m), partial(_measure, prepare, linear.kind, m, config))
        if pair is not None:
            prepare = partial(_prepare_experts, pair, m, room, engine)
            run.measure_point(point_key(EXPERTS, m), partial(_measure, prepare, EXPERTS, m, config))


def _engine_of(config: GemmConfig) -> Engine:
    return Engine(
        quantization=json.loads(config.quantization) if config.quantization else {},
        model_type=config.model_type,
        dtype=config.dtype,
        activation=config.activation,
        linear_backend=config.linear_backend,
        moe_backend=config.moe_backend,
    )


def _prepare(linear: Linear, m: int, room: Room, engine: Engine) -> Prepared:
    """The engine's kernel where the weights need one and it loads; torch, with the reason, elsewhere."""
    reason = ""
    if room.pool.device == "cuda" and linear.dtype not in matrices.DTYPES:
        from campaign.measure import engine_kernels

        made = engine_kernels.prepare_dense(linear, m, room, engine)
        if isinstance(made, Prepared):
            return made
        reason = made
    prepared = matrices.prepare_torch(linear, m, room.pool, room.cache_bytes)
    prepared.notes += [f"engine kernel: {reason}"] if reason else []
    return prepared


def _prepare_experts(pair: tuple[Linear, Linear], m: int, room: Room, engine: Engine) -> Prepared:
    from campaign.measure import engine_kernels

    made = engine_kernels.prepare_experts(pair, m, room, engine)
    if isinstance(made, Prepared):
        return made
    prepared = experts.prepare_torch(pair, m, room.pool, room.cache_bytes, room.memory_bytes)
    prepared.notes.append(f"engine kernel: {made}")
    return prepared


def _pool_bytes(linear: Linear, cache_bytes: int) -> float:
    weight = linear.n * linear.k * linear.matrices * 4
    return max(2 * weight, matrices.CACHE_MULTIPLE * cache_bytes * 1.1 + 2 * weight)


def _free_bytes(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    import psutil

    return int(psutil.virtual_memory().available)


class _Samples:
    """Samples by name, a round after another."""

    def __init__(self) -> None:
        self.rounds: dict[str, tuple[tuple[float, ...], ...]] = {"cold": (), "hot": (), "eager": ()}
        self.notes: list[str] = []

    def add(self, name: str, samples: tuple[float, ...]) -> None:
        self.rounds[name] = (*self.rounds[name], samples)


def _measure(prepare: Callable[[], Prepared], kind: str, m: int, config: GemmConfig) -> GemmPoint:
    prepared = prepare()
    error = prepared.error()
    samples, call = _Samples(), timing.rotate(len(prepared.cold), prepared.cold)
    calls = timing.warm_up(call, config.device)
    before, wall, cpu = host.read_state(), time.perf_counter(), time.process_time()
    for _ in range(2):
        if config.device == "cuda":
            _round_on_gpu(samples, prepared, call, calls, config)
        else:
            samples.add("cold", timing.time_calls(call, config.device, calls, config.samples))
            samples.add("hot", timing.time_calls(lambda _i: prepared.hot(), config.device, calls, config.samples))
    share = (time.process_time() - cpu) / (time.perf_counter() - wall) / torch.get_num_threads()
    return GemmPoint(
        kind=kind,
        m=m,
        kernel=prepared.kernel,
        dtype=prepared.dtype,
        bytes_per_weight=prepared.bytes_per_weight,
        cold_us=samples.rounds["cold"],
        hot_us=samples.rounds["hot"],
        eager_us=samples.rounds["eager"],
        relative_error=error if error < float("inf") else None,
        is_correct=error <= (prepared.tolerance or matrices.TOLERANCES[config.dtype]),
        buffers=prepared.buffers,
        rotated_bytes=prepared.rotated_bytes,
        distinct_experts=prepared.distinct_experts,
        cpu_share=None if config.device == "cuda" else min(1.0, share),
        notes=(*prepared.notes, *samples.notes),
        before=before,
        after=host.read_state(),
    )


def _round_on_gpu(samples: _Samples, prepared: Prepared, call: timing.Call, calls: int, config: GemmConfig) -> None:
    """Cold and hot in CUDA graphs, as an engine runs them, and cold launched one by one."""
    eager = timing.time_calls(call, config.device, calls, config.samples)
    samples.add("eager", eager)
    try:
        samples.add("cold", _in_graph(call, max(calls, len(prepared.cold)), config.samples))
        samples.add("hot", _in_graph(lambda _i: prepared.hot(), calls, config.samples))
    except RuntimeError as error:
        # A kernel that cannot be captured runs eagerly in an engine too.
        torch.cuda.synchronize()
        samples.add("cold", eager)
        samples.notes.append(no_graph(error))


def _in_graph(call: timing.Call, calls: int, samples: int) -> tuple[float, ...]:
    graph = timing.capture(call, calls)
    return timing.time_graph(graph, calls, samples)


if __name__ == "__main__":
    run_script(main)
