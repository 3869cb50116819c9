"""Results measured elsewhere: files in many formats → the result that the phase's own script would have written."""

from __future__ import annotations

from campaign.importers.imported import Ask, Imported, Importer
from campaign.importers.recognition import Found, collect, files_of, fingerprints, read_kind, recognise
from campaign.importers.table import IMPORTERS

#: Raised when what an importer makes of the same bytes changes; makes imported results stale.
VERSION = 1

__all__ = [
    "IMPORTERS",
    "VERSION",
    "Ask",
    "Found",
    "Imported",
    "Importer",
    "collect",
    "files_of",
    "fingerprints",
    "read_kind",
    "recognise",
]
