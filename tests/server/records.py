"""A server's record in a file of its own: what the drills have in place of a campaign's state."""

from __future__ import annotations

from pathlib import Path

from campaign import files, schema
from campaign.server import ServerRecord


def read_record(path: Path) -> ServerRecord | None:
    """The record kept in a file; None where there is none."""
    return schema.decode(path.read_bytes(), ServerRecord) if path.exists() else None


def write_record(path: Path, record: ServerRecord) -> None:
    """Keep the record in a file, whole and on disk."""
    files.write_atomic(path, schema.encode_pretty(record))
