"""Eager layers on a CPU, op by op: general ops in a row are the operation that they make, equal to the nanosecond."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from campaign.trace import analyze, categories, composites
from tests.trace import eager
from tests.trace.test_ground_truth import nanoseconds


def check(seed: int, path: Path, *, on_gpu: bool = False) -> None:
    run = eager.simulate(seed, on_gpu=on_gpu)
    path.write_text(run.text)
    found = analyze([path], trim=0).decode
    assert found is not None
    assert found.steps == run.steps
    assert {c.name: nanoseconds(c.busy_ms_per_step, found.steps) for c in found.categories} == run.busy
    if not on_gpu:
        assert {c.name: round(c.calls_per_step * found.steps) for c in found.categories} == run.calls


@pytest.mark.parametrize("seed", range(12))
def test_composites__eager_layers_equal_to_the_nanosecond(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path / "rank0.json")


@pytest.mark.parametrize("seed", range(20, 26))
def test_composites__kernels_of_no_name_are_what_their_ops_are(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path / "rank0.json", on_gpu=True)


@pytest.mark.proof
def test_composites__three_hundred_eager_runs(tmp_path: Path) -> None:
    for seed in range(1000, 1300):
        check(seed, tmp_path / "rank0.json", on_gpu=seed % 2 == 0)


def spelled(*names: str) -> list[str]:
    """Category of each of a row of siblings."""
    table = categories.table()
    known = [table.category(name) for name in names]
    words = {i: w for i, name in enumerate(names) if (w := composites.word(name, known[i])) is not None}
    result = [categories.CATEGORIES[one] for one in known]
    for category, members in composites.find(range(len(names)), words, table):
        for index in members:
            result[index] = categories.CATEGORIES[category]
    return result


def test_composites__what_only_looks_alike_stays_other() -> None:
    assert spelled("aten::mean", "aten::add", "aten::rsqrt") == ["other"] * 3
    assert spelled("aten::silu", "aten::add") == ["other"] * 2
    assert spelled("aten::mul", "aten::mul", "aten::add") == ["other"] * 3
    assert spelled("aten::sub", "aten::mm", "aten::mul") == ["other", "gemm", "other"]
    # top-k without experts behind it is no router's
    assert spelled("aten::add", "aten::topk", "aten::sum", "aten::mm")[0] == "other"


def test_composites__top_k_before_a_token_is_drawn_is_sampling() -> None:
    names = ("aten::mm", "aten::div_", "aten::topk", "aten::lt", "aten::masked_fill_", "aten::softmax", "aten::to")
    assert spelled(*names) == ["gemm", *["sampling"] * 5, "copy"]


def test_composites__no_pattern_repeats_words_without_a_bound() -> None:
    # A row of 30,000 equal ops would take the square of its length.
    for composite in categories.table().composites:
        assert not re.search(r"\)[*+]", composite.pattern.pattern), composite.pattern.pattern


@pytest.mark.parametrize("name", ["aten::mul", "aten::to", "aten::silu", "x" * 400])
def test_composites__long_rows_are_read(name: str) -> None:
    assert spelled("aten::topk", *[name] * 30_000).count("moe_router") == 1
