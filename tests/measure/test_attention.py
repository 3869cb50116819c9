"""The attention phase on this machine's CPU, with the real script."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from campaign import schema
from campaign.errors import ConfigError
from campaign.measure import attention_kernels
from campaign.phases.attention import KIND
from campaign.phases.attention_data import AttentionConfig, AttentionData, AttentionPoint
from tests.measure.scripts import analyze, configure, context_of, render, run, values


@pytest.mark.parametrize(("name", "dims"), [("tiny-deepseek", (4, 1, 576, 512)), ("tiny-llama", (4, 2, 32, 32))])
def test_attention__measures_latent_and_grouped(name: str, dims: tuple[int, ...], tmp_path: Path) -> None:
    context = context_of(name, tp=2)
    config = configure(KIND, context, batch=[1, 4], context_tokens=[128, 512], samples=3, memory_limit_gb=0.3)
    assert isinstance(config, AttentionConfig)
    assert (config.heads, config.kv_heads, config.qk_dim, config.v_dim) == dims
    result, _ = run(KIND, config, tmp_path)
    data = schema.decode(result.data, AttentionData)
    assert len(data.points) == 4 == len(KIND.points(config)) - 1
    for point in data.points:
        assert point.is_correct, point
        assert [len(samples) for samples in point.cold_us] == [3, 3]
        assert point.buffers * point.kv_bytes >= min(3 * data.peaks.cache_bytes, 0.3e9 - point.kv_bytes)
    analysis = analyze(KIND, result, context)
    found = values(analysis)
    us = found["attention.us.torch.bf16.b4.c512"]
    assert us is not None
    assert us > 0
    assert "say nothing of a GPU" in render(KIND, analysis)


def config_of(**parameters: object) -> AttentionConfig:
    config = configure(KIND, context_of("tiny-llama"), **parameters)
    assert isinstance(config, AttentionConfig)
    return config


def test_attention__equals_attention_written_out() -> None:
    config = config_of(batch=[3], context_tokens=[40], memory_limit_gb=0.01)
    point = AttentionPoint(backend="torch", batch=3, context_tokens=40, kv_dtype="fp32")
    caches = attention_kernels._caches(config, point, "fp32", 1 << 10)
    found = attention_kernels._attend(config, caches.q, caches.keys[0], caches.values[0])
    for head in range(config.heads):
        key = caches.keys[0][:, :, head // (config.heads // config.kv_heads)]
        value = caches.values[0][:, :, head // (config.heads // config.kv_heads)]
        scores = torch.einsum("bd,btd->bt", caches.q[:, head], key) / config.qk_dim**0.5
        expected = torch.einsum("bt,btd->bd", scores.softmax(1), value)
        assert torch.allclose(found[:, head], expected, atol=1e-5)


def test_attention__a_cache_over_the_limit_is_a_note() -> None:
    config = config_of(batch=[64], context_tokens=[16384], memory_limit_gb=0.001)
    point = AttentionPoint(backend="torch", batch=64, context_tokens=16384, kv_dtype="bf16")
    made = attention_kernels.prepare(config, point, 1 << 20)
    assert isinstance(made, str)
    assert "over the limit" in made


@pytest.mark.parametrize("parameters", [{"batch": []}, {"context_tokens": [0]}, {"samples": 2}])
def test_attention__unusable_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        config_of(**parameters)


def test_attention__sparse_attention_is_not_measured_as_dense() -> None:
    assert KIND.blocked_by(context_of("deepseek-v3.2", tp=8)) == (
        "Sparse attention reads 2048 chosen tokens; its kernels are not measured here."
    )
    assert KIND.blocked_by(context_of("deepseek-v3", tp=8)) is None
