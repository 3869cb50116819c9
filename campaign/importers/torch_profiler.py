"""Profiler traces of any vLLM version, and the profiler's text tables, as a profile result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from campaign import host
from campaign.importers import profiler_text
from campaign.importers.digits import rounded
from campaign.importers.imported import Ask, Imported, Importer, unusable
from campaign.model import find_device, read_model, shard
from campaign.phases.profile_data import Capture, Config, Data
from campaign.schema import Host
from campaign.trace import Breakdown, TraceAnalysis, analyze
from campaign.trace.result import Category, Collective, Representative, Skew, Wall

_SYNTHESISED = re.compile(rb'"campaign_synthesised"\s*:\s*"([^"\\]{1,400})"')
_IN_STEP = "synthesised traces: ranks run in step, so waiting cannot be told from transfer"
#: Further batch sizes are shown from so many steps on.
LEAST_STEPS = 10


def _claims(path: Path, head: bytes) -> bool:
    is_trace = b'"traceEvents"' in head or b'"schemaVersion"' in head or head.startswith(b"SQLite format 3")
    return is_trace or profiler_text.is_table(head)


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    config = ask.config
    assert isinstance(config, Config)
    texts = [file for file in files if profiler_text.is_table(file.read_bytes()[: 1 << 16])]
    traces = [file for file in files if file not in texts]
    if not traces:
        return _of_texts(texts, config, ask)
    found = analyze(
        traces,
        step_regex=config.step_regex or None,
        extra_categories=[(category, pattern) for pattern, category in config.categories.items()],
    )
    if found.decode is None:
        problems = "; ".join([*found.problems, *(p for rank in found.ranks for p in rank.problems)])
        raise unusable(
            traces[0], f"no decode step was found ({problems or 'no annotation of a step'})", "Set step_regex."
        )
    told = _synthesised(traces)
    analysis = _relative(rounded(_without_waiting(found) if told else found), ask.folder)
    device_name = next((rank.device_name for rank in found.ranks if rank.device_name), "")
    captures = tuple(_captures(analysis, traces, config, ask, device_name))
    return Imported(
        config=msgspec.structs.replace(config, batch=tuple(capture.batch for capture in captures)),
        data=Data(captures=captures),
        host=Host(device=device_name or ask.device_name),
        notes=(*told, *profiler_text.crosscheck(texts, analysis, ask.folder)),
    )


def _synthesised(traces: Sequence[Path]) -> tuple[str, ...]:
    """What the files say of themselves where no run was recorded."""
    from campaign.importers.recognition import head_of

    told = [match[1].decode("utf-8", "replace") for file in traces if (match := _SYNTHESISED.search(head_of(file)))]
    return tuple(dict.fromkeys(told))


def _without_waiting(found: TraceAnalysis) -> TraceAnalysis:
    """Without what a synthesised trace cannot tell: spread over steps, waiting and differences between ranks."""

    def strip(step: Breakdown | None) -> Breakdown | None:
        if step is None:
            return None
        return msgspec.structs.replace(
            step,
            wall_ms=Wall(mean=step.wall_ms.mean, median=step.wall_ms.median),
            categories=tuple(_without_spread(category) for category in step.categories),
            kernels=tuple(msgspec.structs.replace(kernel, ci95_ms=None) for kernel in step.kernels),
            collectives=tuple(_inconclusive(one) for one in step.collectives),
        )

    ranks = tuple(msgspec.structs.replace(rank, decode=strip(rank.decode)) for rank in found.ranks)
    return msgspec.structs.replace(
        found,
        ranks=ranks,
        decode=strip(found.decode),
        decode_by_batch=tuple(made for step in found.decode_by_batch if (made := strip(step)) is not None),
        skew=Skew(why=_IN_STEP),
        representative=Representative(),
        collective_steps=(),
    )


def _without_spread(category: Category) -> Category:
    return msgspec.structs.replace(category, share_median=None, share_p10=None, share_p90=None, share_ci95=None)


def _inconclusive(one: Collective) -> Collective:
    return msgspec.structs.replace(
        one, wait_us_per_call=None, transfer_us_per_call=None, verdict="inconclusive", why=_IN_STEP
    )


def _relative(found: TraceAnalysis, folder: Path) -> TraceAnalysis:
    """Paths as the campaign folder sees them: a result must not tell where its folder lay."""
    ranks = tuple(msgspec.structs.replace(rank, file=relative(Path(rank.file), folder)) for rank in found.ranks)
    return msgspec.structs.replace(found, ranks=ranks)


def relative(path: Path, folder: Path) -> str:
    """The path relative to the campaign folder where it lies inside, else its name alone."""
    whole = path.resolve()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else path.name


def _captures(
    found: TraceAnalysis, traces: Sequence[Path], config: Config, ask: Ask, device_name: str
) -> Iterator[Capture]:
    assert found.decode is not None
    further = [step for step in found.decode_by_batch if step.batch is not None and step.steps >= LEAST_STEPS]
    for step in (found.decode, *further):
        batch = step.batch if step.batch is not None else config.batch[0]
        floors, weight_bytes = _floors(config, batch, device_name or ask.device_name, ask.folder)
        yield Capture(
            batch=batch,
            traces=tuple(relative(file, ask.folder) for file in traces),
            trace_bytes=sum(file.stat().st_size for file in traces),
            unprofiled_tpot_ms=None,
            stop_s=0.0,
            analysis=msgspec.structs.replace(found, decode=step, decode_by_batch=()),
            floor_ms=floors,
            weight_bytes=weight_bytes,
        )


def _floors(config: Config, batch: int, device_name: str, folder: Path) -> tuple[dict[str, float], float | None]:
    target = config.target
    if not target.config_path:
        return {}, None
    model = read_model(host.read_model_config(str(folder / target.config_path)))
    shards = shard(model, target.tensor_parallel, target.expert_parallel)
    device = find_device(device_name) if device_name else None
    context = config.input_tokens + config.steps // 2
    floors = shards.floor_ms(device, batch, context) if device else {}
    return floors, shards.weight_bytes_per_step(batch)


def _of_texts(texts: Sequence[Path], config: Config, ask: Ask) -> Imported:
    """The tables alone: kernel time by category over the whole profile, no steps."""
    analysis = profiler_text.analysis_of(texts, ask.folder, dict(config.categories))
    capture = Capture(
        batch=config.batch[0],
        traces=tuple(relative(file, ask.folder) for file in texts),
        trace_bytes=sum(file.stat().st_size for file in texts),
        unprofiled_tpot_ms=None,
        stop_s=0.0,
        analysis=rounded(analysis),
    )
    note = "From the profiler's text tables alone: they sum over the whole profile and tell no steps."
    return Imported(config=config, data=Data(captures=(capture,)), host=Host(device=ask.device_name), notes=(note,))


IMPORTER = Importer(
    name="torch-profiler",
    title="profiler traces (*.trace.json, *.trace.json.gz, nsys *.sqlite) and tables (profiler_out*.txt)",
    kinds=lambda _files: ("profile",),
    claims=_claims,
    read=_read,
)
