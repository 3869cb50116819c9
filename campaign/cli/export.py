"""export: the document as one page to send."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from campaign import files
from campaign.errors import StorageError


@click.command()
@click.option("--html", "as_html", is_flag=True, default=True, help="One self-contained HTML page (the default).")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Where to; default: beside the document.")
@click.pass_obj
def export(obj: dict[str, Any], as_html: bool, out: Path | None) -> int:
    """One self-contained HTML page of the document: figures inside, nothing fetched."""
    from campaign.phases.catalog import KINDS
    from campaign.runner.opening import OpenCampaign
    from campaign.runner.writing import document_path

    path = document_path(OpenCampaign(obj["dir"], KINDS))
    target = out or path.with_suffix(".html")
    files.write_atomic(target, page_of(path).encode("utf-8"))
    click.echo(str(target))
    return 0


def page_of(path: Path) -> str:
    """The page of the document at `path`, with the images that stand below its folder.

    Raises `StorageError` where there is no document yet.
    """
    from campaign.export import export_html, figure_links

    try:
        source = path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read: {error.strerror}. Write it with: python -m campaign render"
        ) from error
    folder = path.parent.resolve()
    figures: dict[str, bytes] = {}
    for link in figure_links(source):
        image = (folder / unquote(link)).resolve()
        if image.is_relative_to(folder) and image.is_file():
            figures[link] = image.read_bytes()
    return export_html(source, figures)
