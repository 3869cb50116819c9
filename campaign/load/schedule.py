"""Which request may be sent now: slots of a closed loop, due times of an open one, turns that wait."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque

from campaign.load.plan import Plan, Request


class Schedule:
    """The plan of a cell in motion; times are nanoseconds on the caller's clock."""

    def __init__(self, plan: Plan, start_ns: int) -> None:
        self._slots = plan.concurrency
        self._in_flight = 0
        self._ready: deque[tuple[Request, int | None]] = deque()
        self._timed: list[tuple[int, int, Request]] = []
        self._waiting: dict[int, list[Request]] = defaultdict(list)
        self.left = len(plan.requests)
        for request in plan.requests:
            if request.after is not None:
                self._waiting[request.after].append(request)
            elif request.due_s is None:
                self._ready.append((request, None))
            else:
                self._wait_until(start_ns + round(request.due_s * 1e9), request)

    def _wait_until(self, due_ns: int, request: Request) -> None:
        heapq.heappush(self._timed, (due_ns, request.index, request))

    def take(self, now_ns: int) -> tuple[Request, int | None] | None:
        """The next request to send now with its due time (null in a closed loop), or None; it takes a slot."""
        while self._timed and self._timed[0][0] <= now_ns:
            due_ns, _, request = heapq.heappop(self._timed)
            self._ready.append((request, due_ns))
        if not self._ready or (self._slots is not None and self._in_flight >= self._slots):
            return None
        self._in_flight += 1
        self.left -= 1
        return self._ready.popleft()

    def finish(self, index: int, now_ns: int) -> None:
        """Request `index` ended: its slot is free, its next turn may follow after the pause."""
        self._in_flight -= 1
        for request in self._waiting.pop(index, ()):
            self._wait_until(now_ns + round(request.think_s * 1e9), request)

    def next_due_ns(self) -> int | None:
        """When the next timed request is due; None where none is timed."""
        return self._timed[0][0] if self._timed else None

    def drain(self) -> list[Request]:
        """Every request not yet taken, which now never will be."""
        rest = [request for request, _ in self._ready] + [request for _, _, request in sorted(self._timed)]
        rest += [request for waiting in self._waiting.values() for request in waiting]
        self._ready.clear()
        self._timed.clear()
        self._waiting.clear()
        self.left = 0
        return sorted(rest, key=lambda request: request.index)
