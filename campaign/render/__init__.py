"""Templates that people edit, into markdown that values cannot break; the same bytes on any machine and locale."""

from campaign.render.escape import Markdown, block, cell, code, html, text
from campaign.render.numbers import DASH, column, fixed, num, percent, shares, signed
from campaign.render.provenance import Provenance, find_provenance, provenance_of
from campaign.render.reference import describe_templates
from campaign.render.renderer import Renderer, shipped_templates
from campaign.render.tables import table

__all__ = [
    "DASH",
    "Markdown",
    "Provenance",
    "Renderer",
    "block",
    "cell",
    "code",
    "column",
    "describe_templates",
    "find_provenance",
    "fixed",
    "html",
    "num",
    "percent",
    "provenance_of",
    "shares",
    "shipped_templates",
    "signed",
    "table",
    "text",
]
