"""A quick OpenAI server with a profiler for campaigns that attach to one: paced answers, real traces.

What its `/stop_profile` writes are the traces that a real vLLM with two ranks wrote (tests/data/traces).
"""

from __future__ import annotations

import shlex
from pathlib import Path
from types import TracebackType

from tests.load.truth import TruthServer

TRACES = Path(__file__).resolve().parents[2] / "tests" / "data" / "traces" / "cpu-deepseek-tiny-tp2-compiled"
#: 200 µs between tokens.
PACE = "itl=200"


class Served:
    """A quick server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where its profiler writes."""
        source, target = shlex.quote(str(TRACES)), shlex.quote(str(folder))
        copy = (
            f"for trace in {source}/*.pt.trace.json.gz; do name=${{trace##*/}}; "
            f'cp "$trace" {target}/"${{name%%.*}}.$(date +%s%N).pt.trace.json.gz" || exit 1; done'
        )
        self._server = TruthServer(PACE, on_stop_profile=copy)
        self.url = self._server.url

    def send(self, number: int) -> None:
        """Send it a signal."""
        self._server.process.send_signal(number)

    def __enter__(self) -> Served:
        return self

    def __exit__(self, _type: type[BaseException] | None, _value: object, _trace: TracebackType | None) -> None:
        self._server.stop()
