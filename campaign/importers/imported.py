"""What an importer is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from campaign.errors import UsageError
from campaign.phases.kind import Context
from campaign.schema import Host


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of files from elsewhere."""

    kind: str
    """Kind of the phase that they answer."""
    config: msgspec.Struct
    """The phase's config, as its script would be given it."""
    context: Context
    """The target."""
    folder: Path
    """The campaign folder, which the config's paths are relative to."""
    device_name: str = ""
    """The device that the campaign is about, where campaign.toml names it."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, in the form that the phase's own script would have written."""

    config: msgspec.Struct
    """The phase's config, changed to what the files say (sizes, batches, ranks)."""
    data: msgspec.Struct
    """The kind's own result."""
    origin: str = "imported"
    """imported, or noted (known only from notes)."""
    host: Host = Host(device="")
    """Where it was measured, as far as the files tell."""
    versions: dict[str, str] = {}
    """Versions that the files name."""
    started_at: str = ""
    finished_at: str = ""
    """As the files tell; empty where they do not."""
    duration_s: float = 0.0
    """Measuring time, as the files tell; 0 where they do not."""
    notes: tuple[str, ...] = ()
    """What a reader must know where the numbers stand."""


@dataclass(frozen=True, kw_only=True)
class Importer:
    """One format. Everything else of the package handles all formats alike."""

    name: str
    """Short name, as results keep it."""
    title: str
    """As messages and the document name it."""
    kinds: Callable[[Sequence[Path]], tuple[str, ...]]
    """Files of this format → the kinds of phase that they answer."""
    claims: Callable[[Path, bytes], bool]
    """(path, first bytes, decompressed) → whether the file is of this format."""
    read: Callable[[Sequence[Path], Ask], Imported]
    """Files → result; raises `UsageError` with file and place where they are not what they claim."""


def unusable(path: Path, what: str, instead: str) -> UsageError:
    """The error of a file that cannot be read as what it claims to be."""
    return UsageError(f"{path}: {what}. {instead}")


def read_text(path: Path) -> str:
    """The file as UTF-8 text; raises `UsageError`."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unusable(
            path, f"cannot be read as UTF-8 text ({error})", "Give the file as its tool wrote it."
        ) from error
