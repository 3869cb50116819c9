"""Our shard shapes and bytes against the parameters that vLLM makes for the same config, parallelism and format."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from campaign.model import Latent, Linear, read_model, shard
from tests.model.engine_shapes import cut
from tests.model.test_sharding import CONFIGS

ROOT = Path(__file__).parent.parent.parent
#: Weights that vLLM builds from others after loading, which are thus no parameters.
MADE_LATER = ("k_absorb", "v_absorb")
#: Marlin pads the hidden size of MXFP4 experts to this; how a kernel pads is its own affair, so it is no part of ours.
MARLIN_PADS_HIDDEN_TO = 256
#: A few scales of whole tensors, and blocks cut at an edge, which our bytes a weight leave out.
TOLERANCE = 1e-3
#: Parameters that are no weights of a linear; GPTQ stores zero points that symmetric kernels do not read.
OTHER = re.compile(r"embed|bias$|norm|sinks|\.attn\.\w+_(scale|point)$|qzeros_of_symmetric")
#: Enough for the dense first layers of every model here and one layer of experts.
LAYERS = 4

#: vLLM's parameter within a layer → our kind.
KINDS = (
    (r"shared_expert_gate", "shared_gate"),
    (r"shared_experts?\.gate_up_proj", "shared_gate_up"),
    (r"shared_experts?\.down_proj", "shared_down"),
    (r"experts\..*w13_", "moe_gate_up"),
    (r"experts\..*w2_", "moe_down"),
    (r"(gate|router)\.\w+$", "router"),
    (r"gate_up_proj", "gate_up"),
    (r"down_proj", "down"),
    (r"fused_qkv_a_proj", "qkv_a"),
    (r"kv_a_proj_with_mqa", "kv_a"),
    (r"kv_b_proj", "kv_b"),
    (r"q_b_proj", "q_b"),
    (r"qkv_proj", "qkv"),
    (r"q_proj", "q"),
    (r"o_proj", "o"),
    (r"indexer\.wq_b", "index_q"),
    (r"indexer\.wk_weights_proj", "index_k_weights"),
)


Parameters = dict[str, tuple[list[int], int]]


def kind_of(name: str) -> str:
    if name.startswith("lm_head"):
        return "lm_head"
    inner = name.split(".layers.")[1]
    return next((kind for pattern, kind in KINDS if re.search(pattern, inner)), f"stranger {inner}")


def weights_in(parameters: Parameters, form: str) -> Parameters:
    """Weights and their scales; norms, biases, the embedding and what is only stored left out."""
    names = {name: name.replace("qzeros", "qzeros_of_symmetric") if form == "GPTQ" else name for name in parameters}
    return {name: parameters[name] for name, told in names.items() if not OTHER.search(told)}


def linears_of(config: dict[str, Any], tp: int, ep: int, dp: int) -> list[Linear]:
    shards = shard(read_model(config), tp, ep, dp)
    return [line for line in (*shards.linears, *shards.prefill_linears) if line.kind not in MADE_LATER]


def shapes_found(parameters: Parameters) -> dict[str, set[tuple[int, ...]]]:
    """Shapes by kind over all layers."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for name, (shape, _) in weights_in(parameters, "").items():
        found.setdefault(kind_of(name), set()).add(tuple(shape))
    return found


def shapes_expected(lines: list[Linear]) -> dict[str, set[tuple[int, ...]]]:
    return {
        line.kind: {(line.matrices, line.n, line.k) if line.active is not None else (line.n, line.k)} for line in lines
    }


def bytes_found(parameters: Parameters, form: str) -> dict[str, list[float]]:
    """Bytes of each kind, weights with their scales, smallest first where layers differ."""
    layers: dict[tuple[str, str], float] = {}
    for name, (_, size) in weights_in(parameters, form).items():
        layer = name.split(".layers.")[-1].split(".")[0]
        layers[kind_of(name), layer] = layers.get((kind_of(name), layer), 0) + size
    kinds = dict.fromkeys(kind for kind, _ in layers)
    return {kind: sorted({size for (each, _), size in layers.items() if each == kind}) for kind in kinds}


def bytes_expected(lines: list[Linear], method: str) -> dict[str, list[float]]:
    expected: dict[str, list[float]] = {}
    for line in lines:
        padding = 1.0
        if method == "mxfp4" and line.category == "moe_gemm":
            hidden = line.k if line.kind == "moe_gate_up" else line.n
            padding = -(-hidden // MARLIN_PADS_HIDDEN_TO) * MARLIN_PADS_HIDDEN_TO / hidden
        kind = line.kind.removesuffix(f"_{line.label.replace(' ', '_')}")
        expected.setdefault(kind, []).append(line.weight_bytes * padding)
    return {kind: sorted(sizes) for kind, sizes in expected.items()}


def answers_of(names: list[str], tp: int, ep: int = 1, dp: int = 1, layers: int = LAYERS) -> dict[str, Parameters]:
    """What vLLM makes for each `config[:format]`, a name in the test data or a path."""
    paths = [str(CONFIGS / f"{name.partition(':')[0]}.json") + "".join(name.partition(":")[1:]) for name in names]
    command = [sys.executable, "-m", "tests.model.engine_shapes", *map(str, (tp, ep, dp, layers)), *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(names), done.stderr[-3000:]
    errors = [(name, answer["error"]) for name, answer in zip(names, answers, strict=True) if "error" in answer]
    assert not errors
    return {name: answer["parameters"] for name, answer in zip(names, answers, strict=True)}


def assert_shapes(names: list[str], tp: int, ep: int = 1, dp: int = 1) -> None:
    for name, parameters in answers_of(names, tp, ep, dp).items():
        lines = linears_of(cut(str(CONFIGS / f"{name}.json"), LAYERS), tp, ep, dp)
        assert shapes_found(parameters) == shapes_expected(lines), name


def assert_bytes(names: list[str], tp: int, ep: int = 1, dp: int = 1) -> None:
    for name, parameters in answers_of(names, tp, ep, dp).items():
        model, _, form = name.partition(":")
        config = cut(str(CONFIGS / f"{model}.json"), LAYERS, form)
        method = config["quantization_config"]["quant_method"]
        found, expected = bytes_found(parameters, form), bytes_expected(linears_of(config, tp, ep, dp), method)
        assert found.keys() == expected.keys(), name
        for kind, sizes in expected.items():
            assert found[kind] == pytest.approx(sizes, rel=TOLERANCE), (name, kind)


#: Every model of the test data.
BUILT = sorted(path.stem for path in CONFIGS.glob("*.json"))
#: Models with experts whose heads can be cut over 8 ranks (Qwen2-57B has 28 heads).
MOE = [
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3.2",
    "glm-4.6",
    "glm-5",
    "gpt-oss-120b",
    "kimi-k2",
    "kimi-k2.5",
    "minimax-m2.5",
    "mixtral-8x7b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "tiny-deepseek",
]
#: Checkpoints in the format that they are published in.
OWN = ["deepseek-v3:own", "deepseek-v3.2:own", "gpt-oss-120b:own", "kimi-k2.5:own"]
#: One model of each kind of layer; the formats that a checkpoint of it may have.
FORMATS = [
    *(f"qwen3-30b-a3b:{form}" for form in ("FP8_TENSOR", "FP8_BLOCK", "FP8_TOKEN", "INT4", "NVFP4", "MODELOPT_NVFP4")),
    *(f"qwen3-30b-a3b:{form}" for form in ("MXFP4", "GPTQ", "AWQ")),
    *(f"llama-3.3-70b:{form}" for form in ("INT8_TOKEN", "FP8_TOKEN", "INT4", "NVFP4", "GPTQ", "AWQ")),
    *(f"deepseek-v2-lite:{form}" for form in ("FP8_TENSOR", "FP8_TOKEN")),
    *(f"{name}:FP8_TENSOR" for name in ("glm-4.6", "glm-5", "minimax-m2.5", "mixtral-8x7b", "qwen2-57b-a14b")),
]


def test_shard__equals_vllm_s_parameters_at_tp_2() -> None:
    assert_shapes(["tiny-deepseek", "tiny-llama", "qwen3-30b-a3b", "glm-5", "deepseek-v3.2"], 2)


def test_weight_bytes__equal_vllm_s_parameters_at_tp_2() -> None:
    assert_bytes(["gpt-oss-120b:own", "kimi-k2.5:own", "qwen3-30b-a3b:NVFP4", "qwen3-30b-a3b:FP8_TOKEN"], 2)


def test_shard__whole_experts_and_data_parallelism_equal_vllm_s_parameters() -> None:
    assert_shapes(["deepseek-v3", "qwen3-30b-a3b"], 2, 4, 2)


def test_index_layers__are_those_where_vllm_builds_an_indexer(tmp_path: Path) -> None:
    shared = json.loads((CONFIGS / "glm-5.json").read_text()) | {"index_topk_freq": 3}
    (tmp_path / "shared.json").write_text(json.dumps(shared))
    (parameters,) = answers_of([str(tmp_path / "shared")], 1, layers=8).values()
    built = {int(name.split(".")[2]) for name in parameters if ".indexer.wq_b" in name}
    attention = read_model(shared | {"num_hidden_layers": 8}).attention
    assert isinstance(attention, Latent)
    assert set(attention.index_layers) == built != set(range(8))


@pytest.mark.proof
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_shard__equals_vllm_s_parameters_of_every_model(tp: int) -> None:
    assert_shapes(BUILT, tp)


@pytest.mark.proof
@pytest.mark.parametrize(("tp", "ep", "dp"), [(8, 8, 1), (2, 4, 2), (2, 1, 2), (1, 2, 2)])
def test_shard__equals_vllm_s_parameters_of_every_model_with_experts(tp: int, ep: int, dp: int) -> None:
    assert_shapes(MOE, tp, ep, dp)


@pytest.mark.proof
@pytest.mark.parametrize(("tp", "ep"), [(1, 1), (2, 1), (4, 1), (8, 1), (8, 8)])
def test_weight_bytes__equal_vllm_s_of_published_checkpoints(tp: int, ep: int) -> None:
    assert_bytes(OWN, tp, ep)


@pytest.mark.proof
@pytest.mark.parametrize("tp", [1, 2])
def test_weight_bytes__equal_vllm_s_of_every_format(tp: int) -> None:
    assert_bytes(FORMATS, tp)
