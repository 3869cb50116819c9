"""Sections in a person's markdown: find them, splice new text in, merge the person's edits, refuse what is unsound.

Knows only (id, text, hash); every byte outside sections is the person's.
"""

from campaign.document.adopt import adopt_headings
from campaign.document.markers import begin_marker, end_marker, normal_text, text_hash
from campaign.document.revision import Revision, revise
from campaign.document.structure import Section, find

__all__ = [
    "Revision",
    "Section",
    "adopt_headings",
    "begin_marker",
    "end_marker",
    "find",
    "normal_text",
    "revise",
    "text_hash",
]
