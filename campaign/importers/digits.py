"""Numbers cut to what every machine computes alike: results from elsewhere must hash alike anywhere."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

#: Significant digits kept; vector units differ in the last of sixteen.
DIGITS = 10


def rounded(value: T) -> T:
    """The struct with every float in it rounded to ten significant digits."""
    return msgspec.convert(_rounded(msgspec.to_builtins(value)), type(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return value
