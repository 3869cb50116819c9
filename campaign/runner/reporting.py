"""What a runner tells whoever watches; the command line prints it."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Receives what happens; every text is one line for a person."""

    def say(self, text: str) -> None:
        """Something a person should read once."""

    def progress(self, subject: str, done: float, total: float, text: str) -> None:
        """How far `subject` (a phase id or `server`) is: `done` of `total`, with a word on what it does now."""

    def end(self, subject: str) -> None:
        """The progress of `subject` is over."""


class StopRequest:
    """Set once a person (or the system) asked to stop."""

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def __bool__(self) -> bool:
        return self.signal_name is not None
