"""The fuzz target for a given time, in slices: `python -m tests.fuzz.slices CORPUS --minutes 60`.

atheris 3.0.0 never frees the result of an instrumented comparison; where that is an array of numpy, some 100 kB an
input stay behind (`python -m tests.fuzz.leak` shows whose memory it is). A fresh process every few minutes keeps the
machine free; the corpus stays. Ends at the first finding with exit code 1; prints how many inputs ran, for how long.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

_DONE = re.compile(r"Done (\d+) runs in (\d+) second")
_RSS_LIMIT_MB = 6000


def one_slice(corpus: Path, seconds: int) -> tuple[int, int, int, str]:
    """(exit code, inputs, seconds, last lines) of one process over the corpus."""
    crashes = corpus.with_name(corpus.name + "-findings")
    crashes.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "tests.fuzz.fuzz_trace", str(corpus), f"-max_total_time={seconds}", "-timeout=20",
        f"-rss_limit_mb={_RSS_LIMIT_MB}", f"-artifact_prefix={crashes}/",
    ]  # fmt: skip
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    found = _DONE.search(done.stderr)
    runs, ran = (int(found.group(1)), int(found.group(2))) if found else (0, 0)
    return done.returncode, runs, ran, "\n".join(done.stderr.splitlines()[-40:])


def main() -> None:
    """Fuzz until the minutes are over or something is found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--slice", type=int, default=240, help="seconds a process")
    given = parser.parse_args()
    inputs = seconds = 0
    while seconds < given.minutes * 60:
        length = min(given.slice, max(1, int(given.minutes * 60 - seconds)))
        code, runs, ran, tail = one_slice(given.corpus, length)
        if code or not runs:
            print(f"{tail}\nexit {code} after {inputs} inputs in {seconds / 60:.1f} min", flush=True)
            raise SystemExit(1)
        inputs, seconds = inputs + runs, seconds + ran
        print(f"{inputs} inputs in {seconds / 60:.1f} min, no finding", flush=True)


if __name__ == "__main__":
    main()
