"""One rank of the collectives measurement; started by `campaign.measure.collectives`, never by hand."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist

from campaign.measure import timing
from campaign.measure.matrices import DTYPES
from campaign.measure.ranks import Counters
from campaign.phases.collectives_data import CollectivePoint, CollectivesConfig, RankSamples, key_of
from campaign.schema import decode, encode

_PR_SET_PDEATHSIG = 1
#: Samples thrown away at the start of a point.
WARM_UPS = 3
#: Buffers that calls go round.
BUFFERS = 8


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent wants measured."""

    config: CollectivesConfig
    todo: tuple[CollectivePoint, ...]


class Rank:
    """This process's part of the group: its device, its counter, its way to tell the parent."""

    def __init__(self, todo: Todo, number: int, folder: Path) -> None:
        self.config = todo.config
        self.number = number
        self.device = f"cuda:{number}" if todo.config.device == "cuda" else "cpu"
        self.dtype = DTYPES[todo.config.dtype]
        self.counters = Counters(folder / "counters", todo.config.ranks)
        self.element_bytes: int = torch.empty((), dtype=self.dtype).element_size()
        # The parent's pipe alone carries messages; whatever libraries print goes to the log.
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)

    def tell(self, event: str, **fields: object) -> None:
        """One JSON line to the parent."""
        self._out.write(encode({"event": event, **fields}) + b"\n")

    def elements(self, size_bytes: int) -> int:
        """Elements of a message, a multiple of the ranks so that it can be split."""
        ranks = self.config.ranks
        return max(ranks, size_bytes // self.element_bytes // ranks * ranks)

    def pattern(self, elements: int, rank: int) -> torch.Tensor:
        """What `rank` sends: small whole numbers, so that sums are exact in bf16."""
        return ((torch.arange(elements, device=self.device) + 3 * rank) % 7 + rank % 4).to(self.dtype)


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
    dist.destroy_process_group()


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent dies, so that no rank outlives a killed script."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(kw_only=True)
class Exchange:
    """One operation with its buffers."""

    call: Callable[[int], object]
    """Call number i of a sample."""
    check: Callable[[], bool]
    """Makes one call on fresh data and tells whether this rank's result is right."""
    refresh: Callable[[], object] = lambda: None
    """Puts fresh data into the buffers, outside the timed window."""


def measure(rank: Rank, point: CollectivePoint) -> RankSamples:
    """Check the result once, warm up, then take the samples; every rank makes the same calls."""
    exchange = OPERATIONS[point.operation](rank, rank.elements(point.size_bytes), point.calls)
    rank.counters.step(rank.number)
    is_correct = exchange.check()
    timing.synchronize(rank.config.device)
    return RankSamples(rank=rank.number, us=_samples(rank, point, exchange), is_correct=is_correct)


def _samples(rank: Rank, point: CollectivePoint, exchange: Exchange) -> tuple[float, ...]:
    found = []
    for sample in range(WARM_UPS + rank.config.samples):
        exchange.refresh()
        timing.synchronize(rank.config.device)
        dist.barrier()
        start = time.perf_counter_ns()
        for i in range(point.calls):
            rank.counters.step(rank.number)
            exchange.call(i)
        timing.synchronize(rank.config.device)
        elapsed_us = (time.perf_counter_ns() - start) / 1e3
        if sample >= WARM_UPS:
            found.append(elapsed_us if point.is_burst else elapsed_us / point.calls)
    return tuple(found)


def _all_reduce(rank: Rank, elements: int, calls: int) -> Exchange:
    data = rank.pattern(elements, rank.number)
    expected = torch.stack([rank.pattern(elements, r) for r in range(rank.config.ranks)]).sum(0).to(rank.dtype)
    # In place, sums grow with each call: several buffers and fresh data before each sample keep them finite.
    work = [data.clone() for _ in range(min(BUFFERS, calls))]

    def check() -> bool:
        dist.all_reduce(work[0])
        return bool(torch.equal(work[0], expected))

    def refresh() -> None:
        for buffer in work:
            buffer.copy_(data)

    return Exchange(call=lambda i: dist.all_reduce(work[i % len(work)]), check=check, refresh=refresh)


def _into(out: torch.Tensor, expected: torch.Tensor, call: Callable[[], object]) -> Exchange:
    def check() -> bool:
        out.zero_()
        call()
        return bool(torch.equal(out, expected))

    return Exchange(call=lambda _i: call(), check=check)


def _all_gather(rank: Rank, elements: int, _calls: int) -> Exchange:
    part = elements // rank.config.ranks
    mine = rank.pattern(part, rank.number)
    out = torch.empty(elements, dtype=rank.dtype, device=rank.device)
    expected = torch.cat([rank.pattern(part, r) for r in range(rank.config.ranks)])
    return _into(out, expected, lambda: dist.all_gather_into_tensor(out, mine))


def _reduce_scatter(rank: Rank, elements: int, _calls: int) -> Exchange:
    part = elements // rank.config.ranks
    mine = rank.pattern(elements, rank.number)
    out = torch.empty(part, dtype=rank.dtype, device=rank.device)
    here = slice(rank.number * part, (rank.number + 1) * part)
    expected = torch.stack([rank.pattern(elements, r)[here] for r in range(rank.config.ranks)]).sum(0).to(rank.dtype)
    return _into(out, expected, lambda: dist.reduce_scatter_tensor(out, mine))


def _all_to_all(rank: Rank, elements: int, _calls: int) -> Exchange:
    part = elements // rank.config.ranks
    mine = rank.pattern(elements, rank.number)
    out = torch.empty(elements, dtype=rank.dtype, device=rank.device)
    here = slice(rank.number * part, (rank.number + 1) * part)
    expected = torch.cat([rank.pattern(elements, r)[here] for r in range(rank.config.ranks)])
    return _into(out, expected, lambda: dist.all_to_all_single(out, mine))


OPERATIONS: dict[str, Callable[[Rank, int, int], Exchange]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
}

if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        sys.stderr.write(f"rank failed: {type(error).__name__}: {error}\n")
        raise SystemExit(1) from error
