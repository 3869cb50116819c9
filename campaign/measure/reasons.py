"""Why a kernel or a path could not be measured, in one line of a table."""

from __future__ import annotations

#: Longer texts are cut; engines list what each of their kernels lacks.
LENGTH = 400


def reason_of(error: BaseException) -> str:
    """Type and text of an error in one line, at most `LENGTH` characters of text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:LENGTH] or 'no message'}"
