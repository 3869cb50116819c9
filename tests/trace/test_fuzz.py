"""Damage by chance: a sample of the fuzz target's work, and every input that it ever found."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path

import pytest

from tests.fuzz import fuzz_trace

FOUND = sorted((Path(__file__).parent.parent / "fuzz" / "found").glob("*.bin"))
SEEDS = fuzz_trace.seeds()


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_fuzz__inputs_found_before(path: Path) -> None:
    fuzz_trace.check(path.read_bytes())


@pytest.mark.parametrize("seed", range(8))
def test_fuzz__sample(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(25):
        fuzz_trace.check(fuzz_trace.mutate(draw.choice(SEEDS), draw))


def test_fuzz__memory_does_not_grow_with_the_inputs() -> None:
    draw = random.Random(5)
    inputs = [fuzz_trace.mutate(draw.choice(SEEDS), draw) for _ in range(30)]
    for data in inputs:
        fuzz_trace.check(data)
    tracemalloc.start()
    try:
        held = []
        for _ in range(3):
            for data in inputs:
                fuzz_trace.check(data)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A list, a cache or a cycle that keeps one array an input holds more than 1 kB each.
    assert held[2] - held[1] < 30 * 1000


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(100, 120))
def test_fuzz__many(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(500):
        fuzz_trace.check(fuzz_trace.mutate(draw.choice(SEEDS), draw))
