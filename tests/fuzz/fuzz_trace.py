"""Fuzz target of the trace reader: any bytes give an analysis or one clear error, never another exception.

Needs atheris (`pip install atheris`); run `python -m tests.fuzz.slices CORPUS --minutes 60`, which calls
`python -m tests.fuzz.fuzz_trace CORPUS -max_total_time=240 -timeout=20` again and again. Small traces of every kind are
put into the CORPUS folder first. Inputs that crash are kept in `tests/fuzz/found`, where
`tests/trace/test_fuzz.py` reads them ever after.
"""

from __future__ import annotations

import gzip
import os
import random
import sys
import tempfile
from pathlib import Path

from campaign.errors import TraceError
from campaign.trace import analyze
from tests.trace import eager, generator
from tests.trace.files import merged, one_process, write_sqlite
from tests.trace.generator import LAYOUTS, Shape

_TARGET = Path(tempfile.gettempdir()) / f"fuzz-{os.getpid()}.json"


def check(data: bytes) -> None:
    """Analyse `data` as a trace file; an exception that is no `TraceError` is a defect."""
    _TARGET.write_bytes(data)
    try:
        found = analyze([_TARGET])
    except TraceError:
        return
    finally:
        _TARGET.unlink(missing_ok=True)
    if found.decode is not None and found.decode.wall_ms.mean is not None:
        total = sum(c.exposed_ms_per_step for c in found.decode.categories) + (found.decode.idle_ms_per_step or 0.0)
        # Times that damage spreads over years keep fewer digits.
        assert abs(total - found.decode.wall_ms.mean) <= 1e-9 * max(1.0, found.decode.wall_ms.mean)


def seeds() -> list[bytes]:
    """Small sound traces in every layout, plain and zipped."""
    found = []
    for number, layout in enumerate(LAYOUTS):
        run = generator.simulate(Shape(seed=number, steps=5, layers=1, ranks=1, is_graph=number % 2 == 0))
        text = generator.render(generator.chrome_events(run, 0), generator.header(run, 0), layout).encode()
        found += [text, gzip.compress(text)]
    pair = generator.simulate(Shape(seed=7, steps=4, layers=1, ranks=2, has_fragment=False))
    head = generator.header(pair, 0)
    found += [generator.render(rows, head, "dump").encode() for rows in (one_process(pair), merged(pair))]
    found += [eager.simulate(3, on_gpu=on_gpu, steps=3).text.encode() for on_gpu in (False, True)]
    with tempfile.TemporaryDirectory() as folder:
        found.append(write_sqlite(pair, Path(folder) / "report.sqlite").read_bytes())
    return found


def mutate(data: bytes, draw: random.Random) -> bytes:
    """A few cuts, copies, flips and splices, as disks, writers and people make them."""
    piece = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        if not piece:
            break
        at, length = draw.randrange(len(piece)), draw.randint(1, 200)
        kind = draw.randrange(6)
        if kind == 0:
            piece[at] = draw.randrange(256)
        elif kind == 1:
            del piece[at : at + length]
        elif kind == 2:
            piece[at:at] = piece[max(0, at - length) : at]
        elif kind == 3:
            piece[at:at] = draw.choice(
                (b'"', b"{", b"}", b"\\", b",", b"-", b"e9", b"9" * 30, b"NaN", b"\xff", b"\x00")
            )
        elif kind == 4:
            del piece[at:]
        else:
            other = draw.randrange(len(piece))
            piece[at : at + length] = piece[other : other + length]
    return bytes(piece)


def main() -> None:
    """Run atheris over the corpus named on the command line."""
    import atheris

    corpus = next((Path(argument) for argument in sys.argv[1:] if not argument.startswith("-")), None)
    if corpus is not None:
        corpus.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(seeds()):
            (corpus / f"seed-{number}").write_bytes(data)
    atheris.instrument_all()
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
