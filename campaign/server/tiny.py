"""A tiny model with random weights that a real engine serves on a CPU: a config and a byte-level tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from campaign import files, schema
from campaign.errors import UsageError

_SHARED: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "torch_dtype": "bfloat16",
    "bos_token_id": 0,
    "eos_token_id": 1,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}

#: The CPU build's MLA kernels want kv_lora_rank 512 and qk_rope_head_dim 64.
_DEEPSEEK: dict[str, Any] = _SHARED | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "moe_layer_freq": 1,
    "q_lora_rank": 96,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "num_key_value_heads": 8,
}

#: A model of each name; what vLLM's CPU build serves with `--load-format dummy`.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "deepseek": _DEEPSEEK,
    "llama": _SHARED
    | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_key_value_heads": 4,
        "head_dim": 32,
    },
}


def make_tiny_model(folder: Path, architecture: str = "deepseek", **overrides: Any) -> Path:
    """Write config.json and a byte-level tokenizer of 1,024 entries into `folder`; returns the folder.

    Files that are there already with the same content are left alone. `overrides` replace entries of the
    config. Raises `UsageError` for an unknown architecture.
    """
    if architecture not in ARCHITECTURES:
        raise UsageError(f"No tiny model named {architecture!r}: write one of {', '.join(ARCHITECTURES)}.")
    contents = {
        "config.json": schema.encode_pretty(ARCHITECTURES[architecture] | overrides),
    }
    _write(folder, contents | _tokenizer(ARCHITECTURES[architecture]["vocab_size"]))
    return folder


def make_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer of as many entries as the model in `folder` has, so that it is served by itself.

    Raises `UsageError` where there is no config.json.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'}: cannot be read: {error}.") from error
    _write(folder, _tokenizer(config.get("text_config", config)["vocab_size"]))


def _write(folder: Path, contents: dict[str, bytes]) -> None:
    for name, data in contents.items():
        path = folder / name
        if not path.exists() or path.read_bytes() != data:
            files.write_atomic(path, data)


def _tokenizer(vocab_size: int) -> dict[str, bytes]:
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": 2048,
        "chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}",
    }
    return {"tokenizer.json": _tokenizer_json(vocab_size), "tokenizer_config.json": schema.encode_pretty(settings)}


def _tokenizer_json(vocab_size: int) -> bytes:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, "</s>": 1, "<unk>": 2}
    for symbol in alphabet:
        vocabulary[symbol] = len(vocabulary)
    merges: list[tuple[str, str]] = []
    letters = [letter for letter in "etaoinshrdlucmfwypvbgkjqxz" if letter in vocabulary]
    for first in ["Ġ", *letters]:
        for second in letters:
            if len(vocabulary) < vocab_size and first + second not in vocabulary:
                merges.append((first, second))
                vocabulary[first + second] = len(vocabulary)
    while len(vocabulary) < vocab_size:  # every id that the model can sample decodes to something
        vocabulary[f"<extra_{len(vocabulary)}>"] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<s>", "</s>", "<unk>")])
    return str(tokenizer.to_str(pretty=False)).encode()
