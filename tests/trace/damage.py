"""Damaged and unusual files made from one sound trace, each with what must be said of it."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import Any

from tests.trace import generator
from tests.trace.generator import Shape

RUN = generator.simulate(Shape(seed=11, steps=14, layers=3, prefill_every=6))
ROWS = generator.chrome_events(RUN, 0)
HEAD = generator.header(RUN, 0)
TEXT = generator.render(ROWS, HEAD, "lines")
SECRET = "void my_company::secret_kernel<int>(int*)"


def with_name(spelling: str) -> bytes:
    assert SECRET in TEXT
    return TEXT.replace(SECRET, spelling).encode()


def members() -> bytes:
    data = TEXT.encode()
    return b"".join(gzip.compress(data[i : i + 20_000]) for i in range(0, len(data), 20_000))


def shuffled() -> bytes:
    rows = list(ROWS)
    random.Random(1).shuffle(rows)
    return generator.render(rows, HEAD, "lines").encode()


def head_last() -> bytes:
    rest = json.dumps({k: v for k, v in HEAD.items() if k != "schemaVersion"})[1:-1]
    text = generator.render(ROWS, {"schemaVersion": 1}, "lines")
    return (text.rstrip()[:-1] + f",\n{rest}\n}}").encode()


def with_arguments(value: str) -> bytes:
    """A value that is no JSON among the arguments of every copy."""
    return TEXT.replace('"External id": 3', f'"External id": 3, "memory bandwidth (GB/s)": {value}').encode()


def times_as_strings() -> bytes:
    lines = TEXT.split("\n")
    changed = [
        f'{line.split(": ")[0]}: "{line.split(": ")[1].rstrip(",")}"' + ("," if line.endswith(",") else "")
        if line.strip().startswith(('"ts": ', '"dur": '))
        else line
        for line in lines
    ]
    return "\n".join(changed).encode()


def bare_array() -> bytes:
    events = TEXT.split('"traceEvents": [\n')[1].rsplit("  ],", 1)[0]
    return f"[\n{events}]".encode()


SAME: dict[str, Callable[[], bytes]] = {
    "shuffled": shuffled,
    "many gzip members": members,
    "gzip under a .json name": lambda: gzip.compress(TEXT.encode()),
    "metadata after the events": head_last,
    "no distributedInfo": lambda: generator.render(
        ROWS, {k: v for k, v in HEAD.items() if k != "distributedInfo"}, "lines"
    ).encode(),
    "no metadata at all": lambda: generator.render(ROWS, {"schemaVersion": 1}, "lines").encode(),
    "json.dump": lambda: generator.render(ROWS, HEAD, "dump").encode(),
    "minified": lambda: generator.render(ROWS, HEAD, "minified").encode(),
    "indented": lambda: generator.render(ROWS, HEAD, "indented").encode(),
    "keys sorted": lambda: generator.render(ROWS, HEAD, "sorted").encode(),
    "Windows line ends": lambda: TEXT.replace("\n", "\r\n").encode(),
    "byte order mark": lambda: b"\xef\xbb\xbf" + TEXT.encode(),
    "bad UTF-8 in a name": lambda: with_name(SECRET).replace(b"secret_kernel", b"secret\xff\xfe_kernel"),
    "raw quotes in a name": lambda: with_name('void my_company::secret_"quoted"_kernel<int>(int*)'),
    "one raw quote in a name": lambda: with_name('void my_company::secret_kernel<"int>(int*)'),
    "escaped quotes in a name": lambda: with_name('void my_company::secret_\\"k\\"_kernel<int>(int*)'),
    "bad escape in a name": lambda: with_name("void my_company::secret\\x41\\q_kernel<int>(int*)"),
    "backslash at a name's end": lambda: with_name("void my_company::secret_kernel\\\\"),
    "control characters in a name": lambda: with_name("void my_company::secret\x01\x1f\t_kernel<int>(int*)"),
    "inf in arguments": lambda: with_arguments("inf"),
    "Infinity in arguments": lambda: with_arguments("Infinity"),
    "NaN in arguments": lambda: with_arguments("NaN"),
    "times as strings": times_as_strings,
    "bare array of events": bare_array,
}


def duplicated() -> bytes:
    return generator.render([*ROWS, *(row for row in ROWS if row["ph"] == "X")], HEAD, "lines").encode()


def with_extra(**changes: Any) -> bytes:
    """One more kernel, with times that cannot be."""
    row = next(row for row in ROWS if row.get("cat") == "kernel" and row["name"] == SECRET)
    return generator.render([*ROWS, {**row, **changes}], HEAD, "lines").encode()


def half_event() -> bytes:
    """A second writer cuts into an event: half of one stands in the middle, before a whole one."""
    at = TEXT.index('  {\n    "ph": "X",\n    "cat": "kernel"', len(TEXT) // 2)
    return (TEXT[:at] + TEXT[at : at + 60] + "\n" + TEXT[at:]).encode()


LOSS: dict[str, tuple[Callable[[], bytes], str]] = {
    "every event twice": (duplicated, "exact duplicates"),
    "negative duration": (lambda: with_extra(dur=-5_000), "negative durations"),
    "236 years": (lambda: with_extra(dur=236 * 365 * 86400 * 10**9), "beyond the trace's span"),
    "a start far away": (lambda: with_extra(ts=4 * 10**18), "more than a day"),
    "half an event": (half_event, "1 of"),
    "garbage after gzip": (lambda: gzip.compress(TEXT.encode()) + b"garbage" * 99, "not gzip"),
    "a time that is no number": (
        lambda: TEXT.replace(
            "  ],",
            ',{"ph": "X", "cat": "kernel", "name": "x", "pid": 0, "tid": 7, "ts": NaN, "dur": 1.0, "args": {}}  ],',
        ).encode(),
        "1 of",
    ),
}


def whole_events_of(cut: str) -> bytes:
    """The same file, cut after its last whole event, made sound again."""
    return (cut[: cut.rindex("\n  },\n") + 4] + "\n  ]\n}").encode()
