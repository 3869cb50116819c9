"""Whether a server works while a phase runs: a hung worker behind a healthy `/health` is found within a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from campaign.errors import ServerError
from campaign.server import death, port, presence, probe
from campaign.server.record import ServerRecord

#: Silence that counts as a hang; with the two looks that it takes to doubt, it stays under a minute.
HANG_S = 45.0
WATCH_INTERVAL_S = 6.0


def check_process(record: ServerRecord) -> None:
    """Raise `ServerError` where a server that we started has died; asks it nothing."""
    if record.kind == "managed" and not presence.is_alive(record):
        raise death.death_error(record)


def check_alive(record: ServerRecord, *, timeout_s: float = HANG_S) -> None:
    """Raise `ServerError` unless the server works: a token within `timeout_s`, or its counters move under load.

    While requests run, a further one would queue behind them and disturb what is measured: then any counter of
    work done that moves is a sign of life, and one that does not within `timeout_s` is a hang.
    """
    check_process(record)
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
    check_process(record)
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


class WorkCheck:
    """`check_alive`, but nothing is asked of a server that worked since the last look: that would disturb."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}

    def __call__(self, record: ServerRecord) -> None:
        """Look once; raises `ServerError` as `check_alive` does."""
        check_process(record)
        counters = probe.counters(record) or {}
        seen = {name: counters[name] for name in _WORK if name in counters}
        if seen and seen != self._seen:
            self._seen = seen
            return
        check_alive(record)


class LivenessWatch:
    """Looks at a server from a thread of its own while a phase runs: `with LivenessWatch(record) as watch: …`.

    The check is `WorkCheck` where none is given. It is not for the time of a profile: the export holds the engine,
    and a probe's request would be in the trace. `check_process` is.
    """

    def __init__(
        self,
        record: ServerRecord,
        *,
        interval_s: float = WATCH_INTERVAL_S,
        check: Callable[[ServerRecord], None] | None = None,
    ) -> None:
        self.error: ServerError | None = None
        """What is wrong with the server, once something is."""
        self._record = record
        self._interval_s = interval_s
        self._check = check or WorkCheck()
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
                self._check(self._record)
            except ServerError as error:
                if not self._is_over.is_set():
                    self.error = error
                return
