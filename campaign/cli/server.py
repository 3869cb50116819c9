"""`campaign server start|stop|status|logs`: the managed server by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from campaign import lock, schema
from campaign.errors import UsageError
from campaign.phases.catalog import KINDS
from campaign.runner.opening import OpenCampaign
from campaign.runner.serving import server_spec
from campaign.server import LoadProgress, ServerRecord, ServerSpec, ensure_ready, find, stop, tail_text
from campaign.store import Store


@click.group()
def server() -> None:
    """The managed server by hand."""


@server.command()
@click.option("--no-wait", is_flag=True, help="Return once it is started; resume waits for it.")
@click.pass_context
def start(ctx: click.Context, no_wait: bool) -> None:
    """Start the server of campaign.toml and wait until it is ready; adopt it where it runs already."""
    folder, spec = _folder(ctx), _spec(ctx)
    with lock.hold(folder / "state"):
        shelf = _Shelf(folder)
        record = ensure_ready(
            shelf.read(),
            spec,
            log_path=folder / "state" / "server.log",
            save=shelf.write,
            on_progress=lambda progress: click.echo(describe(progress)),
            should_wait=not no_wait,
        )
    click.echo(f"{record.url} is {record.state} as {record.served_name or 'no name yet'} (pid {record.pid or '–'})")


@server.command("stop")
@click.pass_context
def stop_(ctx: click.Context) -> None:
    """Stop the server that this campaign started."""
    folder = _folder(ctx)
    with lock.hold(folder / "state"):
        shelf = _Shelf(folder)
        record = shelf.read()
        if record is None or record.state == "stopped":
            click.echo("No server of this campaign runs.")
            return
        if record.kind == "attached":
            raise UsageError(f"{record.url} is not ours: this campaign never stops an attached server.")
        stop(record, save=shelf.write)
    click.echo(f"Stopped; port {record.port} is free.")


@server.command()
@click.pass_context
def status(ctx: click.Context) -> None:
    """Whether the server is there, and how far its load is."""
    record = _Shelf(_folder(ctx)).read()
    if record is None:
        click.echo("No server was started by this campaign.")
        return
    presence, record = find(record)
    phase = f", load phase {record.load_phase}" if presence == "loading" else ""
    share = f" {record.progress:.0%}" if presence == "loading" and record.progress is not None else ""
    click.echo(f"{record.url}: {presence}{phase}{share} (pid {record.pid or '–'}, log {record.log_path or '–'})")
    if record.failure:
        click.echo(f"Last failure: {record.failure}")


@server.command()
@click.option("-n", "--lines", default=40, show_default=True, help="So many lines from the end.")
@click.pass_context
def logs(ctx: click.Context, lines: int) -> None:
    """The end of the server's log."""
    record = _Shelf(_folder(ctx)).read()
    if record is None or not record.log_path:
        raise UsageError("There is no log: no server was started by this campaign.")
    click.echo(tail_text(Path(record.log_path), lines, record.log_offset))


def describe(progress: LoadProgress) -> str:
    """One line of a load's progress."""
    share = f" {progress.progress:.0%}" if progress.progress is not None else ""
    count = f" ({progress.detail})" if progress.detail else ""
    eta = f", about {progress.eta_s:.0f} s to go" if progress.eta_s is not None else ""
    return f"{progress.elapsed_s:6.0f} s  {progress.load_phase}{share}{count}{eta}"


def _folder(ctx: click.Context) -> Path:
    folder: Path = ctx.obj["dir"]
    return folder.resolve()


def _spec(ctx: click.Context) -> ServerSpec:
    """What campaign.toml describes; a program that embeds these commands may bring its own."""
    build: Callable[[], ServerSpec] | None = ctx.obj.get("server_spec")
    return build() if build is not None else server_spec(OpenCampaign(_folder(ctx), KINDS))


class _Shelf:
    """The server's record in a campaign's state."""

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder)

    def read(self) -> ServerRecord | None:
        state = self._store.load_state()
        return msgspec.convert(state.server, ServerRecord) if state is not None and state.server else None

    def write(self, record: ServerRecord) -> None:
        state = self._store.load_state() or self._store.new_state()
        self._store.save_state(msgspec.structs.replace(state, server=schema.builtins(record)), "server")
