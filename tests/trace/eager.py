"""An imagined eager engine, op by op, with what each op is: on a CPU, or with a kernel for each op that calls none."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.trace.generator import microseconds

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


@dataclass(frozen=True)
class EagerRun:
    """A trace's text and the truth of its steps but the last, which has no end."""

    text: str
    busy: dict[str, int]
    """Nanoseconds by category."""
    calls: dict[str, int]
    """By category, of the ops."""
    steps: int


def simulate(seed: int, *, on_gpu: bool = False, steps: int = 6) -> EagerRun:
    """A run of a random model."""
    draw = random.Random(seed)
    eager = Eager(draw)
    starts, router, layers = [], draw.choice((GROUPED, PLAIN)), draw.randint(1, 5)
    busy: dict[str, int] = {}
    calls: dict[str, int] = {}
    for _ in range(steps):
        busy, calls = dict(eager.device_busy if on_gpu else eager.busy), dict(eager.calls)
        starts.append(eager.clock)
        eager.step(layers, has_ranks=seed % 2 == 0, router=router, rotate=seed % 3 == 0)
    name = "execute_context_0(0)_generation_1(1)"
    eager.rows += [
        _row("user_annotation", name, {"pid": 1, "tid": 1, "ts": start - 10, "dur": 900}) for start in starts
    ]
    rows = ",".join(
        json.dumps({**row, "ts": "@ts", "dur": "@dur"})
        .replace('"@ts"', microseconds(row["ts"]))
        .replace('"@dur"', microseconds(row["dur"]))
        for row in (*eager.rows, *(eager.kernels if on_gpu else ()))
        if on_gpu or row["cat"] != "cuda_runtime"
    )
    return EagerRun(f'{{"schemaVersion": 1, "traceEvents": [{rows}]}}', busy, calls, steps - 1)
