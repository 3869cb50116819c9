"""Why a kernel or a path could not be measured, in one line of a table."""

from __future__ import annotations

#: Longer texts are cut; engines list what each of their kernels lacks.
LENGTH = 400
#: How the note of a time begins that holds the launches of one call after another.
NO_GRAPH = "no CUDA graph, launched one by one"
NOTE_LENGTH = 200


def reason_of(error: BaseException) -> str:
    """Type and text of an error in one line, at most `LENGTH` characters of text."""
    return f"{type(error).__name__}: {_line(error, LENGTH) or 'no message'}"


def no_graph(error: BaseException) -> str:
    """The note of a kernel that could not be captured, with the reason."""
    return f"{NO_GRAPH}: {_line(error, NOTE_LENGTH)}"


def _line(error: BaseException, length: int) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= length else text[: length - 2] + " …"
