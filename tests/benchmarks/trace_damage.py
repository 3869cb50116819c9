"""Twenty-four damaged or unusual files with the truth of what can still be read in each, for every contender alike."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from campaign.trace.categories import CATEGORIES, table
from tests.benchmarks.trace_contenders import by_category
from tests.trace import damage, generator

#: Relative error of a category's time below which a file counts as read right.
TOLERANCE = 1e-6

_CUT = damage.TEXT[: damage.TEXT.index('"ts": ', int(len(damage.TEXT) * 0.9)) + 12]
_ZIPPED = gzip.compress(damage.TEXT.encode(), 1)
_CUT_ZIP = _ZIPPED[:-5000]


def _zero_length() -> bytes:
    row = next(row for row in damage.ROWS if row.get("cat") == "kernel")
    return generator.render([*damage.ROWS, {**row, "dur": 0}], damage.HEAD, "lines").encode()


def _kernels_alone() -> bytes:
    """As with the host's activity off."""
    rows = [row for row in damage.ROWS if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return generator.render(rows, damage.HEAD, "lines").encode()


def _same(kind: str) -> Callable[[], bytes]:
    return damage.SAME[kind]


def _loss(kind: str) -> Callable[[], bytes]:
    return damage.LOSS[kind][0]


#: kind → how its file is made; `.gz` names end so.
KINDS: dict[str, Callable[[], bytes]] = {
    **{kind: _same(kind) for kind in (
        "shuffled", "many gzip members", "metadata after the events", "no distributedInfo", "minified", "indented",
        "bad UTF-8 in a name", "one raw quote in a name", "bad escape in a name", "control characters in a name",
        "inf in arguments", "Infinity in arguments", "NaN in arguments", "times as strings", "bare array of events",
    )},
    **{kind: _loss(kind) for kind in (
        "every event twice", "negative duration", "236 years", "half an event", "garbage after gzip",
    )},
    "zero-length kernel": _zero_length,
    "kernels alone": _kernels_alone,
    "cut text": _CUT.encode,
    "cut gzip": lambda: _CUT_ZIP,
}  # fmt: skip
#: Kinds in which something is lost, so that something must be said.
LOST = (
    "every event twice",
    "negative duration",
    "236 years",
    "half an event",
    "garbage after gzip",
    "cut text",
    "cut gzip",
)


def truth(kind: str) -> dict[str, int]:
    """Nanoseconds by category over all device events that are whole and possible in the file of this kind."""
    if kind == "cut text":
        return _sums(_CUT)
    if kind == "cut gzip":
        return _sums(zlib.decompressobj(31).decompress(_CUT_ZIP).decode("utf-8", "ignore"))
    return _sums(damage.TEXT)


def _sums(text: str) -> dict[str, int]:
    """The slow way: the file mended after its last whole event, then plain JSON."""
    if not text.rstrip().endswith('}\n  ],\n  "traceName": "t.json"\n}'):
        text = damage.whole_events_of(text).decode()
    known = table()
    sums: dict[str, int] = defaultdict(int)
    for event in json.loads(text, parse_float=str)["traceEvents"]:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            whole, _, thousandths = event["dur"].partition(".")
            sums[CATEGORIES[known.category(event["name"])]] += int(whole + thousandths)
    return dict(sums)


def make(folder: Path) -> Path:
    """A folder a kind, by number, with one file each."""
    for number, write in enumerate(KINDS.values()):
        place = folder / f"{number:02d}"
        place.mkdir(parents=True, exist_ok=True)
        data = write()
        ending = ".gz" if data.startswith(b"\x1f\x8b") else ""
        (place / f"rank0.1.pt.trace.json{ending}").write_bytes(data)
    return folder


def right(kind: str, found: Any) -> bool:
    """Whether a contender's sums are the truth, and where something is lost and it can say so, it did."""
    if not isinstance(found, dict) or found.get("error"):
        return False
    if kind in LOST and found.get("problems") == []:
        return False
    want = truth(kind)
    sums = found["whole"]
    return set(sums) == set(want) and all(abs(sums[name] - ns) <= TOLERANCE * ns for name, ns in want.items())


def failed(found: dict[str, Any]) -> list[str]:
    """The kinds that a contender did not read right, of what it gave by number of kind."""
    wrong = []
    for number, kind in enumerate(KINDS):
        one = found[f"{number:02d}"]
        if "kernels" in one:
            one = {"whole": by_category(one["kernels"], 1)[0]}
        if not right(kind, one):
            wrong.append(kind)
    return wrong
