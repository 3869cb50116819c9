"""check: document against results."""

from __future__ import annotations

from typing import Any

import click

from campaign.cli.hints import typed
from campaign.errors import EXIT_CHECK
from campaign.phases.catalog import KINDS
from campaign.runner.checking import problems
from campaign.runner.opening import OpenCampaign


@click.command()
@click.pass_obj
def check(obj: dict[str, Any]) -> int:
    """Whether every number has a source, markers are sound, results unaltered; exit 1 names what is not."""
    found = problems(OpenCampaign(obj["dir"], KINDS))
    for text in found:
        click.echo(typed(text))
    if not found:
        click.echo("document and results agree")
    return EXIT_CHECK if found else 0
