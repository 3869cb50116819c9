"""What a person is told to type next works where they read it: with the `--dir` that was given."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

_COMMAND = re.compile(r"python -m campaign(?= (?!--dir))")
#: Of this process's command line.
_given: list[str] = []


def remember(folder: Path) -> None:
    """The `--dir` of this call; the current folder needs none."""
    _given[:] = [] if folder == Path() else ["--dir", str(folder)]


def typed(text: str) -> str:
    """The text, its commands as they must be typed here."""
    return _COMMAND.sub(lambda match: " ".join((match.group(), shlex.join(_given))), text) if _given else text
