"""What a trace file holds once read: device events, launches, host ops and annotations, in integer nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

#: code, start, duration, name, lane, correlation, place
Part: TypeAlias = tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]

KERNEL, MEMCPY, MEMSET, LAUNCH, ANNOTATION, DEVICE_ANNOTATION, OP = range(1, 8)
#: No correlation id was recorded.
NO_ID = -1
#: A place is group × this + device or process id.
GROUP_SIZE = 1 << 32


@dataclass(frozen=True)
class Spans:
    """Events of one sort as columns of equal length."""

    start_ns: Ints
    """Start, relative to the trace's base."""
    duration_ns: Ints
    name: Ints
    """Index into the trace's names."""
    lane: Ints
    """Stream of a device event, thread of a host event."""
    correlation: Ints
    """Joins a device event with its launch; -1 = none."""
    code: Ints
    """KERNEL, MEMCPY, …"""
    place: Ints
    """Device of a device event, process of a host event; of a file merged from several processes their group too."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def end_ns(self) -> Ints:
        """Ends of the events."""
        return self.start_ns + self.duration_ns

    def take(self, index: Ints | Flags) -> Spans:
        """The events at `index`, in that order."""
        return Spans(
            self.start_ns[index],
            self.duration_ns[index],
            self.name[index],
            self.lane[index],
            self.correlation[index],
            self.code[index],
            self.place[index],
        )

    def sorted(self) -> Spans:
        """By start; of equal starts the longer first, so that a parent precedes its children."""
        return self.take(np.lexsort((-self.duration_ns, self.start_ns)))


@dataclass(frozen=True)
class CollectiveArguments:
    """What the profiler recorded of one kind of collective call (eager c10d calls only)."""

    kernel: int
    """Index of the kernel's name."""
    message_bytes: int | None
    group_size: int | None
    dtype: str


@dataclass(frozen=True)
class Trace:
    """One rank's trace."""

    path: str
    rank: int | None
    world_size: int | None
    base_ns: int
    """Added to every start, it gives the wall clock's nanoseconds; 0 where the file does not say."""
    device_name: str
    events: int
    """Every event in the file, of any kind."""
    names: tuple[str, ...]
    device: Spans
    """Kernels, copies and fills, by start."""
    launches: Spans
    """Runtime and driver calls."""
    ops: Spans
    """Host ops."""
    annotations: Spans
    device_annotations: Spans
    collectives: tuple[CollectiveArguments, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("",)
    """Labels of the processes that a merged file holds."""
    device_number: int | None = None
    """Which device of the file this is; None where the file holds one only."""
    is_frontend: bool = False
    """Written by the API server: it has no steps."""


@dataclass
class Columns:
    """Events as they are found, piece by piece."""

    names: dict[bytes, int] = field(default_factory=dict)
    groups: dict[bytes, int] = field(default_factory=lambda: {b"": 0})
    parts: list[Part] = field(default_factory=list)
    collectives: dict[tuple[int, int | None, int | None, str], int] = field(default_factory=dict)
    events: int = 0
    wanted: int = 0
    """Events of the kinds that matter, as counted by their category in the bytes."""
    kept: int = 0
    careful: int = 0
    """How many of them went event by event."""
    lost: int = 0

    def name_id(self, raw: bytes) -> int:
        """Number of a name; the same for equal bytes."""
        return self.names.setdefault(raw, len(self.names))

    def place_id(self, group: bytes, number: int) -> int:
        """Place of a device or process id written plainly (`0`) or behind a label (`[TP01] 0`)."""
        return self.groups.setdefault(group, len(self.groups)) * GROUP_SIZE + number % GROUP_SIZE

    def add(self, part: Part) -> None:
        """Append columns of equal length."""
        self.parts.append(part)
        self.kept += len(part[0])

    def spans(self) -> Spans:
        """Everything added so far."""
        if not self.parts:
            empty = np.zeros(0, np.int64)
            return Spans(empty, empty, empty, empty, empty, empty, empty)
        code, start, duration, name, lane, correlation, place = (
            np.concatenate([part[i] for part in self.parts]) for i in range(7)
        )
        return Spans(start, duration, name, lane, correlation, code, place)
