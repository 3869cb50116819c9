"""The measured path: one epoll loop that sends requests and keeps raw reads with the time they arrived.

Nothing is parsed while streams run, but an answer that the next turn of its session sends back. On plain TCP (Linux)
the kernel stamps each segment as it arrives, so that a late reader does not move a time; over TLS, and where a stamp is
missing, the time is the reader's.
"""

from __future__ import annotations

import gc
import select
import time

import msgspec

from campaign.load.connection import Connection, StampGuard
from campaign.load.endpoint import Endpoint
from campaign.load.exchange import Exchange
from campaign.load.plan import Plan, Request
from campaign.load.priority import ahead_of_other_work
from campaign.load.schedule import Schedule
from campaign.load.session import Sessions
from campaign.load.wakes import Wakes

#: How often idle streams, due reconnects and the deadline are looked at.
TICK_S = 0.1
#: More reads without a stamp than this make the cell a reader-stamped one.
MISSING_LIMIT = 0.01
#: Connections opened ahead of an open loop, whose concurrency nobody knows.
PRECONNECT_OPEN_LOOP = 32


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one process saw of a cell."""

    exchanges: list[Exchange]
    """In the order of sending, the never sent ones last."""
    start_ns: int
    """Wall clock at the start of the cell."""
    wall_s: float
    """How long the loop ran."""
    cpu_s: float
    """CPU time of this process in the loop (parsing comes later)."""
    stamps: str
    """kernel or reader."""
    has_priority: bool = False
    """Whether the loop ran before other work of the machine."""
    missing_stamps: int = 0
    """Reads for which the kernel gave no stamp."""
    clock_step_ns: int = 0
    """How far the wall clock was set while the cell ran."""


class Wire:
    """Runs one plan against one endpoint."""

    def __init__(self, plan: Plan, endpoint: Endpoint) -> None:
        self._plan = plan
        self._endpoint = endpoint
        self._address = endpoint.addresses()[0]
        self._epoll = select.epoll()
        self._live: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._exchanges: list[Exchange] = []
        self._requests: dict[int, Request] = {}
        self._sessions = Sessions()
        self._missing = self._reads = 0
        self._has_priority = False
        self._schedule: Schedule
        self._wakes: Wakes

    def run(self, start_ns: int | None = None) -> Run:
        """Send everything, read everything; `start_ns` lets several processes begin together."""
        with StampGuard(), ahead_of_other_work() as self._has_priority:
            self._preconnect()
            if start_ns is not None:
                time.sleep(max(0.0, (start_ns - time.time_ns()) / 1e9))
            gc.collect()
            gc.disable()
            try:
                return self._timed_run()
            finally:
                gc.enable()
                for connection in [*self._live.values(), *self._idle]:
                    connection.close()
                self._epoll.close()

    def _timed_run(self) -> Run:
        start_ns, start, cpu = time.time_ns(), time.monotonic_ns(), time.process_time()
        self._schedule = Schedule(self._plan, start_ns)
        self._loop(start_ns)
        wall_ns = time.monotonic_ns() - start
        return Run(
            exchanges=self._exchanges,
            start_ns=start_ns,
            wall_s=wall_ns / 1e9,
            cpu_s=time.process_time() - cpu,
            stamps="reader" if self._missing > MISSING_LIMIT * self._reads else "kernel",
            has_priority=self._has_priority,
            missing_stamps=self._missing,
            clock_step_ns=time.time_ns() - start_ns - wall_ns,
        )

    def _preconnect(self) -> None:
        wanted = self._plan.concurrency or PRECONNECT_OPEN_LOOP
        for _ in range(min(wanted, len(self._plan.requests))):
            connection = self._connect()
            if connection.finish_connecting(5.0):
                self._idle.append(connection)
            else:
                self._drop(connection)
                break

    def _connect(self) -> Connection:
        connection = Connection(self._endpoint, self._address)
        self._live[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLIN | select.EPOLLOUT)
        if connection.is_open:
            self._epoll.modify(connection.fd, select.EPOLLIN)
        return connection

    def _loop(self, start_ns: int) -> None:
        schedule, limits = self._schedule, self._plan.limits
        self._wakes = Wakes(start_ns)
        deadline_ns, next_tick = start_ns + round(limits.deadline_s * 1e9), start_ns
        while schedule.left or self._requests:
            now = time.time_ns()
            while (taken := schedule.take(now)) is not None:
                self._launch(*taken)
            if now >= next_tick:
                next_tick = now + round(TICK_S * 1e9)
                if now >= deadline_ns:
                    self._give_up("deadline", f"the cell's deadline of {limits.deadline_s:g} s passed")
                    return
                self._look_after(now)
            due = schedule.next_due_ns()
            until = next_tick if due is None else min(due, next_tick)
            asked_ns = time.time_ns()
            ready = self._epoll.poll(max(0.0, (until - now) / 1e9))
            self._wakes.polled(asked_ns, time.time_ns())
            for fd, mask in ready:
                self._handle(fd, mask)

    def _handle(self, fd: int, mask: int) -> None:
        connection = self._live.get(fd)
        if connection is None:
            return
        if not connection.is_open:
            self._progress_connecting(connection)
            return
        if mask & select.EPOLLOUT and not connection.flush():
            return
        if mask & select.EPOLLOUT:
            self._epoll.modify(fd, select.EPOLLIN)
        if mask & ~select.EPOLLOUT:
            self._read(connection)

    def _launch(self, request: Request, due_ns: int | None) -> None:
        exchange = Exchange(index=request.index, due_ns=due_ns)
        self._exchanges.append(exchange)
        self._requests[request.index] = request
        connection = self._idle.pop() if self._idle else self._connect()
        body = self._sessions.begin_turn(request, exchange)
        connection.assign(exchange, self._endpoint.wire_bytes(body), request.cancel_after_reads)
        if connection.is_open:
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        exchange = connection.exchange
        if exchange is None:
            self._epoll.modify(connection.fd, select.EPOLLIN)
            self._idle.append(connection)
            return
        exchange.sent_ns = connection.last_ns = time.time_ns()
        is_sent = connection.flush()
        self._epoll.modify(connection.fd, select.EPOLLIN if is_sent else select.EPOLLIN | select.EPOLLOUT)

    def _progress_connecting(self, connection: Connection) -> None:
        if connection.progress():
            self._send(connection)
        elif connection.failure:
            self._retry_later(connection)
        else:
            self._epoll.modify(connection.fd, select.EPOLLIN)

    def _retry_later(self, connection: Connection) -> None:
        """The server refuses connections: the request waits, the slot stays taken."""
        exchange, now = connection.exchange, time.time_ns()
        if exchange is None:
            self._drop(connection)
            return
        if now - connection.born_ns > self._plan.limits.reconnect_s * 1e9:
            self._end(connection, "unreachable", connection.failure)
            self._give_up("unreachable", connection.failure)
            return
        connection.wait_before_retry(now)
        self._epoll.unregister(connection.fd)

    def _look_after(self, now: int) -> None:
        idle_ns = self._plan.limits.idle_timeout_s * 1e9
        for fd, connection in list(self._live.items()):
            if connection.retry_ns is not None:
                if now >= connection.retry_ns:
                    del self._live[fd]
                    connection.reconnect()
                    self._live[connection.fd] = connection
                    self._epoll.register(connection.fd, select.EPOLLIN | select.EPOLLOUT)
            elif connection.exchange is not None and connection.is_open and now - connection.last_ns > idle_ns:
                self._end(connection, "stalled", f"no byte for {self._plan.limits.idle_timeout_s:g} s")

    def _read(self, connection: Connection) -> None:
        try:
            data, stamp = connection.receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._end_broken(connection, "reset", error.strerror or str(error))
            return
        now = time.time_ns()
        exchange = connection.exchange
        if exchange is None:
            self._forget_idle(connection)
            return
        if not data:
            self._end_broken(connection, "closed", "the server closed the connection")
            return
        exchange.since_ns.append(max(connection.last_ns, self._wakes.since_ns(stamp)))
        connection.last_ns = now
        self._reads += 1
        if stamp == 0:
            self._missing += 1
            exchange.stamps_ns.append(now)
            exchange.lags_ns.append(now - self._wakes.ready_ns)
        else:
            exchange.stamps_ns.append(stamp)
            exchange.lags_ns.append(now - stamp)
        reads = exchange.reads
        reads.append(data)
        if connection.is_end(reads):
            self._end(connection, "complete", "")
        elif connection.cancel_after_reads is not None and len(reads) >= connection.cancel_after_reads:
            self._end(connection, "cancelled", "the client hung up")
        elif self._endpoint.is_tls and connection.has_pending():
            self._read(connection)

    def _forget_idle(self, connection: Connection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
        self._drop(connection)

    def _end_broken(self, connection: Connection, outcome: str, detail: str) -> None:
        """The peer hung up; a kept-alive connection that closed before any answer is replaced, as RFC 9112 has it."""
        exchange = connection.exchange
        if exchange is None:
            self._forget_idle(connection)
        elif connection.is_reused and not exchange.reads:
            self._drop(connection)
            fresh = self._connect()
            fresh.assign(exchange, connection.wire, connection.cancel_after_reads)
        else:
            self._end(connection, outcome, detail)

    def _end(self, connection: Connection, outcome: str, detail: str) -> None:
        exchange = connection.exchange
        assert exchange is not None
        exchange.outcome, exchange.detail, exchange.end_ns = outcome, detail, time.time_ns()
        connection.exchange = None
        self._sessions.end_turn(self._requests.pop(exchange.index), exchange)
        connection.is_reused = True
        if outcome == "complete" and b"connection: close" not in exchange.reads[0][:4096].lower():
            self._idle.append(connection)
        else:
            self._drop(connection)
        self._schedule.finish(exchange.index, exchange.end_ns)

    def _drop(self, connection: Connection) -> None:
        self._live.pop(connection.fd, None)
        connection.close()

    def _give_up(self, outcome: str, detail: str) -> None:
        """End the cell: what runs and what was never sent has failed."""
        rest = self._schedule.drain()
        for connection in list(self._live.values()):
            if connection.exchange is not None:
                self._end(connection, outcome, detail)
        rest += self._schedule.drain()
        self._exchanges += [Exchange(index=r.index, outcome=outcome, detail=detail) for r in rest]
