"""The command line: parse, call the core, print, return a code.

Commands are imported only when they are called, so that `status` stays light.
"""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from pathlib import Path
from typing import Any

import click

from campaign import __version__
from campaign.cli import hints
from campaign.errors import CampaignError

#: Command → module of this package that holds it under its own name.
COMMANDS = {
    "init": "init",
    "plan": "todo",
    "resume": "todo",
    "run": "todo",
    "status": "status",
    "render": "render",
    "check": "check",
    "add": "edit",
    "skip": "edit",
    "reset": "edit",
    "import": "import_",
    "compare": "compare",
    "export": "export",
    "trace": "trace",
    "shapes": "shapes",
    "load": "load",
    "server": "server",
    "doctor": "doctor",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        name = cmd_name.replace("-", "_") + ("_" if keyword.iskeyword(cmd_name) else "")
        loaded: Any = getattr(importlib.import_module(f"campaign.cli.{module}"), name)
        return loaded if isinstance(loaded, click.Command) else None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="campaign")
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path(), show_default="this folder",
    help="The campaign folder.",
)  # fmt: skip
@click.pass_context
def group(ctx: click.Context, folder: Path) -> None:
    """Profiling campaigns of LLM servers: measured phase by phase, survived, written up in one document."""
    ctx.obj = {"dir": folder}
    hints.remember(folder)


def main() -> None:
    """Run a command and exit with its code; what goes wrong is one line on standard error."""
    try:
        code = group.main(prog_name="python -m campaign", standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except CampaignError as error:
        click.echo(f"error: {hints.typed(str(error))}", err=True)
        code = error.exit_code
    except BrokenPipeError:
        # The reader (head, less) is gone; Python would complain once more when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
