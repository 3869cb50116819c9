"""config.json → `Model`: the known architectures exactly, any other with what could not be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from campaign.errors import ConfigError
from campaign.model.architecture import Experts, Grouped, Latent, Model, Names
from campaign.model.quantization import read_quantization

Config = Mapping[str, Any]

_DEEPSEEK = {
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK2ForCausalLM",
}
_GROUPED = {
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen2MoeForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Glm4ForCausalLM",
    "Glm4MoeForCausalLM",
    "MiniMaxM2ForCausalLM",
    "GptOssForCausalLM",
    "MixtralForCausalLM",
}
#: Architectures whose experts vLLM gives each rank a part of the tokens (its sequence-parallel MoE).
_SPLITTING = (_DEEPSEEK - {"Glm4MoeLiteForCausalLM"}) | {"Qwen3MoeForCausalLM", "GptOssForCausalLM"}
#: Model types of nested language models, which seldom name an architecture of their own.
_BY_MODEL_TYPE = {
    "kimi_k2": "DeepseekV3ForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm4_moe_lite": "Glm4MoeLiteForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
}
_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
#: Keys whose presence means layers that are no plain attention plus MLP.
_FOREIGN = (
    ("linear_num_value_heads", "linear-attention layers"),
    ("linear_attn_config", "linear-attention layers"),
    ("mamba_d_state", "state-space layers"),
    ("ssm_state_size", "state-space layers"),
    ("hybrid_override_pattern", "hybrid layers"),
    ("cross_attention_layers", "cross-attention layers"),
    ("kv_sharing", "shared key-value layers"),
    ("num_kv_shared_layers", "shared key-value layers"),
)


def read_model(config_json: Config) -> Model:
    """The dimensions of the model that a config.json describes (its `text_config` where it is nested).

    Raises `ConfigError` naming the key where a dimension that everything rests on is missing or no number.
    """
    config = _language_part(config_json)
    architecture, is_known = _architecture(config, config_json)
    quantized, notes = read_quantization(quantization_config_of(config_json))
    unknown = [*notes]
    if not is_known:
        unknown.insert(0, f"architecture {architecture!r} is not known: read as attention plus MLP by its keys")
    unknown += _foreign_layers(config)
    family = _family(config, architecture, is_known)
    layers = _integer(config, "num_hidden_layers")
    moe_layers = _moe_layers(config, layers, architecture)
    window, windowed = _window(config, layers)
    return Model(
        architecture=architecture,
        model_type=str(config.get("model_type") or ""),
        family=family if is_known else "generic",
        hidden_size=_integer(config, "hidden_size"),
        layers=layers,
        moe_layers=moe_layers,
        dense_width=0 if len(moe_layers) == layers else _dense_width(config),
        is_gated=_is_gated(config, is_known, unknown),
        attention=_latent(config, layers) if family == "deepseek" else _grouped(config, architecture, unknown),
        experts=_experts(config, architecture) if moe_layers else None,
        vocabulary=_integer(config, "vocab_size"),
        dtype=_dtype(config, config_json, unknown),
        quantization=quantized,
        names=_module_names(architecture),
        sliding_window=window,
        windowed_layers=windowed,
        mtp_layers=int(config.get("num_nextn_predict_layers") or 0),
        unknown=tuple(unknown),
    )


def quantization_config_of(config_json: Config) -> Config | None:
    """The quantization_config of a config.json, wherever it stands; None where nothing is quantized."""
    inner = _language_part(config_json)
    found = (
        config.get(key) for config in (inner, config_json) for key in ("quantization_config", "compression_config")
    )
    return next((config for config in found if config), None)


def _language_part(config: Config) -> Config:
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping) and "hidden_size" in inner:
            return inner
    return config


def _architecture(config: Config, outer: Config) -> tuple[str, bool]:
    known = _DEEPSEEK | _GROUPED
    by_type = _BY_MODEL_TYPE.get(str(config.get("model_type")))
    named = [*(config.get("architectures") or ()), *([by_type] if by_type else ())]
    for name in named:
        if name in known:
            return str(name), True
    fallback = [*named, *(outer.get("architectures") or ()), str(config.get("model_type") or "unnamed")]
    return str(fallback[0]), False


def _family(config: Config, architecture: str, is_known: bool) -> Literal["deepseek", "gqa"]:
    # DeepSeek-V2's code runs plain attention where a checkpoint of its family has no latent dimensions.
    has_latent = config.get("kv_lora_rank") is not None
    if architecture in _DEEPSEEK:
        return "deepseek" if has_latent else "gqa"
    return "deepseek" if has_latent and not is_known else "gqa"


def _integer(config: Config, *keys: str) -> int:
    for key in keys:
        value = config.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise ConfigError(f"config.json: {key} = {value!r} is no positive whole number; correct it.")
        return value
    raise ConfigError(f"config.json: {' or '.join(keys)} is missing; give the model's own config.json.")


def _optional(config: Config, *keys: str) -> int | None:
    present = [key for key in keys if config.get(key) is not None]
    return _integer(config, *present) if present else None


def _foreign_layers(config: Config) -> list[str]:
    found = [f"`{key}`: {what} are counted as plain attention" for key, what in _FOREIGN if config.get(key)]
    if any(kind != 1 for kind in config.get("attn_type_list") or ()):
        found.append("`attn_type_list`: linear-attention layers are counted as plain attention")
    odd = {str(kind) for kind in config.get("layer_types") or ()} - {"full_attention", "sliding_attention"}
    return found + [f"layer type {kind!r} is counted as plain attention" for kind in sorted(odd)]


def _latent(config: Config, layers: int) -> Latent:
    has_index = config.get("index_topk") is not None
    return Latent(
        heads=_integer(config, "num_attention_heads"),
        q_lora_rank=_optional(config, "q_lora_rank"),
        kv_lora_rank=_integer(config, "kv_lora_rank"),
        qk_nope_head_dim=_integer(config, "qk_nope_head_dim"),
        qk_rope_head_dim=_integer(config, "qk_rope_head_dim"),
        v_head_dim=_integer(config, "v_head_dim"),
        index_heads=_integer(config, "index_n_heads") if has_index else None,
        index_head_dim=_integer(config, "index_head_dim") if has_index else None,
        index_topk=_integer(config, "index_topk") if has_index else None,
        index_layers=_index_layers(config, layers) if has_index else (),
    )


def _index_layers(config: Config, layers: int) -> tuple[int, ...]:
    pattern = config.get("index_topk_pattern")
    if pattern is not None:
        return tuple(i for i in range(layers) if i >= len(pattern) or pattern[i] != "S")
    every = int(config.get("index_topk_freq") or 1)
    offset = int(config.get("index_skip_topk_offset", 2))
    return tuple(i for i in range(layers) if max(i - offset + 1, 0) % every == 0)


def _grouped(config: Config, architecture: str, unknown: list[str]) -> Grouped:
    heads = _integer(config, "num_attention_heads", "n_head")
    hidden = _integer(config, "hidden_size")
    head_dim = _optional(config, "head_dim")
    if head_dim is None and hidden % heads:
        unknown.append(f"head_dim is missing and hidden_size {hidden} is no multiple of {heads} heads")
    return Grouped(
        heads=heads,
        kv_heads=_optional(config, "num_key_value_heads") or heads,
        head_dim=head_dim or hidden // heads,
        has_norm_over_ranks=architecture == "MiniMaxM2ForCausalLM" and bool(config.get("use_qk_norm", True)),
        has_gate=bool(config.get("attn_output_gate")),
    )


def _expert_count(config: Config) -> int | None:
    return _optional(config, "n_routed_experts", "num_experts", "num_local_experts")


def _moe_layers(config: Config, layers: int, architecture: str) -> tuple[int, ...]:
    if _expert_count(config) is None:
        return ()
    first = int(config.get("first_k_dense_replace") or 0)
    frequency = config.get("moe_layer_freq") or 1
    step = int(config.get("decoder_sparse_step") or 1)
    dense = set(config.get("mlp_only_layers") or ())
    if isinstance(frequency, list):
        return tuple(i for i in range(layers) if i < len(frequency) and frequency[i])
    if architecture.startswith("Qwen"):
        return tuple(i for i in range(layers) if (i + 1) % step == 0 and i not in dense)
    return tuple(i for i in range(first, layers) if i % int(frequency) == 0 and i not in dense)


def _experts(config: Config, architecture: str) -> Experts:
    width = _integer(config, "moe_intermediate_size", "intermediate_size")
    shared = _optional(config, "shared_expert_intermediate_size")
    if shared is None:
        shared = int(config.get("n_shared_experts") or config.get("num_shared_experts") or 0) * width
    return Experts(
        count=_expert_count(config) or 0,
        active=_integer(config, "num_experts_per_tok", "experts_per_token", "moe_topk"),
        width=width,
        shared_width=shared,
        has_shared_gate=architecture == "Qwen2MoeForCausalLM" and shared > 0,
        activation="swigluoai" if architecture == "GptOssForCausalLM" else "silu",
        router_dtype="fp32" if architecture in ("Glm4MoeForCausalLM", "MiniMaxM2ForCausalLM") else None,
        is_router_quantized=architecture == "Qwen3MoeForCausalLM",
        splits_tokens=architecture in _SPLITTING,
    )


def _dense_width(config: Config) -> int:
    return _integer(config, "intermediate_size", "n_inner", "ffn_hidden_size")


def _is_gated(config: Config, is_known: bool, unknown: list[str]) -> bool:
    action = str(config.get("hidden_act") or config.get("hidden_activation") or config.get("activation_function") or "")
    if not is_known and action not in ("silu", "swish", "swiglu", "swigluoai"):
        unknown.append(f"activation {action or 'unnamed'!r}: the MLP is counted with a gate matrix")
    return True


def _window(config: Config, layers: int) -> tuple[int | None, int]:
    window = config.get("sliding_window")
    if not isinstance(window, int) or config.get("use_sliding_window") is False:
        return None, 0
    types = config.get("layer_types")
    return window, layers if not types else sum(1 for kind in types if kind == "sliding_attention")


def _dtype(config: Config, outer: Config, unknown: list[str]) -> str:
    named = config.get("torch_dtype") or config.get("dtype") or outer.get("torch_dtype") or outer.get("dtype")
    name = str(named or "bfloat16").removeprefix("torch.")
    if name not in _DTYPES:
        unknown.append(f"dtype {name!r}: counted as bf16")
    return _DTYPES.get(name, "bf16")


def _module_names(architecture: str) -> Names:
    if architecture in ("MixtralForCausalLM", "MiniMaxM2ForCausalLM"):
        mlp = "block_sparse_moe"
        return Names(mlp=mlp, experts=f"{mlp}.experts", expert_parts=("w1", "w3", "w2"))
    if architecture == "Qwen2MoeForCausalLM":
        return Names(shared="mlp.shared_expert")
    return Names()
