"""Whose memory grows while atheris fuzzes: `python -m tests.fuzz.leak` compares arrays, plain and watched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

_TIMES = 300


def _compare(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    is_quote: npt.NDArray[np.bool_] = data == 34
    return is_quote


def _grown_kb(compare: Callable[[npt.NDArray[np.uint8]], object]) -> int:
    data = np.zeros(100_000, np.uint8)
    before = _resident_kb()
    for _ in range(_TIMES):
        compare(data)
    return _resident_kb() - before


def _resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def main() -> None:
    """Print the growth of both."""
    import atheris

    print(f"{_TIMES} comparisons of 100,000 bytes: plain {_grown_kb(_compare)} kB")
    print(f"{_TIMES} comparisons of 100,000 bytes: instrumented {_grown_kb(atheris.instrument_func(_compare))} kB")


if __name__ == "__main__":
    main()
