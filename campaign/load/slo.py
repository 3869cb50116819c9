"""Limits that a good request meets."""

from __future__ import annotations

import msgspec

from campaign.load import latency
from campaign.load.record import Record


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that a good request meets; null = no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None

    @property
    def is_stated(self) -> bool:
        """Whether there is any limit."""
        return (self.ttft_ms, self.tpot_ms, self.e2el_ms) != (None, None, None)

    def is_met(self, record: Record) -> bool:
        """Whether a completed request met every limit, waiting before the send included."""
        checks = (
            (self.ttft_ms, latency.ttft_ns(record, from_due=True)),
            (self.tpot_ms, latency.tpot_ns(record)),
            (self.e2el_ms, latency.e2el_ns(record, from_due=True)),
        )
        return record.is_completed and all(
            limit is None or (value is not None and value / 1e6 <= limit) for limit, value in checks
        )
