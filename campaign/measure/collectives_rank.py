"""One rank of the collectives measurement; started by `campaign.measure.collectives`, never by hand."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from campaign.measure import communicators, kernels_seen, timing
from campaign.measure.communicators import Communicator, Wanted, agree
from campaign.measure.matrices import DTYPES
from campaign.measure.operations import OPERATIONS, Exchange, Place, engine_all_reduce
from campaign.measure.ranks import Counters
from campaign.phases.collectives_data import CollectivePoint, CollectivesConfig, RankSamples, key_of
from campaign.schema import decode, encode

_PR_SET_PDEATHSIG = 1
#: Samples thrown away at the start of a point.
WARM_UPS = 3


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent wants measured."""

    config: CollectivesConfig
    todo: tuple[CollectivePoint, ...]


class Rank:
    """This process's part of the group: its device, its counter, its way to tell the parent."""

    def __init__(self, todo: Todo, number: int, folder: Path) -> None:
        self.config = todo.config
        self.number = number
        device = f"cuda:{number}" if todo.config.device == "cuda" else "cpu"
        self.place = Place(rank=number, ranks=todo.config.ranks, device=device, dtype=DTYPES[todo.config.dtype])
        self.counters = Counters(folder / "counters", todo.config.ranks)
        self.communicators: dict[str, Communicator | str] = {}
        # The parent's pipe alone carries messages; whatever libraries print goes to the log.
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    def tell(self, event: str, **fields: object) -> None:
        """One JSON line to the parent."""
        self._out.write(encode({"event": event, **fields}) + b"\n")

    def communicator(self, backend: str) -> Communicator | str:
        """The engine's communicator, loaded at its first use; a reason where there is none."""
        if backend not in self.communicators:
            element_bytes: int = torch.empty((), dtype=self.place.dtype).element_size()
            hidden = max(1, self.config.bytes_per_token // element_bytes)
            wanted = Wanted(group=self.control, device=self.place.device, dtype=self.place.dtype, hidden=hidden)
            # An engine's libraries take longer to load than any call may take.
            self.tell("loading")
            self.counters.step(self.number)
            self.communicators[backend] = communicators.load(backend, wanted)
            self.tell("ready")
        return self.communicators[backend]

    @functools.cached_property
    def control(self) -> dist.ProcessGroup:
        """The ranks over gloo, to agree on what to do next beside the GPUs."""
        made: dist.ProcessGroup = dist.new_group(backend="gloo")
        return made

    def close(self) -> None:
        """Free what the communicators hold."""
        for found in self.communicators.values():
            if isinstance(found, Communicator):
                found.close()


def main() -> None:
    """Join the group, measure each point, say that it is measured, then leave."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rank", type=int, required=True)
    given = parser.parse_args()
    _die_with_parent()
    todo = decode(given.config.read_bytes(), Todo)
    rank = Rank(todo, given.rank, given.folder)
    if todo.config.device == "cuda":
        torch.cuda.set_device(given.rank)
    dist.init_process_group(
        "nccl" if todo.config.device == "cuda" else "gloo",
        init_method=f"file://{given.folder}/rendezvous",
        rank=given.rank,
        world_size=todo.config.ranks,
        timeout=timedelta(seconds=todo.config.timeout_s * 4),
    )
    rank.tell("ready")
    for point in todo.todo:
        rank.tell("done", key=key_of(point), samples=measure(rank, point))
    rank.tell("measured")
    # Others may still read this rank's buffers.
    dist.barrier()
    rank.close()
    dist.destroy_process_group()


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent dies, so that no rank outlives a killed script."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def measure(rank: Rank, point: CollectivePoint) -> RankSamples:
    """Check the result once, warm up, then take the samples; every rank makes the same calls."""
    exchange = _exchange(rank, point)
    if isinstance(exchange, str):
        return RankSamples(rank=rank.number, note=exchange)
    rank.counters.step(rank.number)
    is_correct = exchange.check()
    timing.synchronize(rank.config.device)
    us = _samples(rank, point, exchange)
    if rank.config.device != "cuda":
        return RankSamples(rank=rank.number, us=us, is_correct=is_correct)
    graph_us, kernels, note = _graph_samples(rank, point, exchange)
    return RankSamples(
        rank=rank.number,
        us=us,
        graph_us=graph_us,
        is_correct=is_correct,
        kernel_us=kernels.us_per_call if kernels else None,
        kernels=kernels.names if kernels else (),
        note=note,
    )


def _exchange(rank: Rank, point: CollectivePoint) -> Exchange | str:
    elements = rank.place.elements(point.size_bytes)
    if point.backend == "torch":
        return OPERATIONS[point.operation](rank.place, elements, point.calls)
    communicator = rank.communicator(point.backend)
    if isinstance(communicator, str):
        return communicator
    made = engine_all_reduce(rank.place, elements, communicator)
    is_made = agree(isinstance(made, Exchange), rank.control)
    return "another rank does not take messages of this size" if isinstance(made, Exchange) and not is_made else made


def _samples(rank: Rank, point: CollectivePoint, exchange: Exchange) -> tuple[float, ...]:
    def calls() -> None:
        for i in range(point.calls):
            rank.counters.step(rank.number)
            exchange.call(i)

    return _timed(rank, point, exchange, calls)


def _timed(rank: Rank, point: CollectivePoint, exchange: Exchange, work: Callable[[], object]) -> tuple[float, ...]:
    found = []
    for sample in range(WARM_UPS + rank.config.samples):
        exchange.refresh()
        timing.synchronize(rank.config.device)
        dist.barrier()
        elapsed_us = _time_on_gpu(rank, work) if rank.config.device == "cuda" else _time_on_cpu(work)
        if sample >= WARM_UPS:
            found.append(elapsed_us if point.is_burst else elapsed_us / point.calls)
    return tuple(found)


def _time_on_cpu(work: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - start) / 1e3


def _time_on_gpu(rank: Rank, work: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    # The GPUs meet here, so that a rank that came early does not count its waiting.
    dist.all_reduce(torch.ones(1, device=rank.place.device))
    start.record()
    work()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e3


def _graph_samples(
    rank: Rank, point: CollectivePoint, exchange: Exchange
) -> tuple[tuple[float, ...], kernels_seen.Seen | None, str]:
    """Samples of one CUDA graph of all calls, its kernels' time, and why there are none."""
    graph, kept, why = torch.cuda.CUDAGraph(), [], ""
    rank.counters.step(rank.number)
    try:
        with exchange.capture(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            kept = [exchange.call(i) for i in range(point.calls)]
    except RuntimeError as error:
        why = f"no CUDA graph: {str(error).splitlines()[0]}"
    if not agree(not why, rank.control):
        return (), None, why or "no CUDA graph: another rank could not capture one"

    def replay() -> None:
        rank.counters.step(rank.number)
        graph.replay()

    us = _timed(rank, point, exchange, replay)
    exchange.refresh()
    timing.synchronize("cuda")
    dist.barrier()
    seen = kernels_seen.during(replay, point.calls) if point.operation == "all_reduce" else None
    # A graph that holds collectives must be gone before its communicator.
    del kept
    graph.reset()
    return us, seen, ""


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        # The top of the script: the parent reads this line as why the rank ended, whatever it was.
        sys.stderr.write(f"rank failed: {type(error).__name__}: {error}\n")
        raise SystemExit(1) from error
