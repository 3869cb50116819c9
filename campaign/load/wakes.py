"""What a loop that polls knows of when bytes can have come: not before it last found nothing."""

from __future__ import annotations

#: A poll that returned within this did not wait.
AT_ONCE_NS = 20_000
#: A process that woke within this after the first event had not been held up.
WAKE_NS = 200_000


class Wakes:
    """The moments at which one loop polled; times are nanoseconds of the clock that stamps use."""

    def __init__(self, start_ns: int) -> None:
        self.ready_ns = start_ns
        """Since when what is ready now can have been ready, as far as a loop without stamps knows."""
        self._since_ns = self._came_ns = start_ns
        self._woke_ns = 0

    def polled(self, asked_ns: int, came_ns: int) -> None:
        """A poll that was asked for at `asked_ns` returned at `came_ns`.

        What was ready at once may have been so since the last time round; else it has just come, unless this process
        woke late, which the first read after it tells.
        """
        if came_ns - asked_ns < AT_ONCE_NS:
            self.ready_ns = self._since_ns = self._came_ns
            self._woke_ns = 0
        else:
            self.ready_ns = self._woke_ns = came_ns
            self._since_ns = asked_ns
        self._came_ns = came_ns

    def since_ns(self, stamp_ns: int) -> int:
        """Before when nothing of a read can have come.

        `stamp_ns` is the kernel's stamp of its last segment, 0 = none.
        """
        if self._woke_ns:
            if stamp_ns and self._woke_ns - stamp_ns < WAKE_NS:
                self._since_ns = max(self._since_ns, self._woke_ns - WAKE_NS)
            self._woke_ns = 0
        return self._since_ns
