"""Prints the parameters that vLLM makes: `python -m tests.model.engine_shapes TP EP DP LAYERS CONFIG[:FORMAT] …`.

Models are built with parameters on the meta device (no memory, no weights) as rank 0 of a stand-in process
group, in a process of its own, since vLLM's parallel state is global. FORMAT is `own`, the checkpoint's own
quantization, or a name of `tests.measure.weight_formats`; without it nothing is quantized. One JSON line a model:
shape and bytes of each parameter, or an error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.measure import weight_formats
from tests.model import stand_ins


def build(folder: str, tp: int, ep: int, dp: int, is_quantized: bool) -> dict[str, tuple[list[int], int]]:
    """Parameter name → shape and bytes of rank 0."""
    import torch
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
        data_parallel_size=dp,
        data_parallel_address="127.0.0.1",
        enable_expert_parallel=ep > 1,
        max_model_len=1024,
        enforce_eager=True,
        moe_backend="marlin" if is_quantized else "auto",
    )
    config = arguments.create_engine_config()
    torch.set_default_dtype(torch.bfloat16)
    with set_current_vllm_config(config):
        if not parallel_state.model_parallel_is_initialized():
            parallel_state.init_distributed_environment(world_size=tp, rank=0, local_rank=0, backend="fake")
            parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp, backend="fake")
        with stand_ins.parameters_on_meta():
            model = initialize_model(vllm_config=config)
    return {name: (list(p.shape), p.numel() * p.element_size()) for name, p in model.named_parameters()}


def cut(path: str, layers: int, form: str = "") -> dict[str, Any]:
    """A config of a few layers in one weight format, without the parts that see or hear."""
    whole: dict[str, Any] = json.loads(Path(path).read_text())
    config: dict[str, Any] = whole.get("text_config", whole)
    own = config.pop("quantization_config", None) or whole.get("quantization_config")
    quantization = own if form == "own" else getattr(weight_formats, form) if form else None
    if quantization is not None:
        config["quantization_config"] = quantization
    config["num_hidden_layers"] = min(layers, config["num_hidden_layers"])
    for key in ("layer_types", "attn_type_list"):
        if key in config:
            config[key] = config[key][:layers]
    return config


def main() -> None:
    """Build each model and print its parameters."""
    tp, ep, dp, layers = (int(text) for text in sys.argv[1:5])
    os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stand_ins.stand_in_for(tp * dp)
    stand_ins.dense_for_sparse_attention()
    stand_ins.any_width_for_experts()
    if any(":" in name for name in sys.argv[5:]):
        stand_ins.marlin_for_quantized_weights()
    for name in sys.argv[5:]:
        path, _, form = name.partition(":")
        answer: dict[str, Any] = {"name": Path(path).stem, "form": form}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(cut(path, layers, form)))
            try:
                answer["parameters"] = build(folder, tp, ep, dp, bool(form))
            except Exception as error:  # noqa: BLE001 - the model that vLLM cannot build is named, the next is tried
                answer["error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:300]}"
        out.write(json.dumps(answer) + "\n")
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
