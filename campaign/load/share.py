"""One process's share of a cell: run on the wire, parsed to records, with what it cost."""

from __future__ import annotations

import time

import msgspec

from campaign.load.endpoint import Endpoint
from campaign.load.plan import Plan
from campaign.load.record import Record
from campaign.load.reply import record_of
from campaign.load.wire import Run, Wire


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What a client process is given."""

    plan: Plan
    endpoint: Endpoint


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What a client process hands back."""

    records: list[Record]
    """Every request of its plan, times from the start of the cell."""
    lags_ns: list[int]
    """Lag of every read."""
    cpu_s: float
    """User and system time, parsing included."""
    busy: float
    """Share of a core used while streams ran (parsing excluded)."""
    stamps: str
    """kernel or reader."""
    missing_stamps: int
    """Reads without a kernel stamp."""
    clock_step_ns: int
    """How far the wall clock was set meanwhile."""
    has_priority: bool = False
    """Whether it ran before other work of the machine."""
    wall_s: float
    """How long its streams ran."""


def run_share(task: Task, start_ns: int | None = None) -> Share:
    """Run the plan in this process and parse it; `start_ns` (wall clock) lets processes begin together."""
    cpu = time.process_time()
    run = Wire(task.plan, task.endpoint).run(start_ns)
    records = [record_of(exchange, start_ns or run.start_ns) for exchange in run.exchanges]
    return share_of(run, records, cpu)


def share_of(run: Run, records: list[Record], cpu_before_s: float) -> Share:
    """A run with its records; `cpu_before_s` = the process's CPU time before it began."""
    return Share(
        records=records,
        lags_ns=[lag for exchange in run.exchanges for lag in exchange.lags_ns],
        cpu_s=time.process_time() - cpu_before_s,
        busy=run.cpu_s / run.wall_s if run.wall_s else 0.0,
        stamps=run.stamps,
        missing_stamps=run.missing_stamps,
        clock_step_ns=run.clock_step_ns,
        has_priority=run.has_priority,
        wall_s=run.wall_s,
    )
