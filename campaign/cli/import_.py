"""import: results measured elsewhere become results here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from campaign import lock
from campaign.cli.hints import typed
from campaign.importers import IMPORTERS
from campaign.phases.catalog import KINDS
from campaign.runner.importing import import_paths
from campaign.runner.opening import OpenCampaign

_FORMATS = "\b\nFormats: " + "\n".join(f"  - {importer.title}" for importer in IMPORTERS)


@click.command("import", epilog=_FORMATS)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--phase", "phase_id", metavar="PHASE", help="Only this phase; needed where several are of one kind.")
@click.pass_obj
def import_(obj: dict[str, Any], paths: tuple[Path, ...], phase_id: str | None) -> int:
    """Take results from files (or folders) of other tools; their phases are done, and `resume` measures the rest."""
    campaign = OpenCampaign(obj["dir"], KINDS)
    store = campaign.store
    with lock.hold(store.state_folder):
        loaded = store.load_state()
        for text in store.recovered:
            click.echo(text, err=True)
        state = campaign.reconciled(loaded or store.new_state())
        state, taken = import_paths(campaign, state, [path.absolute() for path in paths], phase_id)
        store.save_state(state, "imported", detail=", ".join(map(str, paths)))
    for one in taken:
        click.echo(f"{one.phase_id}: done from {one.files} file{'s' if one.files > 1 else ''} ({one.format})")
    click.echo(typed("next: python -m campaign resume"))
    return 0
