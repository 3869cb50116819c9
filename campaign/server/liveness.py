"""Whether a server works while a phase runs: a hung worker behind a healthy `/health` is found within a minute."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from campaign.errors import ServerError
from campaign.server import death, port, presence, probe
from campaign.server.record import ServerRecord

#: Silence that counts as a hang; with the pause between two looks it stays under a minute.
HANG_S = 45.0
WATCH_INTERVAL_S = 10.0


def check_alive(record: ServerRecord, *, timeout_s: float = HANG_S) -> None:
    """Raise `ServerError` unless the server works: a token within `timeout_s`, or its counters move under load.

    While requests run, a further one would queue behind them and disturb what is measured: then any counter of
    work done that moves is a sign of life, and one that does not within `timeout_s` is a hang.
    """
    if record.kind == "managed" and not presence.is_alive(record):
        raise death.death_error(record)
    end = time.monotonic() + timeout_s
    before = probe.counters(record, min(5.0, timeout_s)) or {}
    if before.get("vllm:num_requests_running", 0.0) > 0:
        if _work_moves(record, before, end):
            return
        problem = f"its token counters have not moved for {timeout_s:.0f} s with requests running"
    else:
        answer = probe.complete_one_token(record, max(1.0, end - time.monotonic()), before)
        if answer.is_answered:
            return
        problem = f"no completion within {timeout_s:.0f} s" if answer.is_timeout else answer.problem
    if record.kind == "managed" and not presence.is_alive(record):
        raise death.death_error(record)
    is_port_open = port.accepts(record.host, record.port)
    raise ServerError(
        f"The server at {record.url} {'hangs' if is_port_open else 'is gone'}: {problem}. "
        f"Read {record.log_path or 'its log'}; a resume starts it again.",
        cause=problem,
        is_transient=True,
    )


#: Counters that grow with any step of the engine.
_WORK = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:iteration_tokens_total_count")


def _work_moves(record: ServerRecord, before: dict[str, float], end: float) -> bool:
    while time.monotonic() < end:
        time.sleep(0.5)
        now = probe.counters(record)
        if now is None:  # a busy API server may miss a look
            continue
        if any(now.get(name) != before.get(name) for name in _WORK) or not now.get("vllm:num_requests_running"):
            return True
    return False


class LivenessWatch:
    """Looks at a server from a thread of its own while a phase runs: `with LivenessWatch(record) as watch: …`.

    Not for the time of a profile: its export holds the engine, and a probe's request would be in the trace.
    """

    def __init__(
        self, record: ServerRecord, *, interval_s: float = WATCH_INTERVAL_S, timeout_s: float = HANG_S
    ) -> None:
        self.error: ServerError | None = None
        """What is wrong with the server, once something is."""
        self._record = record
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LivenessWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(self._interval_s):
            try:
                check_alive(self._record, timeout_s=self._timeout_s)
            except ServerError as error:
                if not self._is_over.is_set():
                    self.error = error
                return
