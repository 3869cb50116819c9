"""What the analysis says: the structs behind `trace --json`, every field documented."""

from __future__ import annotations

import msgspec


class Wall(msgspec.Struct, frozen=True, kw_only=True):
    """Length of a step."""

    mean: float | None = None
    """Milliseconds; exposed + idle add up to this."""
    median: float | None = None
    p10: float | None = None
    p90: float | None = None
    ci95: tuple[float, float] | None = None
    """95 % interval of the mean (Student's t over steps); null below three steps."""


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """One category of work in a step."""

    name: str
    calls_per_step: float
    busy_ms_per_step: float
    """Sum of durations."""
    exposed_ms_per_step: float
    """Instants credited to it: compute hides communication, communication hides copies."""
    share_of_busy: float
    """Fraction of the sum of busy times."""
    share_of_wall: float | None
    """Exposed over step wall, a fraction."""
    us_per_call: float | None
    share_median: float | None = None
    """Over steps, of exposed over wall."""
    share_p10: float | None = None
    share_p90: float | None = None
    share_ci95: tuple[float, float] | None = None
    """95 % interval of `share_of_wall`."""
    exposed_ci95_ms: tuple[float, float] | None = None
    """95 % interval of `exposed_ms_per_step`."""


class AbsentCategory(msgspec.Struct, frozen=True, kw_only=True):
    """A category that has no kernel or op of its own here."""

    name: str
    absent_reason: str


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel (or op) of a step, by its full name."""

    name: str
    category: str
    calls_per_step: float
    us_per_call: float
    busy_ms_per_step: float
    ci95_ms: tuple[float, float] | None = None
    """95 % interval of `busy_ms_per_step`."""


class Collective(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of collective call."""

    name: str
    """Category: allreduce or comm_other."""
    kernel: str
    calls_per_step: float
    us_per_call: float
    median_us: float | None = None
    wait_us_per_call: float | None = None
    """Waiting for the last rank; null where ranks cannot be compared."""
    transfer_us_per_call: float | None = None
    message_bytes: int | None = None
    """From the profiler's arguments; null where it recorded none (graph replays, direct kernels)."""
    algorithm: str | None = None
    """Ring, tree, one-shot …, as far as the kernel's name tells."""
    verdict: str = "inconclusive"
    """transfer-bound, skew-bound, mixed or inconclusive."""
    why: str = ""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the host did in a step."""

    annotation_ms_per_step: float | None = None
    """Length of the engine's annotation (execute_model)."""
    launches_per_step: float | None = None
    graph_launches_per_step: float | None = None
    launch_ms_per_step: float | None = None
    """Time inside launch calls."""
    sync_ms_per_step: float | None = None
    """Time inside synchronising calls."""


class Unclassified(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that no rule knows."""

    name: str
    busy_ms_per_step: float
    share_of_busy: float


class CompiledKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A generated kernel whose name says nothing, with what stands around it."""

    name: str
    calls_per_step: float
    busy_ms_per_step: float
    before: str
    """Most frequent kernel before it on its stream."""
    before_category: str
    after: str
    after_category: str


class LayerKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel of the repeating sequence of a layer."""

    name: str
    category: str
    us: float
    """Mean duration over the repeats in the median step."""
    gap_us: float
    """Mean idle before it on its stream (negative: it starts before its predecessor ends)."""


class Breakdown(msgspec.Struct, frozen=True, kw_only=True):
    """The mean decode step of one batch size."""

    batch: int | None
    """Sequences in the step; null where no annotation told."""
    steps: int
    """Kept steps: what every mean rests on."""
    trimmed: int
    """Unsteady steps left out at the start."""
    without_wall: int = 0
    """Steps left out because the step after them is not known (the last, or one before a pause)."""
    wall_ms: Wall = Wall()
    busy_ms_per_step: float = 0.0
    idle_ms_per_step: float | None = None
    idle: dict[str, float] = {}
    """Idle ms a step by reason: host (not launched yet), sync (the host waited in a synchronising call), launch
    (launched, not started), graph (gap inside a graph), unknown."""
    idle_share: float | None = None
    categories: tuple[Category, ...] = ()
    absent: tuple[AbsentCategory, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    """By busy time, the largest first."""
    collectives: tuple[Collective, ...] = ()
    host: Host = Host()
    unclassified: tuple[Unclassified, ...] = ()
    unclassified_share: float | None = None
    """Busy share of `other`."""
    compiled: tuple[CompiledKernel, ...] = ()


class SpreadMs(msgspec.Struct, frozen=True, kw_only=True):
    """Median and deciles, ms."""

    median: float | None = None
    p10: float | None = None
    p90: float | None = None


class StepGroup(msgspec.Struct, frozen=True, kw_only=True):
    """All steps of one kind, untrimmed."""

    count: int = 0
    batch_sizes: tuple[int, ...] = ()
    wall_ms: SpreadMs = SpreadMs()
    collectives: tuple[Collective, ...] = ()
    """The kind's collectives, waiting apart from transfer."""


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """Steps by kind (of the first rank; a rank that differs is a problem)."""

    decode: StepGroup = StepGroup()
    prefill: StepGroup = StepGroup()
    mixed: StepGroup = StepGroup()


class CollectiveStep(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting and transfer in one step, all collectives together, mean over ranks."""

    step: int
    kind: str
    calls: int
    wait_ms: float
    transfer_ms: float
    longest_us: float
    """The longest single call on any rank."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """The trace's total against the profiler's own table of the same rank."""

    table: str
    """File name."""
    table_ms: float
    """The total that the table states."""
    trace_ms: float
    """Sum of all device events in the trace."""
    difference_share: float
    is_equal: bool
    """Within half a percent."""


class Rank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's file."""

    rank: int
    file: str
    events: int
    steps_total: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    device_name: str = ""
    device_number: int | None = None
    """Number of the GPU, where one file holds the kernels of several; null where it holds one only."""
    world_size: int | None = None
    steps_found_by: str = ""
    """annotations, device annotations, graph launches, repeating kernels, or none."""
    outside_events: int = 0
    """Device events that belong to no step (before the first, or in empty ones)."""
    outside_ms: float = 0.0
    whole: tuple[Category, ...] = ()
    """The whole file as one step: what remains to be said where no steps were found."""
    reconciliation: Reconciliation | None = None
    """Where a text table of this rank lies beside the trace (device events only)."""
    decode: Breakdown | None = None


class Skew(msgspec.Struct, frozen=True, kw_only=True):
    """How ranks differ where they meet."""

    slowest_rank: int | None = None
    """The rank the others wait for."""
    spread_ms_per_step: float | None = None
    """Waiting of the rank that waits most less that of the one that waits least, ms a step."""
    wait_ms_per_step: tuple[float, ...] = ()
    """By rank."""
    transfer_ms_per_step: float | None = None
    arrived_last: tuple[int, ...] = ()
    """By rank: how many calls it was the last to join."""
    method: str = ""
    """clock (starts compared), shortest (the shortest of a call is its transfer), or empty."""
    why: str = ""


class Representative(msgspec.Struct, frozen=True, kw_only=True):
    """Whether rank 0 stands for all, and whether the steps suffice."""

    is_rank0_representative: bool | None = None
    worst_category: str | None = None
    worst_difference_share: float | None = None
    """|rank 0 − mean of ranks| of that category's exposed time, over step wall."""
    has_enough_steps: bool | None = None
    ci_share: float | None = None
    """Half the 95 % interval of the mean step over the mean."""
    text: str = ""


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """The repeating sequence of kernels inside a median step."""

    repeats: int
    """How often it comes in a row: the number of equal layers."""
    total_us: float
    """Sum of durations and gaps."""
    kernels: tuple[LayerKernel, ...]


class TraceAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """The whole analysis."""

    schema: str = "campaign-trace"
    schema_version: int = 1
    device: str = "gpu"
    """gpu, or cpu: no kernels, self time of ops instead."""
    ranks: tuple[Rank, ...] = ()
    steps: Steps = Steps()
    decode: Breakdown | None = None
    """The batch size with the most decode steps, mean over ranks; null where no decode step was found."""
    decode_by_batch: tuple[Breakdown, ...] = ()
    """The other batch sizes."""
    skew: Skew = Skew()
    collective_steps: tuple[CollectiveStep, ...] = ()
    representative: Representative = Representative()
    layer: Layer | None = None
    steps_found_by: str = ""
    problems: tuple[str, ...] = ()
    """Everything that is wrong with the input as a whole."""
    skipped_files: tuple[str, ...] = ()
    """Files that are no rank's trace (the API server's)."""
