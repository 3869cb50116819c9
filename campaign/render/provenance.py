"""Where a section's numbers come from, as templates show it and `check` finds it again."""

from __future__ import annotations

import html
import re
import shlex

import msgspec

from campaign.schema import ImportedFile, Result

_LINE = re.compile(r"<code>(?P<path>[^<]+)</code> \(sha256 <code>(?P<hash>[0-9a-f]{16,64})</code>\)")


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The source of a section's numbers."""

    command: str
    """The one command that repeats the measurement, to paste into a shell."""
    attempt: int
    """Which attempt measured it."""
    finished_at: str
    """When it was finished, UTC, ISO 8601."""
    duration_s: float
    """Measuring time, seconds."""
    device: str
    """What was measured: a GPU's name or `cpu`."""
    versions: dict[str, str]
    """Versions of the programs that took part."""
    result_path: str
    """The result file, relative to the campaign folder."""
    result_hash: str
    """sha256 of the result file."""
    imported: tuple[ImportedFile, ...] = ()
    """The files from elsewhere that it was read from: path, format, hash."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A result file that a section names as its source."""

    path: str
    """Relative to the campaign folder."""
    hash: str
    """sha256 of the file as the section was written."""


def provenance_of(result: Result, *, path: str, file_hash: str) -> Provenance:
    """What a section says about `result`, whose file is `path` with the sha256 `file_hash`."""
    return Provenance(
        command=shlex.join(result.command),
        attempt=result.attempt,
        finished_at=result.finished_at,
        duration_s=result.duration_s,
        device=result.host.device,
        versions=dict(sorted(result.versions.items())),
        result_path=path,
        result_hash=file_hash,
        imported=result.imported,
    )


def find_provenance(section_text: str) -> tuple[Reference, ...]:
    """The result files that a section's text names, in order; none where its numbers have no source."""
    return tuple(
        Reference(path=html.unescape(m["path"]), hash=m["hash"])
        for line in section_text.split("\n")
        if line.startswith("<details>")
        for m in _LINE.finditer(line)
    )
