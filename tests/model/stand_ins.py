"""What stands in for hardware while vLLM's CPU build constructs a model's parameters; none of it is ever computed with.

A parameter's shape is decided by the model's and the quantization's code, which is vLLM's own here. What is replaced
are the questions that the CPU build answers with a refusal before it comes to that: ranks, kernels, memory.
"""

from __future__ import annotations

from typing import Any


def stand_in_for(ranks: int) -> None:
    """A process group of `ranks` ranks that this process alone pretends to be rank 0 of, without channels."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from vllm.distributed import parallel_state

    dist.init_process_group(backend="fake", store=FakeStore(), rank=0, world_size=ranks)
    new_group, made = dist.new_group, parallel_state.GroupCoordinator.__init__

    def fake_group(*arguments: Any, **options: Any) -> Any:
        return new_group(*arguments, **options | {"backend": "fake"})

    def without_channels(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options | {"use_message_queue_broadcaster": False, "use_device_communicator": False})

    dist.new_group = fake_group
    parallel_state.GroupCoordinator.__init__ = without_channels
    parallel_state.in_the_same_node_as = lambda *_arguments, **_options: [True] * ranks


def parameters_on_meta() -> Any:
    """A mode in which tensors that vLLM makes parameters of take no memory; all else is computed."""
    import torch
    from torch.overrides import TorchFunctionMode

    others = (torch.zeros, torch.ones, torch.full)

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            # Small ones may be tables that are read while the model is built, e.g. which expert lies where.
            if (function is torch.empty or (function in others and len(args) == 3)) and given.get("device") is None:
                given["device"] = "meta"
            return function(*args, **given)

    return Mode()


def dense_for_sparse_attention() -> None:
    """The CPU's dense MLA where a model asks for sparse attention, which this build refuses; it has no parameters."""
    from vllm.platforms import current_platform

    platform = type(current_platform)
    choose = platform.get_attn_backend_cls.__func__

    def dense(cls: Any, /, selected_backend: Any, attn_selector_config: Any, **options: Any) -> Any:
        asked = attn_selector_config._replace(use_sparse=False)
        return choose(cls, selected_backend, asked, **options)

    platform.get_attn_backend_cls = classmethod(dense)


def any_width_for_experts() -> None:
    """The CPU's expert kernel at widths that it refuses to compute."""
    from vllm.model_executor.layers.fused_moe.oracle import unquantized

    kernel = unquantized.backend_to_kernel_cls(unquantized.UnquantizedMoeBackend.CPU)[0]
    kernel.is_supported_config = staticmethod(lambda *_arguments: (True, None))


def marlin_for_quantized_weights() -> None:
    """Marlin, which every NVIDIA GPU has, for quantized weights, whose kernels this build lacks."""
    from vllm.model_executor.kernels import linear
    from vllm.model_executor.layers.fused_moe.experts.marlin_moe import MarlinExpertsBase
    from vllm.platforms import PlatformEnum

    MarlinExpertsBase._supports_current_device = staticmethod(lambda: True)
    for table in (value for name, value in vars(linear).items() if name.startswith("_POSSIBLE_")):
        marlin = [kernel for kernel in table.get(PlatformEnum.CUDA, ()) if "Marlin" in kernel.__name__]
        if marlin:
            table[PlatformEnum.CPU] = marlin
        for kernel in marlin:
            kernel.is_supported = classmethod(lambda *_arguments: (True, None))
            kernel.can_implement = classmethod(lambda *_arguments: (True, None))
