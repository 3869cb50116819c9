"""The two comments that bound a section, and the hash that the first one carries."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

import msgspec

_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
_MARKER = re.compile(rf" {{0,3}}<!-- campaign:(begin|end) ({_ID})((?: (?!-->)[^\s<>]+)*) -->[ \t]*")
_LOOK_ALIKE = re.compile(rf"<!--\s*campaign\s*:\s*(?:begin|end)\b\s*({_ID})?", re.IGNORECASE)
_HASH_WORD = re.compile(r"sha256=([0-9a-f]{8,64})")
_HASH_DIGITS = 16


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """One marker line."""

    edge: Literal["begin", "end"]
    """Which end of the section it is."""
    id: str
    """Id of the section."""
    words: tuple[str, ...] = ()
    """What stands behind the id, the hash among it."""

    @property
    def hash(self) -> str | None:
        """Hash of the text as it was last written, or None where the marker carries none."""
        found = [m.group(1) for word in self.words if (m := _HASH_WORD.fullmatch(word))]
        return found[0] if found else None


def parse_marker(line: str) -> Marker | None:
    """The marker that `line` (without its line end) is from edge to edge, or None."""
    match = _MARKER.fullmatch(line)
    if match is None:
        return None
    edge: Literal["begin", "end"] = "begin" if match.group(1) == "begin" else "end"
    words = tuple(match.group(3).split())
    if edge == "end" and words:
        return None
    return Marker(edge=edge, id=match.group(2), words=words)


def look_alike(line: str) -> str | None:
    """Id in something that reads like a marker anywhere in `line` ('' where it names none), or None."""
    match = _LOOK_ALIKE.search(line)
    return None if match is None else (match.group(1) or "").rstrip("-")


def begin_marker(section_id: str, text: str, words: tuple[str, ...] = ()) -> str:
    """The marker that begins a section whose text, as written by the machine, is `text`; other `words` are kept."""
    kept = [word for word in words if not _HASH_WORD.fullmatch(word)]
    return f"<!-- campaign:begin {' '.join([section_id, *kept, f'sha256={text_hash(text)}'])} -->"


def end_marker(section_id: str) -> str:
    """The marker that ends a section."""
    return f"<!-- campaign:end {section_id} -->"


def is_section_id(section_id: str) -> bool:
    """Whether `section_id` can stand in a marker."""
    return re.fullmatch(_ID, section_id) is not None


def normal_text(text: str) -> str:
    """`text` as it is compared and hashed: LF, no blank lines at its end, no lone surrogates but those of odd bytes.

    A surrogate of U+DC80–U+DCFF stands for one byte of a person's text that is not UTF-8 and is kept.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip(" \t"):
        lines.pop()
    return "\n".join(lines)


def text_hash(text: str) -> str:
    """First 16 hex digits of the sha256 of `normal_text(text)` in UTF-8."""
    data = normal_text(text).encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def has_hash(text: str, known: str) -> bool:
    """Whether `known` (8 to 64 hex digits of a marker) is the hash of `text`."""
    data = normal_text(text).encode("utf-8", "surrogateescape")
    return hashlib.sha256(data).hexdigest().startswith(known)
