"""plan, resume, run: the todo list looked at and worked on."""

from __future__ import annotations

import json

import click

from campaign.cli.terminal import TerminalReporter, stop_on_signals
from campaign.phases.catalog import KINDS
from campaign.planner import propose
from campaign.runner.loop import Runner
from campaign.runner.opening import OpenCampaign
from campaign.runner.planning import plan_rows
from campaign.runner.reporting import StopRequest


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_obj
def plan(obj: dict[str, object], as_json: bool) -> int:
    """What a resume would do, and why."""
    rows = plan_rows(_open(obj), propose)
    if as_json:
        document = {"schema": "campaign-plan", "schema_version": 1, "phases": rows}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    width = max((len(row["id"]) for row in rows), default=0)
    for row in rows:
        click.echo(f"{row['action']:<8} {row['id']:<{width}}  {row['reason']}")
    return 0


@click.command()
@click.option("--until", metavar="PHASE", help="Stop after this phase.")
@click.pass_obj
def resume(obj: dict[str, object], until: str | None) -> int:
    """Go on with the todo list until it is done, blocked or interrupted."""
    stop = StopRequest()
    with stop_on_signals(stop), TerminalReporter() as reporter:
        return Runner(_open(obj), reporter, stop, propose).resume(until)


@click.command()
@click.argument("phase")
@click.option("--force", is_flag=True, help="Measure again what is up to date.")
@click.pass_obj
def run(obj: dict[str, object], phase: str, force: bool) -> int:
    """Measure one phase (and start what it needs) now."""
    stop = StopRequest()
    with stop_on_signals(stop), TerminalReporter() as reporter:
        return Runner(_open(obj), reporter, stop).run_phase(phase, is_forced=force)


def _open(obj: dict[str, object]) -> OpenCampaign:
    folder = obj["dir"]
    return OpenCampaign(folder, KINDS)  # type: ignore[arg-type]
