"""The engine's own all-reduces (vLLM's communicators), loaded where they can be, with the reason where not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist


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


def load(backend: str, group: dist.ProcessGroup, device: str, hidden: int) -> Communicator | str:
    """The communicator of a backend, or why there is none; the same on every rank, as all must take part."""
    found: Communicator | str
    try:
        found = _LOADERS[backend](group, device, hidden)
    except Exception as error:
        # Other people's constructors raise anything; each reason is a note, never the end of the measurement.
        found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
    loaded = torch.tensor([int(isinstance(found, Communicator))])
    dist.all_reduce(loaded, op=dist.ReduceOp.MIN, group=group)
    if int(loaded) == 0 and isinstance(found, Communicator):
        return "another rank could not load it"
    return found


def _load_pynccl(group: dist.ProcessGroup, device: str, _hidden: int) -> Communicator | str:
    from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator

    made = PyNcclCommunicator(group, torch.device(device))
    if made.disabled:
        return "vLLM found no NCCL library"
    return Communicator(reduce=made.all_reduce, held=[made])


def _load_custom(group: dist.ProcessGroup, device: str, _hidden: int) -> Communicator | str:
    from vllm.distributed.device_communicators.custom_all_reduce import CustomAllreduce

    made = CustomAllreduce(group, torch.device(device))
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


def _load_symmetric(group: dist.ProcessGroup, device: str, _hidden: int) -> Communicator | str:
    from vllm.distributed.device_communicators.symm_mem import SymmMemCommunicator

    made = SymmMemCommunicator(group, torch.device(device))
    if made.disabled:
        return "vLLM's symmetric-memory all-reduce is disabled here (device, number of ranks, or multicast)"
    return Communicator(reduce=made.all_reduce, accepts=lambda x: bool(made.should_use_symm_mem(x)), held=[made])


def _load_flashinfer(group: dist.ProcessGroup, device: str, hidden: int) -> Communicator | str:
    from vllm.distributed.device_communicators.flashinfer_all_reduce import FlashInferAllReduce

    made = FlashInferAllReduce(group, torch.device(device))
    if made.disabled:
        return "FlashInfer's all-reduce is not installed or not for this many ranks"

    def rows(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, hidden)

    return Communicator(
        reduce=lambda x: made.all_reduce(rows(x)).view(-1),
        accepts=lambda x: x.numel() % hidden == 0 and bool(made.should_use_fi_ar(rows(x))),
        held=[made],
    )


_LOADERS: dict[str, Callable[[dist.ProcessGroup, str, int], Communicator | str]] = {
    "pynccl": _load_pynccl,
    "custom": _load_custom,
    "symmetric": _load_symmetric,
    "flashinfer": _load_flashinfer,
}
