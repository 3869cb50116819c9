"""render: the document rewritten from results alone."""

from __future__ import annotations

import difflib
import io
from typing import Any

import click

from campaign import lock
from campaign.cli.hints import typed
from campaign.errors import EXIT_CHECK, EXIT_DOCUMENT
from campaign.phases.catalog import KINDS
from campaign.runner.opening import OpenCampaign
from campaign.runner.writing import Composer, document_path, preview, write


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if something would change.")
@click.option("--diff", is_flag=True, help="Change nothing; show what would change.")
@click.option("--force", "force", metavar="ID", multiple=True, help="Take the new text of a section in conflict.")
@click.option("--insert", "insert", metavar="ID", multiple=True, help="Put back a section that was taken out.")
@click.pass_obj
def render(obj: dict[str, Any], check: bool, diff: bool, force: tuple[str, ...], insert: tuple[str, ...]) -> int:
    """Rewrite stale sections from results; measures nothing."""
    campaign = OpenCampaign(obj["dir"], KINDS)
    store = campaign.store
    state = store.load_state()
    for text in store.recovered:
        click.echo(typed(text), err=True)
    if state is None:
        click.echo(typed("no campaign has begun here: python -m campaign resume"), err=True)
        return 0
    state = campaign.reconciled(state)
    if check or diff:
        written = preview(campaign, state, Composer(campaign, state).compose(), force=force, insert=insert)
        if diff:
            click.echo(unified(written.before, written.after, campaign.config.document.path), nl=False)
        for text in written.needs_person:
            click.echo(typed(text), err=True)
        if written.needs_person:
            return EXIT_DOCUMENT
        return EXIT_CHECK if check and written.is_changed else 0
    with lock.hold(store.state_folder):
        state, written = write(campaign, state, force=force, insert=insert)
        if state != store.load_state():
            store.save_state(state, "document")
    changed = [name for name, outcome in written.states.items() if outcome in ("updated", "inserted", "merged")]
    click.echo(f"{document_path(campaign)}: {', '.join(changed) if written.is_changed else 'nothing changed'}")
    for text in written.needs_person:
        click.echo(typed(text), err=True)
    return EXIT_DOCUMENT if written.needs_person else 0


def unified(before: bytes, after: bytes, name: str) -> str:
    """The difference as `patch` and `git apply` take it: lines end at "\\n" alone."""
    old, new = (list(io.StringIO(data.decode("utf-8", "replace"), newline="\n")) for data in (before, after))
    lines = difflib.unified_diff(old, new, name, f"{name} (rewritten)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
