"""Traces of an imagined engine with exact ground truth: every number is known in nanoseconds before a byte is written.

The truth is computed the slow way (instant by instant between the ends of events), by other code than the analysis.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

#: key → (full kernel name, category): names as engines write them.
KERNELS = {
    "norm": ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)", "rms_norm"),
    "qkv": ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "gemm"),
    "rope": ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)", "rope"),
    "cache": (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, (vllm::Fp8KVCacheDataType)0>(__nv_bfloat16 const*)",
        "kv_cache",
    ),
    "attention": (
        "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<1, true> > >(flash::Params)",
        "attention",
    ),
    "router": (
        "void vllm::moe::topkGating<8, 128, 4, (vllm::moe::ScoringFunc)0>(__nv_bfloat16 const*, bool const*)",
        "moe_router",
    ),
    "expert": ("void marlin_moe_wna16::Marlin<(long)1125899906909960, 128, 1>(int4 const*, int4*)", "moe_gemm"),
    "silu": ("void vllm::act_and_mul_kernel<c10::BFloat16, &(vllm::silu_kernel<c10::BFloat16>)>(int)", "silu_mul"),
    "shared": ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_execute_kernel__5x_cublas", "gemm"),
    "quant": ("void vllm::scaled_fp8_quant_kernel<c10::BFloat16>(c10::Float8_e4m3fn*, float const*)", "quantize"),
    "compiled": ("triton_poi_fused_3", "compiled"),
    "unknown": ("void my_company::secret_kernel<int>(int*)", "other"),
    "head": ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "gemm"),
    "sample": ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps<float> > >", "sampling"),
    "allreduce": ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"),
    "allgather": ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "comm_other"),
    "copy": ("Memcpy DtoH (Device -> Pinned)", "copy"),
    "fill": ("Memset (Device)", "copy"),
}  # fmt: skip
LAYER = (
    *("norm", "qkv", "rope", "cache", "attention", "qkv", "allreduce"),
    *("norm", "router", "expert", "silu", "expert", "allreduce"),
)
MAIN, SIDE = 7, 23
_CLASS = {"allreduce": 1, "comm_other": 1, "copy": 2}


@dataclass(frozen=True)
class Shape:
    """What a run looks like."""

    seed: int = 0
    ranks: int = 1
    layers: int = 3
    steps: int = 9
    batches: tuple[int, ...] = (4,)
    is_graph: bool = True
    is_async: bool = True
    """The host runs a step ahead of the device."""
    has_side_stream: bool = True
    overlap: float = 0.1
    """Share of kernels that start before their predecessor ends."""
    slow_rank: int | None = None
    prefill_every: int = 5
    has_fragment: bool = True
    """Kernels before the first annotation."""
    annotation: str = "vllm"
    """vllm, vllm-detailed, sglang or profiler."""


@dataclass
class Event:
    """One device event."""

    key: str
    stream: int
    start: int
    duration: int
    correlation: int
    step: int

    @property
    def end(self) -> int:
        return self.start + self.duration

    @property
    def category(self) -> str:
        return KERNELS[self.key][1]


@dataclass
class RankRun:
    """One rank's run."""

    rank: int
    base_ns: int
    events: list[Event] = field(default_factory=list)
    launches: list[tuple[str, int, int, int]] = field(default_factory=list)
    """(name, start, duration, correlation)"""
    annotations: list[tuple[str, int, int]] = field(default_factory=list)
    ops: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class StepPlan:
    """What the engine does in a step."""

    kind: str
    batch: int


@dataclass
class Run:
    """All ranks and the plan they followed."""

    shape: Shape
    plan: list[StepPlan]
    ranks: list[RankRun]


def random_shape(seed: int) -> Shape:
    """A shape drawn from the seed."""
    draw = random.Random(seed * 7919 + 1)
    ranks = draw.choice((1, 1, 2, 3))
    return Shape(
        seed=seed, ranks=ranks, layers=draw.randint(1, 5), steps=draw.randint(3, 16),
        batches=draw.choice(((1,), (4,), (4, 16))), is_graph=draw.random() < 0.6, is_async=draw.random() < 0.6,
        has_side_stream=draw.random() < 0.6, overlap=draw.choice((0.0, 0.1, 0.4)),
        slow_rank=draw.choice((None, *range(ranks))), prefill_every=draw.choice((0, 4, 7)),
        has_fragment=draw.random() < 0.5, annotation=draw.choice(("vllm", "vllm", "vllm-detailed", "sglang")),
    )  # fmt: skip


def simulate(shape: Shape) -> Run:
    """Let the engine run."""
    draw = random.Random(shape.seed)
    plan = []
    for number in range(shape.steps):
        if shape.prefill_every and number % shape.prefill_every == 0:
            plan.append(StepPlan(draw.choice(("prefill", "mixed")), 2))
        else:
            plan.append(StepPlan("decode", shape.batches[number * len(shape.batches) // shape.steps]))
    plan.append(StepPlan("empty", 0))
    base = 1_790_857_026_000_000_000
    ranks = [RankRun(rank, base + 1000 * rank) for rank in range(shape.ranks)]
    engine = _Engine(shape, draw, ranks)
    if shape.has_fragment:
        engine.fragment()
    for number, step in enumerate(plan):
        engine.run(number, step)
    return Run(shape, plan, ranks)


class _Engine:
    """The state of all ranks while the steps run."""

    def __init__(self, shape: Shape, draw: random.Random, ranks: list[RankRun]) -> None:
        self.shape, self.draw, self.ranks = shape, draw, ranks
        shift = ranks[0].base_ns
        self.clock = [5_104_344_884_207_901 - r.base_ns + shift + draw.randint(0, 900) for r in ranks]
        """When the device is free."""
        self.host = [c - 3_000_000 for c in self.clock]
        self.late = [0] * len(ranks)
        """When the host launched last."""
        self.correlation = [100] * len(ranks)
        self.graph: list[int] | None = None
        self.number = -1

    def fragment(self) -> None:
        """Kernels before the first annotation, without launches."""
        for r, rank in enumerate(self.ranks):
            for _ in range(3):
                rank.events.append(Event("qkv", MAIN, self.clock[r], 5_000, self.correlation[r], -1))
                self.clock[r] += 6_000

    def run(self, number: int, step: StepPlan) -> None:
        """One step on all ranks."""
        self.number = number
        name = _annotation(self.shape, step, number)
        if step.kind == "empty":
            for r, rank in enumerate(self.ranks):
                rank.annotations.append((name, max(self.host[r], self.clock[r]) + 50_000, 40_000))
            return
        starts = [self._begin(r) for r in range(len(self.ranks))]
        self.graph = None
        if self.shape.is_graph and step.kind == "decode":
            self.graph = list(self.correlation)
            for r, rank in enumerate(self.ranks):
                rank.launches.append(("cudaGraphLaunch", self.late[r], 9_000, self.graph[r]))
        self._kernels(1 if step.kind == "decode" else 3)
        for r in range(len(self.ranks)):
            self._finish(r, name, starts[r])

    def _begin(self, r: int) -> int:
        if not self.shape.is_async:
            self.host[r] = max(self.host[r], self.clock[r] + 20_000)
        self.clock[r] = max(self.clock[r] + self.draw.randint(2_000, 60_000), self.host[r] + 30_000)
        self.correlation[r] += 1
        self.late[r] = self.host[r] + 15_000
        return self.host[r]

    def _kernels(self, scale: int) -> None:
        side_end = [0] * len(self.ranks)
        layers = (key for _ in range(self.shape.layers) for key in LAYER)
        for key in ("quant", "unknown", *layers, "compiled", "head", "allgather"):
            if key in ("allreduce", "allgather") and len(self.ranks) > 1:
                self._meet(key)
                continue
            for r in range(len(self.ranks)):
                slow = 1.15 if self.shape.slow_rank == r else 1.0
                duration = int(self.draw.randint(1_500, 30_000) * scale * slow)
                start = self.clock[r] + self.draw.randint(0, 900)
                if self.draw.random() < self.shape.overlap:
                    start -= 1_400
                self._place(r, key, (MAIN, start, duration))
                if key == "expert" and self.shape.has_side_stream:
                    begin = max(start + 700, side_end[r] + 100)
                    self._place(r, "shared", (SIDE, begin, int(self.draw.randint(1_000, 60_000) * scale)))
                    side_end[r] = self.ranks[r].events[-1].end
        self.clock = [max(c, s + 100) for c, s in zip(self.clock, side_end, strict=True)]

    def _place(self, r: int, key: str, at: tuple[int, int, int], *, is_alone: bool = False) -> None:
        stream, start, duration = at
        rank = self.ranks[r]
        if self.graph is not None and not is_alone:
            number = self.graph[r]
        else:
            self.correlation[r] += 1
            number = self.correlation[r]
            self.late[r] += self.draw.randint(1_500, 3_000)
            kind = "cudaMemcpyAsync" if key in ("copy", "fill") else "cudaLaunchKernel"
            rank.launches.append((kind, self.late[r], 1_200, number))
            start = max(start, self.late[r] + 2_000)
        rank.events.append(Event(key, stream, start, duration, number, self.number))
        if stream == MAIN:
            self.clock[r] = max(self.clock[r], start + duration)

    def _meet(self, key: str) -> None:
        """A collective: all end together, each starts when it arrives."""
        for r in range(len(self.ranks)):
            self._place(r, key, (MAIN, self.clock[r] + self.draw.randint(100, 700), 1))
        last = max(rank.events[-1].start + rank.base_ns for rank in self.ranks)
        transfer = self.draw.randint(2_000, 9_000)
        for r, rank in enumerate(self.ranks):
            event = rank.events[-1]
            event.duration = last - (event.start + rank.base_ns) + transfer + self.draw.randint(0, 200)
            self.clock[r] = event.end

    def _finish(self, r: int, name: str, start: int) -> None:
        """End of the annotation, then what is launched after it."""
        rank = self.ranks[r]
        end = max(self.late[r], self.host[r] + 20_000) + 5_000
        rank.annotations.append((name, start, end - start))
        rank.ops.append(("aten::copy_", start + 1_000, 3_000))
        self.late[r] = end + 4_000
        for key in ("sample", "copy"):
            self._place(r, key, (MAIN, self.clock[r] + 300, self.draw.randint(900, 9_000)), is_alone=True)
        self.host[r] = self.late[r] + 30_000
        if self.shape.is_async:
            self.host[r] = max(self.host[r], self.clock[r] - 250_000)


def _annotation(shape: Shape, step: StepPlan, number: int) -> str:
    context = {"prefill": 2, "mixed": 1}.get(step.kind, 0)
    generation = {"prefill": 0, "empty": 0}.get(step.kind, step.batch - context)
    if shape.annotation == "vllm":
        return f"execute_context_{context}({context * 128})_generation_{generation}({generation})"
    if shape.annotation == "vllm-detailed":
        return f"execute_{number}_context_{context}(sq4sk9sqsq16)_generation_{generation}(sq1sk77)"
    if shape.annotation == "sglang":
        mode = {"prefill": "EXTEND", "mixed": "MIXED", "decode": "DECODE", "empty": "IDLE"}[step.kind]
        return f"step[{mode} bs={step.batch}]"
    return f"ProfilerStep#{number}"


@dataclass(frozen=True)
class StepTruth:
    """What is true of one step on one rank, nanoseconds."""

    kind: str
    batch: int
    wall: int | None
    busy: dict[str, int]
    calls: dict[str, int]
    exposed: dict[str, int]
    idle: int | None
    wait: int
    transfer: int


def truth(run: Run, rank: int) -> list[StepTruth]:
    """The truth of every step that ran something."""
    mine = run.ranks[rank]
    steps = [i for i, step in enumerate(run.plan) if step.kind != "empty"]
    first = {i: min(e.start for e in mine.events if e.step == i) for i in steps}
    ends = {i: first.get(i + 1) for i in steps}
    found = []
    for i in steps:
        busy: dict[str, int] = defaultdict(int)
        calls: dict[str, int] = defaultdict(int)
        for event in mine.events:
            if event.step == i:
                busy[event.category] += event.duration
                calls[event.category] += 1
        end = ends[i]
        exposed = _exposed(mine.events, first[i], end) if end is not None else {}
        wall = None if end is None else end - first[i]
        idle = None if wall is None else wall - sum(exposed.values())
        wait, transfer = waiting(run, rank, i)
        plan = run.plan[i]
        found.append(StepTruth(plan.kind, plan.batch, wall, dict(busy), dict(calls), exposed, idle, wait, transfer))
    return found


def _exposed(events: list[Event], begin: int, end: int) -> dict[str, int]:
    """Segment by segment: the lowest class, of it what started first, has the segment."""
    near = [(i, e) for i, e in enumerate(events) if e.start < end and e.end > begin]
    cuts = sorted({begin, end, *(t for _, e in near for t in (e.start, e.end) if begin < t < end)})
    credit: dict[str, int] = defaultdict(int)
    for left, right in pairwise(cuts):
        active = [
            (_CLASS.get(e.category, 0), e.start, -e.duration, i) for i, e in near if e.start <= left and e.end >= right
        ]
        if active:
            credit[events[min(active)[3]].category] += right - left
    return dict(credit)


def waiting(run: Run, rank: int, step: int) -> tuple[int, int]:
    """Waiting for the last rank, and the rest, over the collectives of a step."""
    if len(run.ranks) < 2:
        return 0, 0
    calls = [[e for e in r.events if e.step == step and _CLASS.get(e.category) == 1] for r in run.ranks]
    wait = total = 0
    for together in zip(*calls, strict=True):
        starts = [e.start + r.base_ns for e, r in zip(together, run.ranks, strict=True)]
        wait += max(starts) - starts[rank]
        total += together[rank].duration
    return wait, total - wait


# Writing.

LAYOUTS = ("lines", "short", "dump", "minified", "indented", "sorted")


def chrome_events(run: Run, rank: int) -> list[dict[str, Any]]:
    """The rank's events as a profiler would list them; ts and dur in integer nanoseconds."""
    mine = run.ranks[rank]
    thread = 800 + rank
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "ts": 0, "pid": thread, "tid": 0, "args": {"name": f"Worker_TP{rank}"}}
    ]

    def add(cat: str, name: str, at: tuple[int, int, int, int], **args: Any) -> None:
        pid, tid, ts, dur = at
        rows.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for name, start, duration in mine.annotations:
        add("user_annotation", name, (thread, thread, start, duration), **{"External id": 1})
        add("python_function", "vllm/v1/worker/gpu_model_runner.py(3941): execute_model", (thread, thread, start, 900))
    for name, start, duration in mine.ops:
        add("cpu_op", name, (thread, thread, start, duration))
    for name, start, duration, correlation in mine.launches:
        add("cuda_runtime", name, (thread, thread, start, duration), cbid=211, correlation=correlation)
        rows.append(
            {"ph": "s", "id": correlation, "pid": thread, "tid": thread, "ts": start, "cat": "ac2g", "name": "ac2g"}
        )
    for e in mine.events:
        kind = {"copy": "gpu_memcpy", "fill": "gpu_memset"}.get(e.key, "kernel")
        add(
            kind, KERNELS[e.key][0], (rank, e.stream, e.start, e.duration),
            **{"External id": 3, "device": rank, "stream": e.stream, "correlation": e.correlation, "grid": [1, 2, 3]},
        )  # fmt: skip
    return rows


def header(run: Run, rank: int) -> dict[str, Any]:
    """The metadata before the events."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(run.ranks)},
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": run.ranks[rank].base_ns,
    }


def microseconds(value: int) -> str:
    """Integer nanoseconds as the profiler writes them."""
    sign = "-" if value < 0 else ""
    return f"{sign}{abs(value) // 1000}.{abs(value) % 1000:03d}"


def render(rows: list[dict[str, Any]], head: dict[str, Any], layout: str) -> str:
    """A trace file's text."""
    if layout in ("lines", "short"):
        body = ",\n".join(_kineto(row, layout) for row in rows)
        start = json.dumps(head)[1:-1]
        return f'{{\n  {start},\n  "traceEvents": [\n{body}\n  ],\n  "traceName": "t.json"\n}}'
    marked = [{k: _Number(microseconds(v)) if k in ("ts", "dur") else v for k, v in row.items()} for row in rows]
    document = {**head, "traceEvents": marked}
    known: dict[str, dict[str, Any]] = {
        "dump": {}, "minified": {"separators": (",", ":")}, "indented": {"indent": 1}, "sorted": {"sort_keys": True},
    }  # fmt: skip
    return json.dumps(document, **known[layout])


class _Number(float):
    """A float that is written with exactly the digits it was given."""

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number._text = text
        return number

    _text: str

    def __repr__(self) -> str:
        return self._text


def _kineto(row: dict[str, Any], layout: str) -> str:
    fields = [
        f'"{key}": {microseconds(value) if key in ("ts", "dur") else json.dumps(value)}'
        for key, value in row.items()
        if key != "args"
    ]
    if layout == "lines":
        text = ",\n    ".join(fields)
        joint = "\n    ,\n    "
    else:
        cut = 5 if row["ph"] == "X" else 4
        text = ", ".join(fields[:cut]) + (",\n    " + ", ".join(fields[cut:]) if fields[cut:] else "")
        joint = ",\n    "
    if row.get("args"):
        text += f'{joint}"args": {{\n      {json.dumps(row["args"])[1:-1]}\n    }}'
    return f"  {{\n    {text}\n  }}"


def write(run: Run, folder: Path, *, layout: str = "lines", is_gzip: bool = False) -> list[Path]:
    """Write one file a rank; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(len(run.ranks)):
        text = render(chrome_events(run, rank), header(run, rank), layout).encode()
        path = folder / f"dp0_pp0_tp{rank}_rank{rank}.1790857026.pt.trace.json{'.gz' if is_gzip else ''}"
        path.write_bytes(gzip.compress(text, 1) if is_gzip else text)
        paths.append(path)
    return paths
