"""add, skip, reset: the todo list edited by hand."""

from __future__ import annotations

from typing import Any

import click

from campaign.cli.hints import typed
from campaign.phases.catalog import KINDS
from campaign.runner.editing import add_phase, reset_phase, skip_phase
from campaign.runner.opening import OpenCampaign
from campaign.state import PhaseState


@click.command()
@click.argument("kind")
@click.argument("parameters", nargs=-1, metavar="[key=value …]")
@click.pass_obj
def add(obj: dict[str, Any], kind: str, parameters: tuple[str, ...]) -> int:
    """Put a further phase on the todo list, e.g. `add gemm batch=[64] id=gemm-64`."""
    entry = add_phase(OpenCampaign(obj["dir"], KINDS), kind, parameters)
    points = f", {entry.points_total} points" if entry.points_total else ""
    click.echo(f"{entry.id}: {entry.status}{points}{_next(entry)}")
    return 0


@click.command()
@click.argument("phase")
@click.pass_obj
def skip(obj: dict[str, Any], phase: str) -> int:
    """Leave a phase out until it is reset."""
    entry = skip_phase(OpenCampaign(obj["dir"], KINDS), phase)
    click.echo(typed(f"{entry.id}: skipped. Take it up again: python -m campaign reset {entry.id}"))
    return 0


@click.command()
@click.argument("phase")
@click.pass_obj
def reset(obj: dict[str, Any], phase: str) -> int:
    """Forget a phase's attempts (their files stay), so that it is measured again."""
    entry = reset_phase(OpenCampaign(obj["dir"], KINDS), phase)
    click.echo(f"{entry.id}: {entry.status}{_next(entry)}")
    return 0


def _next(entry: PhaseState) -> str:
    """Why a phase cannot be measured, or how it is."""
    if entry.status == "blocked":
        return f": {entry.reason.removesuffix('.')}."
    return typed(". Measure it: python -m campaign resume")
