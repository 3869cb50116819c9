"""What a running campaign shows: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from campaign.cli.hints import typed
from campaign.runner.reporting import StopRequest

#: Off a terminal, progress of one subject is a line at most this often.
LINE_EVERY_S = 10.0


class TerminalReporter:
    """Bars where standard error is a terminal; else a line when something changed, not too often."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            SpinnerColumn(), TextColumn("{task.fields[subject]:<14}"), BarColumn(bar_width=24),
            TextColumn("{task.description}"), TimeElapsedColumn(), console=self._console, transient=True,
        )  # fmt: skip
        self._tasks: dict[str, TaskID] = {}
        self._last_line: dict[str, tuple[float, str]] = {}

    def __enter__(self) -> TerminalReporter:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            with _gone_terminal():
                self._progress.stop()

    def say(self, text: str) -> None:
        """A line that stays."""
        with _gone_terminal():
            self._console.print(f"{time.strftime('%H:%M:%S')} {typed(text)}", markup=False, soft_wrap=True)

    def progress(self, subject: str, done: float, total: float, text: str) -> None:
        """The state of a bar."""
        if not self._console.is_terminal:
            last_s, last_text = self._last_line.get(subject, (float("-inf"), ""))
            if text != last_text and time.monotonic() - last_s >= LINE_EVERY_S:
                self._last_line[subject] = (time.monotonic(), text)
                self.say(f"{subject}: {text}")
            return
        with _gone_terminal():
            if subject not in self._tasks:
                self._tasks[subject] = self._progress.add_task(text, total=total or None, subject=subject)
            self._progress.update(self._tasks[subject], completed=done, total=total or None, description=text)

    def end(self, subject: str) -> None:
        """Take the bar away."""
        self._last_line.pop(subject, None)
        task = self._tasks.pop(subject, None)
        if task is not None:
            with _gone_terminal():
                self._progress.remove_task(task)


def _gone_terminal() -> contextlib.suppress:
    """Nothing is said to a terminal that is gone (a closed ssh): the work must end cleanly all the same."""
    return contextlib.suppress(OSError)


@contextmanager
def stop_on_signals(stop: StopRequest) -> Iterator[None]:
    """The first SIGINT, SIGTERM or SIGHUP asks for a clean end, the second ends at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if stop:
            os._exit(130)
        stop.signal_name = name
        with _gone_terminal():
            # Past Python's buffers: the signal may have come in the middle of a write to them.
            os.write(2, f"\n{name}: ending cleanly, the state will be saved; once more ends at once.\n".encode())

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
