"""Prints the parameter shapes that vLLM itself makes: `python -m tests.model.engine_shapes TP EP LAYERS CONFIG …`.

Models are built with parameters on the meta device (no memory, no weights) as rank 0 of a stand-in process
group of TP ranks, in a process of its own, since vLLM's parallel state is global. One JSON line a model: shapes,
or an error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def stand_in_for(tp: int) -> None:
    """A process group of `tp` ranks that this process alone pretends to be rank 0 of, without channels."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from vllm.distributed import parallel_state

    dist.init_process_group(backend="fake", store=FakeStore(), rank=0, world_size=tp)
    new_group, made = dist.new_group, parallel_state.GroupCoordinator.__init__

    def fake_group(*arguments: Any, **options: Any) -> Any:
        return new_group(*arguments, **options | {"backend": "fake"})

    def without_channels(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options | {"use_message_queue_broadcaster": False, "use_device_communicator": False})

    dist.new_group = fake_group
    parallel_state.GroupCoordinator.__init__ = without_channels


def parameters_on_meta() -> Any:
    """A mode in which `torch.empty`, which vLLM makes parameters with, takes no memory; all else is computed."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = dict(kwargs or {})
            if function is torch.empty and given.get("device") is None:
                given["device"] = "meta"
            return function(*args, **given)

    return Mode()


def build(folder: str, tp: int, ep: int) -> dict[str, list[int]]:
    """Parameter name → shape of rank 0."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model

    arguments = EngineArgs(
        model=folder,
        tokenizer=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="bfloat16",
        tensor_parallel_size=tp,
        enable_expert_parallel=ep > 1,
        max_model_len=1024,
        enforce_eager=True,
    )
    config = arguments.create_engine_config()
    with set_current_vllm_config(config):
        if not parallel_state.model_parallel_is_initialized():
            parallel_state.init_distributed_environment(world_size=tp, rank=0, local_rank=0, backend="fake")
            parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp, backend="fake")
        with parameters_on_meta():
            model = initialize_model(vllm_config=config)
    return {name: list(parameter.shape) for name, parameter in model.named_parameters()}


def cut(path: str, layers: int) -> dict[str, Any]:
    """A config of a few layers, without quantization and without the parts that see or hear."""
    config: dict[str, Any] = json.loads(Path(path).read_text())
    config = config.get("text_config", config)
    config.pop("quantization_config", None)
    config["num_hidden_layers"] = min(layers, config["num_hidden_layers"])
    for key in ("layer_types", "attn_type_list"):
        if key in config:
            config[key] = config[key][:layers]
    return config


def main() -> None:
    """Build each model and print its shapes."""
    tp, ep, layers, paths = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stand_in_for(tp)
    for path in paths:
        answer: dict[str, Any] = {"name": Path(path).stem}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(cut(path, layers)))
            try:
                answer["shapes"] = build(folder, tp, ep)
            except Exception as error:  # noqa: BLE001 - the model that vLLM cannot build is named, the next is tried
                answer["error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:300]}"
        out.write(json.dumps(answer) + "\n")
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
