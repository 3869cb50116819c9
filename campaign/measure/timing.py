"""Timing on the device there is: CUDA graphs and events on a GPU, a wall clock around calls on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

#: A sample lasts at least about this long, so that clocks and launch costs do not decide.
SAMPLE_S = 0.004
#: Calls in one sample at most.
CALLS_AT_MOST = 2048

Call = Callable[[int], object]


def synchronize(device: str) -> None:
    """Wait until the device has done everything."""
    if device == "cuda":
        torch.cuda.synchronize()


def warm_up(call: Call, device: str, seconds: float = 0.05) -> int:
    """Run `call(i)` until it is warm; returns how many calls make one sample."""
    call(0)
    synchronize(device)
    count, start = 0, time.perf_counter()
    while count < 3 or time.perf_counter() - start < seconds:
        call(count)
        count += 1
        if device == "cuda" and count % 8 == 0:
            synchronize(device)
    synchronize(device)
    each_s = (time.perf_counter() - start) / count
    return max(1, min(CALLS_AT_MOST, round(SAMPLE_S / each_s)))


def time_calls(call: Call, device: str, calls: int, samples: int) -> tuple[float, ...]:
    """µs a call, `samples` times over `calls` calls launched one by one; `call(i)` gets a running number."""
    if device != "cuda":
        return tuple(_time_on_cpu(call, calls, sample * calls) for sample in range(samples))
    found = []
    for sample in range(samples):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(calls):
            call(sample * calls + i)
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e3 / calls)
    return tuple(found)


def _time_on_cpu(call: Call, calls: int, first: int) -> float:
    start = time.perf_counter_ns()
    for i in range(first, first + calls):
        call(i)
    return (time.perf_counter_ns() - start) / 1e3 / calls


def capture(call: Call, calls: int) -> torch.cuda.CUDAGraph:
    """One CUDA graph of `calls` calls; the caller keeps it alive while it is replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(min(3, calls)):
            call(i)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    return graph


def time_graph(graph: torch.cuda.CUDAGraph, calls: int, samples: int) -> tuple[float, ...]:
    """µs a call over `samples` replays of a captured graph."""
    graph.replay()
    torch.cuda.synchronize()
    found = []
    for _ in range(samples):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end) * 1e3 / calls)
    return tuple(found)


def rotate(count: int, calls: Sequence[Callable[[], object]]) -> Call:
    """`call(i)` that goes round `count` prepared calls."""
    return lambda i: calls[i % count]()
