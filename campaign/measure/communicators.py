"""All-reduces beside torch.distributed's (vLLM's communicators, symmetric memory), with the reason where not."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from campaign.measure.reasons import reason_of

NEEDS_MULTICAST = "asks for NVLink multicast, which TORCH_SYMM_MEM_DISABLE_MULTICAST=1 forbids"
#: Largest message through symmetric memory.
SYMMETRIC_BYTES = 64 << 20


@dataclass(kw_only=True)
class Communicator:
    """An out-of-place all-reduce of one rank."""

    reduce: Callable[[torch.Tensor], torch.Tensor | None]
    """The sum over all ranks; its input stays as it is."""
    accepts: Callable[[torch.Tensor], bool] = lambda _x: True
    """Whether it is made for a message of this size."""
    capture: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext
    """To be entered around the capture of a CUDA graph."""
    close: Callable[[], object] = lambda: None
    """Frees its buffers; graphs that hold its calls must be gone by then."""
    held: list[Any] = field(default_factory=list)
    """Objects to keep alive."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a communicator is made for."""

    group: dist.ProcessGroup
    """The ranks over gloo, for the set-up."""
    device: str
    """cuda:N of this rank."""
    dtype: torch.dtype
    """Format of the elements."""
    hidden: int
    """Elements of one token."""


def load(backend: str, wanted: Wanted) -> Communicator | str:
    """The communicator of a backend, or why there is none; the same on every rank, as all must take part."""
    found: Communicator | str
    try:
        found = _LOADERS[backend](wanted)
    except Exception as error:
        # Other people's constructors raise anything, from ImportError to bare AssertionError. A rank that let one pass
        # would leave the others waiting in `agree`; each reason is a note, never the end of the measurement.
        found = reason_of(error)
    if not agree(isinstance(found, Communicator), wanted.group) and isinstance(found, Communicator):
        return "another rank could not load it"
    return found


def agree(is_fine: bool, group: dist.ProcessGroup) -> bool:
    """Whether it is so on every rank; ranks that go different ways would wait for each other for ever."""
    answer = torch.tensor([int(is_fine)])
    dist.all_reduce(answer, op=dist.ReduceOp.MIN, group=group)
    return bool(int(answer))


def is_multicast_off() -> bool:
    """Whether the environment forbids NVLink multicast; nothing here may use it then."""
    return os.environ.get("TORCH_SYMM_MEM_DISABLE_MULTICAST") == "1"


def _load_pynccl(wanted: Wanted) -> Communicator | str:
    from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator

    made = PyNcclCommunicator(wanted.group, torch.device(wanted.device))
    if made.disabled:
        return "vLLM found no NCCL library"
    return Communicator(reduce=made.all_reduce, held=[made])


def _load_custom(wanted: Wanted) -> Communicator | str:
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce

    made = CustomAllreduce(wanted.group, torch.device(wanted.device))
    if made.disabled:
        return (
            "vLLM's custom all-reduce is disabled here (over two GPUs without NVLink, no P2P, or the number of ranks)"
        )
    return Communicator(
        reduce=made.custom_all_reduce,
        accepts=lambda x: bool(made.should_custom_ar(x)),
        capture=made.capture,
        close=made.close,
        held=[made],
    )


def _load_symmetric(wanted: Wanted) -> Communicator | str:
    # vLLM's communicator only works with multicast: it takes multimem kernels from four ranks on.
    if is_multicast_off():
        return f"vLLM's symmetric-memory all-reduce {NEEDS_MULTICAST}"
    from vllm.distributed.device_communicators.symm_mem import SymmMemCommunicator

    made = SymmMemCommunicator(wanted.group, torch.device(wanted.device))
    if made.disabled:
        return "vLLM's symmetric-memory all-reduce is disabled here (device, number of ranks, or multicast)"
    return Communicator(reduce=made.all_reduce, accepts=lambda x: bool(made.should_use_symm_mem(x)), held=[made])


def _load_flashinfer(wanted: Wanted) -> Communicator | str:
    if is_multicast_off():
        return f"FlashInfer's all-reduce {NEEDS_MULTICAST}"
    from vllm.distributed.device_communicators.flashinfer_all_reduce import FlashInferAllReduce

    made = FlashInferAllReduce(wanted.group, torch.device(wanted.device))
    if made.disabled:
        return "FlashInfer's all-reduce is not installed or not for this many ranks"

    def rows(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, wanted.hidden)

    return Communicator(
        reduce=lambda x: made.all_reduce(rows(x)).view(-1),
        accepts=lambda x: x.numel() % wanted.hidden == 0 and bool(made.should_use_fi_ar(rows(x))),
        held=[made],
    )


def _load_one_shot(wanted: Wanted) -> Communicator | str:
    """Each rank reads all others' data and sums: one step, (p − 1) × S over the link."""
    buffer, name = _symmetric_buffer(wanted)

    def reduce(x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = torch.ops.symm_mem.one_shot_all_reduce_copy(buffer[: x.numel()], x, "sum", name)
        return made

    return Communicator(reduce=reduce, accepts=_fits, held=[buffer])


def _load_two_shot(wanted: Wanted) -> Communicator | str:
    """Each rank sums its part and sends it to all others: two steps, 2 (p − 1) / p × S over the link."""
    buffer, name = _symmetric_buffer(wanted)

    def reduce(x: torch.Tensor) -> torch.Tensor:
        part = buffer[: x.numel()]
        part.copy_(x)
        torch.ops.symm_mem.two_shot_all_reduce_(part, "sum", name)
        return part.clone()

    return Communicator(reduce=reduce, accepts=_fits, held=[buffer])


def _symmetric_buffer(wanted: Wanted) -> tuple[torch.Tensor, str]:
    """A buffer that every rank maps, and the name of its group; loads and stores over NVLink, never multicast."""
    from torch.distributed import _symmetric_memory as symmetric

    element_bytes: int = torch.empty((), dtype=wanted.dtype).element_size()
    elements = SYMMETRIC_BYTES // element_bytes
    buffer = symmetric.empty(elements, dtype=wanted.dtype, device=torch.device(wanted.device))
    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("the ranks' group is gone")
    symmetric.rendezvous(buffer, group)
    return buffer, str(group.group_name)


def _fits(x: torch.Tensor) -> bool:
    size: int = x.numel() * x.element_size()
    return size <= SYMMETRIC_BYTES and size % 16 == 0


_LOADERS: dict[str, Callable[[Wanted], Communicator | str]] = {
    "pynccl": _load_pynccl,
    "custom": _load_custom,
    "symmetric": _load_symmetric,
    "one_shot": _load_one_shot,
    "two_shot": _load_two_shot,
    "flashinfer": _load_flashinfer,
}
