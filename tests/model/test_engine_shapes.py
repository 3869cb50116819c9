"""Our shard shapes against the parameters that vLLM makes for the same config, where the CPU build constructs them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from campaign.model import read_model, shard
from tests.model.engine_shapes import cut
from tests.model.test_sharding import CONFIGS

ROOT = Path(__file__).parent.parent.parent
#: Enough for the dense first layers of every model here and one layer of experts.
LAYERS = 4

#: vLLM's parameter within a layer → our kind.
KINDS = (
    (r"shared_expert_gate", "shared_gate"),
    (r"shared_experts?\.gate_up_proj", "shared_gate_up"),
    (r"shared_experts?\.down_proj", "shared_down"),
    (r"experts\..*w13_weight", "moe_gate_up"),
    (r"experts\..*w2_weight", "moe_down"),
    (r"(gate|router)\.weight$", "router"),
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


def kind_of(name: str) -> str:
    return next((kind for pattern, kind in KINDS if re.search(pattern, name)), f"stranger {name}")


def found_in(shapes: dict[str, list[int]]) -> dict[str, set[tuple[int, ...]]]:
    """Shapes by kind over all layers; vectors (norms, biases) and the embedding left out."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for name, shape in shapes.items():
        if len(shape) < 2 or name.endswith("bias") or "embed" in name:
            continue
        kind = "lm_head" if name.startswith("lm_head") else kind_of(name.split(".layers.")[1])
        found.setdefault(kind, set()).add(tuple(shape))
    return found


def expected_of(path: Path, tp: int, ep: int) -> dict[str, set[tuple[int, ...]]]:
    shards = shard(read_model(cut(str(path), LAYERS)), tp, ep)
    expected: dict[str, set[tuple[int, ...]]] = {}
    for line in (*shards.linears, *shards.prefill_linears):
        if line.kind in ("k_absorb", "v_absorb"):
            continue  # made from kv_b when weights are loaded
        shape = (line.matrices, line.n, line.k) if line.active is not None else (line.n, line.k)
        expected[line.kind] = {shape}
    return expected


def answers_of(tp: int, ep: int, names: list[str]) -> dict[str, dict[str, object]]:
    paths = [str(CONFIGS / f"{name}.json") for name in names]
    command = [sys.executable, "-m", "tests.model.engine_shapes", str(tp), str(ep), str(LAYERS), *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(names), done.stderr[-3000:]
    return {answer["name"]: answer for answer in answers}


def assert_equal(tp: int, ep: int, names: list[str]) -> None:
    for name, answer in answers_of(tp, ep, names).items():
        if (name, tp, ep) in REFUSED:
            assert REFUSED[name, tp, ep] in str(answer.get("error")), f"{name} can be checked now: {answer}"
            continue
        assert "error" not in answer, f"{name}: {answer}"
        shapes = answer["shapes"]
        assert isinstance(shapes, dict)
        assert found_in(shapes) == expected_of(CONFIGS / f"{name}.json", tp, ep), name


#: Built by the CPU build. Unchecked: glm-5 (the CPU build has no sparse attention, so it builds no indexer).
BUILT = [
    "deepseek-v2-lite",
    "deepseek-v3",
    "glm-4-9b",
    "glm-4.6",
    "gpt-oss-120b",
    "kimi-k2",
    "kimi-k2.5",
    "llama-3.3-70b",
    "minimax-m2.5",
    "mixtral-8x7b",
    "qwen2-57b-a14b",
    "qwen2.5-72b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "tiny-deepseek",
    "tiny-llama",
]
#: What the CPU build refuses at one number of ranks; the shapes there stay unchecked.
REFUSED = {("gpt-oss-120b", 4, 1): "No Unquantized MoE backend"}
#: Models with experts whose heads can be cut over 8 ranks (Qwen2-57B has 28 heads).
MOE = [
    "deepseek-v2-lite",
    "deepseek-v3",
    "glm-4.6",
    "gpt-oss-120b",
    "kimi-k2",
    "kimi-k2.5",
    "minimax-m2.5",
    "mixtral-8x7b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "tiny-deepseek",
]


def test_shard__equals_vllm_s_parameters_at_tp_2() -> None:
    assert_equal(2, 1, ["tiny-deepseek", "tiny-llama", "qwen3-30b-a3b"])


@pytest.mark.proof
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_shard__equals_vllm_s_parameters_of_every_model(tp: int) -> None:
    assert_equal(tp, 1, BUILT)


@pytest.mark.proof
def test_shard__equals_vllm_s_parameters_with_experts_on_8_ranks() -> None:
    assert_equal(8, 8, MOE)
