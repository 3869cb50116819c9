"""One request and the raw reads of its answer."""

from __future__ import annotations

import msgspec


class Exchange(msgspec.Struct, kw_only=True):
    """One request and the raw reads of its answer; times are nanoseconds of the wall clock."""

    index: int
    """The request's index in its plan."""
    due_ns: int | None = None
    """Intended send time; null in a closed loop."""
    sent_ns: int | None = None
    """When the first byte was handed to the kernel; null = never sent."""
    stamps_ns: list[int] = msgspec.field(default_factory=list)
    """Arrival time of each read."""
    since_ns: list[int] = msgspec.field(default_factory=list)
    """Of each read: nothing of it had arrived before this moment, as far as the loop knows."""
    lags_ns: list[int] = msgspec.field(default_factory=list)
    """How much later than its arrival each read was made; with reader stamps: since it can have been ready."""
    reads: list[bytes] = msgspec.field(default_factory=list)
    """The bytes as they came."""
    end_ns: int | None = None
    """When the exchange ended."""
    has_stand_in: bool = False
    """The session so far held an answer that was not the server's."""
    outcome: str = ""
    """complete, closed, reset, stalled, deadline, cancelled or unreachable."""
    detail: str = ""
    """The system's words for a failure."""
