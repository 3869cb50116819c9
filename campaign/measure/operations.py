"""Operations that ranks run together: the call, its check, and fresh data for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from campaign.measure.communicators import Communicator

#: Buffers that calls go round.
BUFFERS = 8


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rank's data lie."""

    rank: int
    """Its number."""
    ranks: int
    """Processes of the group."""
    device: str
    """cpu or cuda:N."""
    dtype: torch.dtype
    """Format of the elements."""

    def elements(self, size_bytes: int) -> int:
        """Elements of a message, a multiple of the ranks so that it can be split."""
        element_bytes: int = torch.empty((), dtype=self.dtype).element_size()
        return max(self.ranks, size_bytes // element_bytes // self.ranks * self.ranks)

    def pattern(self, elements: int, rank: int) -> torch.Tensor:
        """What `rank` sends: small whole numbers, so that sums are exact in bf16."""
        return ((torch.arange(elements, device=self.device) + 3 * rank) % 7 + rank % 4).to(self.dtype)

    def total(self, elements: int) -> torch.Tensor:
        """The sum of what all ranks send."""
        summed = torch.zeros(elements, dtype=torch.float32, device=self.device)
        for rank in range(self.ranks):
            summed += self.pattern(elements, rank)
        return summed.to(self.dtype)


@dataclass(kw_only=True)
class Exchange:
    """One operation with its buffers."""

    call: Callable[[int], object]
    """Call number i of a sample."""
    check: Callable[[], bool]
    """Makes one call on fresh data and tells whether this rank's result is right."""
    refresh: Callable[[], object] = lambda: None
    """Puts fresh data into the buffers, outside the timed window."""
    capture: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    """To be entered around the capture of a CUDA graph."""


def _all_reduce(place: Place, elements: int, calls: int) -> Exchange:
    data = place.pattern(elements, place.rank)
    expected = place.total(elements)
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


def _all_gather(place: Place, elements: int, _calls: int) -> Exchange:
    part = elements // place.ranks
    mine = place.pattern(part, place.rank)
    out = torch.empty(elements, dtype=place.dtype, device=place.device)
    expected = torch.cat([place.pattern(part, r) for r in range(place.ranks)])
    return _into(out, expected, lambda: dist.all_gather_into_tensor(out, mine))


def _reduce_scatter(place: Place, elements: int, _calls: int) -> Exchange:
    part = elements // place.ranks
    mine = place.pattern(elements, place.rank)
    out = torch.empty(part, dtype=place.dtype, device=place.device)
    here = slice(place.rank * part, (place.rank + 1) * part)
    expected = place.total(elements)[here].clone()
    return _into(out, expected, lambda: dist.reduce_scatter_tensor(out, mine))


def _all_to_all(place: Place, elements: int, _calls: int) -> Exchange:
    part = elements // place.ranks
    mine = place.pattern(elements, place.rank)
    out = torch.empty(elements, dtype=place.dtype, device=place.device)
    here = slice(place.rank * part, (place.rank + 1) * part)
    expected = torch.cat([place.pattern(elements, r)[here] for r in range(place.ranks)])
    return _into(out, expected, lambda: dist.all_to_all_single(out, mine))


OPERATIONS: dict[str, Callable[[Place, int, int], Exchange]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
}


def engine_all_reduce(place: Place, elements: int, communicator: Communicator) -> Exchange | str:
    """An engine's all-reduce of this size, or why it is not for it."""
    data = place.pattern(elements, place.rank)
    if not communicator.accepts(data):
        return "not made for messages of this size"
    inputs = [data.clone() for _ in range(BUFFERS)]

    def check() -> bool:
        found = communicator.reduce(inputs[0])
        return found is not None and bool(torch.equal(found.view(-1), place.total(elements)))

    return Exchange(call=lambda i: communicator.reduce(inputs[i % BUFFERS]), check=check, capture=communicator.capture)
