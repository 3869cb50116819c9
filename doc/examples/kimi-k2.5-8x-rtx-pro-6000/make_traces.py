"""Synthesises the profiler traces of the Kimi-K2.5 campaign from the figures that were published of it.

    python make_traces.py [--out traces] [--full]

No run was recorded: every number below is a published one, and what was not published (calls of other categories than
all-reduce, idle time, skew between ranks, kernel names) is filled in as plainly as possible and says so in its name.
The small variant (default) holds the kernels and the steps alone; `--full` adds what a profiler with stacks writes
beside them and reaches the campaign's 624 MB. Both have the same kernels at the same times.
"""

from __future__ import annotations

import argparse
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

RANKS = 8
STEPS = 155
LAYERS = 61
FULL_BYTES = 624_000_000
#: Milliseconds a decode step by category, as published; they add up to the step of 21.68 ms.
CATEGORY_MS = {"gemm": 2.08, "attention": 1.31, "rms_norm": 1.12, "rope": 0.81, "silu_mul": 0.47, "other": 4.72}
ALLREDUCE_MS = 11.17
#: vLLM's custom all-reduce runs once a step for 1,125 µs; the other 127 calls are NCCL's.
CUSTOM_US = 1125.0
NCCL_CALLS = 127

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CUSTOM = "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)"
DEVICE = "NVIDIA RTX PRO 6000 Blackwell"
SAYS = (
    "The traces are synthesised from published figures, not recorded from a run: all steps and ranks are alike, so "
    "spread, skew, idle time, kernel names and the calls of other categories than all-reduce say nothing"
)
DECODE = "execute_context_0(0)_generation_1(1)"
#: The step after the last decode step: without it the last one's length would not be known.
CLOSING = "execute_context_1(128)_generation_0(0)"
STREAM, BASE_NS = 7, 1_700_000_000_000_000_000


def parts_ns(total_ns: int, count: int) -> list[int]:
    """`total_ns` cut into `count` whole parts that differ by at most one."""
    return [total_ns * (i + 1) // count - total_ns * i // count for i in range(count)]


def step_kernels() -> list[tuple[str, int]]:
    """(name, ns) of every kernel of one decode step, in order."""
    each = {name: parts_ns(round(ms * 1e6), LAYERS) for name, ms in CATEGORY_MS.items()}
    custom_ns = round(CUSTOM_US * 1e3)
    nccl = iter(parts_ns(round(ALLREDUCE_MS * 1e6) - custom_ns, NCCL_CALLS))
    kernels = [(NCCL, next(nccl))]
    order = ("rms_norm", "gemm", "rope", "attention", "", "silu_mul", "other", "")
    kernels += [
        (f"synthesised_{name}", each[name][layer]) if name else (NCCL, next(nccl))
        for layer in range(LAYERS)
        for name in order
    ]
    return [*kernels, *((NCCL, ns) for ns in nccl), (CUSTOM, custom_ns)]


class Writer:
    """One rank's file, in the layout that torch's profiler writes, each event on lines of its own."""

    def __init__(self, out: io.BufferedIOBase, rank: int) -> None:
        self._out = out
        self.rank = rank
        self.written_bytes = 0
        devices = ", ".join(f'{{"id": {i}, "name": "{DEVICE}"}}' for i in range(RANKS))
        self.write(
            f'{{\n"schemaVersion": 1,\n"campaign_synthesised": "{SAYS}",\n"deviceProperties": [{devices}],\n'
            f'"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {RANKS}}},\n'
            f'"baseTimeNanoseconds": {BASE_NS},\n"traceEvents": [\n'
        )

    def write(self, text: str) -> None:
        data = text.encode()
        self.written_bytes += len(data)
        self._out.write(data)

    def event(self, category: str, name: str, lane: tuple[int, int], start_ns: int, ns: int, args: str = "") -> None:  # noqa: PLR0917
        more = f', "args": {{{args}}}' if args else ""
        self.write(
            f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {lane[0]}, "tid": {lane[1]}, '
            f'"ts": {start_ns // 1000}.{start_ns % 1000:03d}, "dur": {ns // 1000}.{ns % 1000:03d}{more}}},\n'
        )

    def close(self, end_ns: int) -> None:
        self.write(
            f'{{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": {end_ns // 1000}.000}}\n'
            f'],\n"traceName": "rank{self.rank}"}}\n'
        )


def write_step(  # noqa: PLR0917
    writer: Writer, number: int, start_ns: int, kernels: list[tuple[str, int]], name: str, filler: int
) -> int:
    """One step; returns its end. `filler`: host events beside it (full variant), 0 = none."""
    length_ns = sum(ns for _, ns in kernels)
    rank, host = writer.rank, (1000 + writer.rank, 1000 + writer.rank)
    if filler:
        launch_ns = start_ns - 40_000
        writer.event("user_annotation", name, host, launch_ns - 100_000, 160_000)
        writer.event("cuda_runtime", "cudaGraphLaunch", host, launch_ns, 30_000, f'"correlation": {number}')
        for i in range(filler):
            frame = f"vllm/v1/worker/gpu_model_runner.py({100 + i % 900}): synthesised_frame"
            stack = f'"Python parent id": {max(i - 1, 0)}, "Python id": {i}, "Ev Idx": {number * filler + i}'
            writer.event("python_function", frame, host, launch_ns - 90_000 + 40 * i % 80_000, 30, stack)
    writer.event("gpu_user_annotation", name, (rank, STREAM), start_ns, length_ns)
    now_ns = start_ns
    for node, (kernel, ns) in enumerate(kernels):
        args = (
            f'"device": {rank}, "stream": {STREAM}, "correlation": {number}, "graph node id": {node}' if filler else ""
        )
        writer.event("kernel", kernel, (rank, STREAM), now_ns, ns, args)
        now_ns += ns
    return now_ns


def write_rank(out: io.BufferedIOBase, rank: int, filler: int, steps: int = STEPS) -> int:
    """One rank's whole trace; returns its size in bytes."""
    writer, kernels = Writer(out, rank), step_kernels()
    now_ns = 1_000_000_000
    for number in range(1, steps + 1):
        now_ns = write_step(writer, number, now_ns, kernels, DECODE, filler)
    now_ns = write_step(writer, steps + 1, now_ns, [("synthesised_gemm", 1_000_000)], CLOSING, filler)
    writer.close(now_ns)
    return writer.written_bytes


def filler_for(total_bytes: int) -> int:
    """Host events a step that make the full variant as large as it was."""
    sizes = [write_rank(io.BytesIO(), 0, filler, steps=2) for filler in (1, 101)]
    per_event = (sizes[1] - sizes[0]) / 100 / 3
    bare = write_rank(io.BytesIO(), 0, 1)
    return 1 + round((total_bytes / RANKS - bare) / per_event / (STEPS + 1))


def make(folder: Path, *, is_full: bool) -> Iterator[tuple[Path, int]]:
    """Write every rank's file; yields (path, bytes before compression)."""
    folder.mkdir(parents=True, exist_ok=True)
    filler = filler_for(FULL_BYTES) if is_full else 0
    for rank in range(RANKS):
        if is_full:
            path = folder / f"rank{rank}.pt.trace.json"
            with path.open("wb") as plain:
                yield path, write_rank(plain, rank, filler)
        else:
            path = folder / f"rank{rank}.pt.trace.json.gz"
            with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
                yield path, write_rank(packed, rank, filler)


def main() -> None:
    """Write the traces and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "traces")
    parser.add_argument("--full", action="store_true", help="624 MB, with host events, uncompressed")
    options = parser.parse_args()
    total = 0
    for path, size_bytes in make(options.out, is_full=options.full):
        total += size_bytes
        print(f"{path}: {size_bytes / 1e6:.1f} MB")  # noqa: T201
    print(f"{total / 1e6:.1f} MB before compression")  # noqa: T201


if __name__ == "__main__":
    main()
