"""How long loads take: what earlier loads of the same spec teach about this one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from campaign.server import phrases
from campaign.server.record import ServerRecord


class PastLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One finished load."""

    spec_hash: str
    """The spec that was loaded."""
    phase_s: dict[str, float] = {}
    """Seconds of each load phase."""
    ready_s: float
    """Seconds from start to ready."""


def past_load(record: ServerRecord) -> PastLoad | None:
    """What a ready server's load teaches; None where it was not seen to become ready."""
    if record.ready_s is None:
        return None
    return PastLoad(spec_hash=record.spec_hash, phase_s=record.phase_s, ready_s=record.ready_s)


def eta_s(
    earlier: Sequence[PastLoad], spec_hash: str, load_phase: str, elapsed_s: float, in_phase_s: float
) -> float | None:
    """Seconds to go: the newest load of the same spec, less what is behind; None without one.

    What is left of the current phase is at least zero, and later phases are taken whole. Where the earlier
    load has no times of phases, its total less the elapsed time.
    """
    same = [load for load in earlier if load.spec_hash == spec_hash]
    if not same:
        return None
    newest = same[-1]
    order = phrases.LOAD_PHASES
    if load_phase not in newest.phase_s or load_phase not in order:
        return max(0.0, newest.ready_s - elapsed_s)
    later = order[order.index(load_phase) + 1 :]
    unaccounted_s = max(0.0, newest.ready_s - sum(newest.phase_s.values()))
    left_s = max(0.0, newest.phase_s[load_phase] - in_phase_s)
    return left_s + sum(newest.phase_s.get(phase, 0.0) for phase in later) + unaccounted_s
