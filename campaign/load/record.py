"""The times of one request."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The times of one request, nanoseconds from the start of its cell."""

    index: int
    """Position in the plan."""
    due_ns: int | None = None
    """Intended send time; null in a closed loop."""
    sent_ns: int | None = None
    """Actual send time; null = never sent."""
    end_ns: int | None = None
    """When the exchange ended, whatever its end was."""
    chunk_ns: tuple[int, ...] = ()
    """Arrival of each event that carried content, reasoning, a tool call or a counted token."""
    chunk_tokens: tuple[int, ...] | None = None
    """Tokens of each such event by the server's running usage; null where nothing tells."""
    input_tokens: int | None = None
    """Prompt tokens by the server's usage."""
    output_tokens: int | None = None
    """Completion tokens by the server's usage (of a failed stream: as far as it came)."""
    error: str = ""
    """Why it failed, a short class first (`http 500: …`); empty = completed."""
    is_cancelled: bool = False
    """The client hung up as planned; neither completed nor failed."""
    has_stand_in: bool = False
    """A later turn whose session held an answer that was not the server's."""
    finish_reason: str | None = None
    """As the server gave it."""
    shared_reads: int = 0
    """Events whose read holds later bytes too that perhaps came later: they have those' time."""

    @property
    def is_completed(self) -> bool:
        """Whether the whole answer came."""
        return not self.error and not self.is_cancelled
