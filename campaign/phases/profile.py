"""profile: where every microsecond of a decode step goes, by batch size."""

from __future__ import annotations

from campaign import host, schema
from campaign.model import read_model, shard
from campaign.phases.kind import Analysis, Context, Figure, PhaseKind
from campaign.phases.profile_data import Config, Data, Expected, Parameters
from campaign.phases.profile_quantities import findings_of, quantities_of
from campaign.phases.profile_table import CaptureView, View, capture_view
from campaign.schema import Quantity, Result, Source


def _batches(parameters: Parameters) -> tuple[int, ...]:
    return (parameters.batch,) if isinstance(parameters.batch, int) else parameters.batch


def _configure(parameters: Parameters, context: Context) -> Config:
    target = context.target
    expected = Expected()
    if target.config_path:
        shards = shard(
            read_model(host.read_model_config(target.config_path)), target.tensor_parallel, target.expert_parallel
        )
        expected = Expected(
            allreduces_per_step=shards.collectives_per_step if target.tensor_parallel > 1 else 0,
            layers=shards.model.layers,
            message_bytes_per_token=shards.message_bytes(1),
        )
    return Config(
        target=target, server=context.server, batch=_batches(parameters), steps=parameters.steps,
        input_tokens=parameters.input_tokens, step_regex=parameters.step_regex, categories=parameters.categories,
        expected=expected,
    )  # fmt: skip


def _points(config: Config) -> tuple[str, ...]:
    return tuple(f"batch {batch}" for batch in config.batch)


def _analyze(result: Result, context: Context) -> Analysis:
    data, config = schema.decode(bytes(result.data), Data), schema.decode(bytes(result.config), Config)
    views: list[CaptureView] = []
    quantities: list[Quantity] = []
    for number, capture in enumerate(data.captures):
        view = capture_view(capture, config)
        if view is not None:
            suffix = "" if not views else f"@b{capture.batch}"
            source = Source(phase="profile", attempt=result.attempt, pointer=f"/captures/{number}/analysis")
            quantities += quantities_of(capture, view, config, source, suffix)
            views.append(view)
    whole = View(
        captures=tuple(views),
        layers=config.expected.layers,
        message_bytes=config.expected.message_bytes_per_token,
        tensor_parallel=context.target.tensor_parallel,
    )
    return Analysis(
        view=whole, quantities=tuple(quantities), findings=tuple(findings_of(whole)), figures=lambda: _figures(whole)
    )


def _figures(view: View) -> tuple[Figure, ...]:
    from campaign.figures import stacked_bar

    made = []
    for capture in view.captures:
        parts = [(row.name, row.exposed_ms or 0.0) for row in capture.rows if row.exposed_ms]
        parts.append(("host" if capture.is_cpu else "idle", capture.idle_ms))
        svg = stacked_bar(parts, unit="ms", title=f"One decode step at batch {capture.batch}")
        made.append(Figure(name=capture.figure, svg=svg))
    return tuple(made)


KIND = PhaseKind(
    name="profile",
    title="Where a decode step goes",
    parameters=Parameters,
    script_version=1,
    server="profiled",
    configure=_configure,
    points=_points,
    analyze=_analyze,
    template="profile.md.j2",
)
