"""Eager layers on a CPU, op by op: general ops in a row are the operation that they make, equal to the nanosecond."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from campaign.trace import analyze, categories, composites
from tests.trace.generator import microseconds
from tests.trace.test_ground_truth import nanoseconds

#: An op's name, or (name, the ops that it calls).
Op = str | tuple[str, tuple["Op", ...]]

VIEWS = ("aten::view", "aten::slice", "aten::unsqueeze", "aten::split_with_sizes")
CAST: Op = ("aten::to", (("aten::_to_copy", ("aten::empty_strided", "aten::copy_")),))
DIVIDE: Op = ("aten::div_", (("aten::div_", (CAST,)),))
NORM: tuple[Op, ...] = (
    CAST, ("aten::pow", ("aten::result_type", "aten::to")), ("aten::mean", (("aten::sum", ("aten::fill_",)), DIVIDE)),
    ("aten::add", (CAST,)), "aten::rsqrt", "aten::mul", CAST, "aten::mul", "aten::to",
)  # fmt: skip
LINEAR: Op = ("aten::linear", (("aten::t", ("aten::transpose",)), ("aten::matmul", ("aten::mm",))))
ROTATE: tuple[Op, ...] = (
    "aten::mul", "aten::mul", "aten::sub", "aten::mul", "aten::mul", "aten::add", ("aten::cat", ("aten::narrow",)),
)  # fmt: skip
GROUPED: tuple[Op, ...] = (
    CAST, "aten::sigmoid", "aten::add", "aten::topk", "aten::sum", "aten::topk", "aten::zeros_like", "aten::scatter_",
    "aten::bitwise_not", "aten::masked_fill", "aten::topk", "aten::gather", "aten::sum", ("aten::div", (CAST,)),
)  # fmt: skip
PLAIN: tuple[Op, ...] = ("aten::softmax_of_ours", "aten::topk", "aten::sum", "aten::div_")
ATTEND: Op = ("vllm::unified_attention_with_output", ("aten::view", "aten::alias", "_C::cpu_attention_with_kv_cache"))


@dataclass
class Eager:
    """Ops one after another with what they are."""

    draw: random.Random
    clock: int = 1_000_000
    rows: list[dict[str, Any]] = field(default_factory=list)
    busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    kernels: list[dict[str, Any]] = field(default_factory=list)
    """One for each op that calls none, launched in the middle of it."""
    device_clock: int = 1_500_000
    device_busy: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def piece(self, category: str, ops: tuple[Op, ...], calls: int = 1) -> None:
        """Ops that are one operation together, with views that are nobody's between them."""
        self.calls[category] += calls
        for op in ops:
            if self.draw.random() < 0.3:
                self._op(self.draw.choice(VIEWS))
            begin = self.clock
            self._op(op, category)
            self.busy[category] += self.rows_end - begin

    def _op(self, op: Op, category: str = "") -> None:
        name, inside = (op, ()) if isinstance(op, str) else op
        begin = self.clock
        row = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": 0, "args": {}}
        self.rows.append(row)
        self.clock += self.draw.randint(300, 4_000)
        for one in inside:
            self._op(one, category)
        if category and not inside:
            self._launch(category)
        self.clock += self.draw.randint(300, 9_000)
        row["dur"] = self.clock - begin
        self.rows_end = self.clock
        self.clock += self.draw.randint(0, 2_000)

    def _launch(self, category: str) -> None:
        """A kernel without a telling name, run long after its launch."""
        number = len(self.kernels) + 1
        at = {"ts": self.clock, "dur": 150, "pid": 1, "tid": 1}
        self.rows.append(_row("cuda_runtime", "cudaLaunchKernel", at, correlation=number))
        self.clock += 200
        duration = self.draw.randint(900, 9_000)
        name = f"void at::native::vectorized_elementwise_kernel<{number % 3}, at::native::some_functor>(int)"
        at = {"ts": self.device_clock, "dur": duration, "pid": 0, "tid": 7}
        self.kernels.append(_row("kernel", name, at, correlation=number))
        self.device_clock += duration + self.draw.randint(0, 500)
        self.device_busy[category] += duration

    def step(self, layers: int, *, has_ranks: bool, router: tuple[Op, ...], rotate: bool) -> None:
        """A decode step of a decoder with experts in every second layer."""
        self.piece("other", ("aten::sub", "aten::lt"), calls=2)
        self.piece("copy", (("aten::embedding", ("aten::index_select",)),))
        for number in range(layers):
            self.piece("rms_norm", NORM if number == 0 else ("aten::add", *NORM))
            self.piece("gemm", (LINEAR,))
            for _ in range(2):
                self.piece("rope", ROTATE if rotate else ("_C::rotary_embedding",))
            self.piece("attention", (ATTEND,))
            self.piece("gemm", (LINEAR,))
            self._reduce(has_ranks)
            self.piece("rms_norm", ("aten::add", *NORM))
            if number % 2:
                self.piece("gemm", (LINEAR,))
                self.piece("moe_router", router)
                self.piece("moe_gemm", ("_C::cpu_fused_moe",))
                self.piece("moe_router", ("aten::mul_", "aten::add"))
            else:
                self.piece("gemm", (LINEAR,))
                self.piece("silu_mul", ("aten::silu", "aten::mul"))
                self.piece("gemm", (LINEAR,))
            self._reduce(has_ranks)
        self.piece("rms_norm", ("aten::add", *NORM))
        self.piece("gemm", (LINEAR,))
        self.piece("sampling", ("aten::div_", ("aten::randint", ("aten::random_",)), "_C::fused_gumbel_argmax"))

    def _reduce(self, has_ranks: bool) -> None:
        if has_ranks:
            self.piece("allreduce", ("c10d::allreduce_",))


def _row(cat: str, name: str, at: dict[str, int], **arguments: int) -> dict[str, Any]:
    order = ("pid", "tid", "ts", "dur")
    return {"ph": "X", "cat": cat, "name": name, **{key: at[key] for key in order}, "args": arguments}


def check(seed: int, path: Path, *, on_gpu: bool = False) -> None:
    draw = random.Random(seed)
    eager = Eager(draw)
    steps, starts = 6, []
    wishes = {"has_ranks": seed % 2 == 0, "router": draw.choice((GROUPED, PLAIN)), "rotate": seed % 3 == 0}
    layers = draw.randint(1, 5)
    for number in range(steps):
        if number == steps - 1:  # the last step has no end: it is left out
            want, calls = dict(eager.device_busy if on_gpu else eager.busy), dict(eager.calls)
        starts.append(eager.clock)
        eager.step(layers, **wishes)  # type: ignore[arg-type]
    for start in starts:
        eager.rows.append(
            {"ph": "X", "cat": "user_annotation", "name": "execute_context_0(0)_generation_1(1)", "pid": 1, "tid": 1,
             "ts": start - 10, "dur": 900, "args": {}}
        )  # fmt: skip
    rows = ",".join(
        json.dumps({**row, "ts": "@ts", "dur": "@dur"})
        .replace('"@ts"', microseconds(row["ts"]))
        .replace('"@dur"', microseconds(row["dur"]))
        for row in (*eager.rows, *(eager.kernels if on_gpu else ()))
        if on_gpu or row["cat"] != "cuda_runtime"
    )
    path.write_text(f'{{"schemaVersion": 1, "traceEvents": [{rows}]}}')
    found = analyze([path], trim=0).decode
    assert found is not None
    assert found.steps == steps - 1
    busy = {c.name: nanoseconds(c.busy_ms_per_step, found.steps) for c in found.categories}
    assert busy == want
    if not on_gpu:
        assert {c.name: round(c.calls_per_step * found.steps) for c in found.categories} == calls


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


def test_composites__long_rows_take_linear_time() -> None:
    names = ["aten::topk", *["aten::mul"] * 30_000]
    assert spelled(*names).count("moe_router") == 1
