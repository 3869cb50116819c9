"""The Kimi campaign with traces of their full size: the same numbers, in a time and a memory that are printed."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.examples.test_kimi import DOCUMENT, EXAMPLE, ROOT, copy_of_example

TABLE = re.compile(r"The coarser table.*?\n\n(\|.*?)\n\n", re.DOTALL)
#: Bounds with room for a slow machine: 624 MB on two shared cores took about a fifth of these.
MOST_S = 240
MOST_GB = 3.0


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_full_size__gives_the_same_table(tmp_path: Path) -> None:
    copy = copy_of_example(tmp_path)
    for small in (copy / "traces").iterdir():
        small.unlink()
    begun = time.monotonic()
    subprocess.run([sys.executable, copy / "make_traces.py", "--full"], check=True, capture_output=True)
    made_s = time.monotonic() - begun
    size_mb = sum(path.stat().st_size for path in (copy / "traces").iterdir()) / 1e6
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "campaign", "--dir", copy, "resume"], check=True, cwd=ROOT)
    took_s = time.monotonic() - begun
    peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    figures = {"traces_mb": size_mb, "made_s": made_s, "resume_s": took_s, "largest_process_gb": peak_gb}
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))
    assert size_mb == pytest.approx(624, rel=0.01)
    assert took_s < MOST_S
    assert peak_gb < MOST_GB
    full, committed = ((folder / DOCUMENT).read_text() for folder in (copy, EXAMPLE))
    tables = [TABLE.search(text) for text in (full, committed)]
    assert tables[0] is not None and tables[1] is not None
    assert tables[0][1] == tables[1][1]
    for section in ("summary", "collectives", "facts"):
        begin, end = f"campaign:begin {section} ", f"campaign:end {section} "
        assert full[full.index(begin) : full.index(end)] == committed[committed.index(begin) : committed.index(end)]
