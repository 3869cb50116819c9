"""An nsys report exported to SQLite → one `Trace`: kernels, copies, runtime calls and NVTX ranges of every process.

Tables and columns come and go with nsys' versions and options: what is missing is passed over and said. Device events
carry `globalPid`, host events `globalTid`, whose upper bits are the process; correlation ids repeat between processes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from campaign.errors import TraceError
from campaign.trace import events
from campaign.trace.events import GROUP_SIZE, NO_ID, Spans, Trace
from campaign.trace.read import plausible

_KERNEL_TABLE: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPH_TABLE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_GRAPH_NAME: Final = "CUDA graph (traced whole)"
#: (table, code, name where the export tells none)
_DEVICE_TABLES: Final = (
    (_KERNEL_TABLE, events.KERNEL, "?"),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", events.MEMCPY, "Memcpy"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", events.MEMSET, "Memset"),
    (_GRAPH_TABLE, events.KERNEL, _GRAPH_NAME),
)
_HOST_TABLES: Final = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER")
#: copyKind of CUPTI → the words that torch's profiler uses.
_COPY_KINDS: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
#: Event types of NVTX ranges: push/pop and start/end.
_NVTX_RANGES: Final = (59, 60)
#: Bits of a globalTid below the process.
_THREAD_BITS: Final = 24
_INT64: Final = 1 << 63
#: Columns whose absence costs something: it is said.
_EXPECTED: Final = ("start", "end", "correlationId", "deviceId", "streamId", "globalTid")


@dataclass
class _Export:
    """An open export and what was found in it so far."""

    connection: sqlite3.Connection
    tables: frozenset[str]
    strings: dict[int, str]
    has_processes: bool
    """Kernels say whose they are."""
    problems: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    groups: dict[int, int] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    unreadable: int = 0

    def name(self, text: object) -> int:
        """Number of a name."""
        return self.names.setdefault(str(text), len(self.names))

    def columns(self, table: str) -> set[str]:
        """Columns of a table."""
        return {row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")}

    def read(self, table: str, columns: tuple[str, ...]) -> list[dict[str, Any]]:
        """Rows of a table; columns that it lacks are None and said, nothing where it has no times."""
        if table not in self.tables:
            return []
        has = self.columns(table)
        missing = [column for column in _EXPECTED if column in columns and column not in has]
        if missing:
            self.problems.append(f"{table} has no {', '.join(missing)}")
        if not {"start", "end"} <= has:
            return []
        chosen = ", ".join(f'"{c}"' if c in has else f"NULL AS {c}" for c in columns)
        rows = self.connection.execute(f"SELECT {chosen} FROM {table}")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def place(self, whose: object, number: object) -> int:
        """Place of a device or thread of the process in `globalPid` or `globalTid`."""
        process = whose >> _THREAD_BITS if self.has_processes and isinstance(whose, int) else 0
        group = self.groups.setdefault(process, len(self.groups))
        return group * GROUP_SIZE + (number % GROUP_SIZE if isinstance(number, int) else 0)

    def add(self, code: int, row: dict[str, Any], name: int, lane: object, place: int) -> None:
        """Append an event; one without whole times is counted as unreadable."""
        start, end, correlation = row["start"], row["end"], row.get("correlationId")
        is_time = isinstance(start, int) and isinstance(end, int)
        if not is_time or not -_INT64 <= end - start < _INT64:
            self.unreadable += 1
            return
        identity = correlation if isinstance(correlation, int) else NO_ID
        self.rows.append((code, start, end - start, name, lane if isinstance(lane, int) else 0, identity, place))


def read_sqlite(path: Path) -> Trace:
    """Every device and process of an export as one trace; raises `TraceError` where the file is no nsys export."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return _read(path, connection)
    except (sqlite3.Error, OverflowError) as error:
        raise TraceError(f"{path}: {error}. Export it again: nsys export --type sqlite REPORT.nsys-rep.") from error


def _read(path: Path, connection: sqlite3.Connection) -> Trace:
    listed = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    tables = frozenset(str(row[0]) for row in listed)
    if not tables & {_KERNEL_TABLE, _GRAPH_TABLE}:
        raise TraceError(
            f"{path}: holds no kernels ({_KERNEL_TABLE}). Profile with --trace=cuda,nvtx and export again."
        )
    export = _Export(connection, tables, _strings(connection, tables), has_processes=False)
    export.has_processes = "globalPid" in export.columns(_KERNEL_TABLE)
    _add_device_events(export)
    _add_host_events(export)
    if export.unreadable:
        export.problems.append(f"{export.unreadable} rows without whole times are left out")
    table = np.array(export.rows, np.int64).reshape(-1, 7)
    spans = plausible(Spans(*(table[:, i] for i in (1, 2, 3, 4, 5, 0, 6))), export.problems)
    device = spans.take(np.isin(spans.code, (events.KERNEL, events.MEMCPY, events.MEMSET))).sorted()
    return Trace(
        path=str(path), rank=None, world_size=None, base_ns=_base_ns(export), device_name=_device_name(export, device),
        events=len(export.rows) + export.unreadable, names=tuple(export.names), device=device,
        launches=spans.take(spans.code == events.LAUNCH).sorted(), ops=spans.take(spans.code == events.OP),
        annotations=spans.take(spans.code == events.ANNOTATION).sorted(),
        device_annotations=spans.take(spans.code == events.DEVICE_ANNOTATION),
        problems=tuple(export.problems), groups=_process_names(export),
    )  # fmt: skip


def _strings(connection: sqlite3.Connection, tables: frozenset[str]) -> dict[int, str]:
    if "StringIds" not in tables:
        return {}
    return {row[0]: str(row[1]) for row in connection.execute("SELECT id, value FROM StringIds")}


def _add_device_events(export: _Export) -> None:
    columns = (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid",
        "demangledName", "shortName", "mangledName", "copyKind",
    )  # fmt: skip
    for table, code, label in _DEVICE_TABLES:
        rows = export.read(table, columns)
        if table == _GRAPH_TABLE and rows:
            export.problems.append(
                f"{len(rows)} CUDA graphs were traced whole, their kernels are not in the report: "
                "profile again with --cuda-graph-trace=node"
            )
        for row in rows:
            keys = (row["demangledName"], row["shortName"], row["mangledName"])
            text = next((export.strings[key] for key in keys if key in export.strings), label)
            if code == events.MEMCPY:
                text = f"{label} {_COPY_KINDS.get(row['copyKind'], '')}".strip()
            export.add(code, row, export.name(text), row["streamId"], export.place(row["globalPid"], row["deviceId"]))


def _add_host_events(export: _Export) -> None:
    for table in _HOST_TABLES:
        for row in export.read(table, ("start", "end", "globalTid", "correlationId", "nameId")):
            name = export.name(export.strings.get(row["nameId"], "?"))
            export.add(events.LAUNCH, row, name, _thread(row["globalTid"]), export.place(row["globalTid"], 0))
    for row in export.read("NVTX_EVENTS", ("start", "end", "globalTid", "eventType", "text", "textId")):
        text = row["text"] or export.strings.get(row["textId"])
        if not text or row["end"] is None or row["eventType"] not in (*_NVTX_RANGES, None):
            continue
        place = export.place(row["globalTid"], 0)
        export.add(events.ANNOTATION, row, export.name(text), _thread(row["globalTid"]), place)


def _thread(global_tid: object) -> int:
    return global_tid & ((1 << _THREAD_BITS) - 1) if isinstance(global_tid, int) else 0


def _base_ns(export: _Export) -> int:
    """The wall clock at the session's start, where the export tells it: it puts several nodes on one clock."""
    table, column = "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"
    if table not in export.tables or column not in export.columns(table):
        return 0
    row = export.connection.execute(f"SELECT {column} FROM {table}").fetchone()
    return row[0] if row and isinstance(row[0], int) and abs(row[0]) < _INT64 >> 1 else 0


def _device_name(export: _Export, device: Spans) -> str:
    table = "TARGET_INFO_GPU"
    if table not in export.tables or not {"id", "name"} <= export.columns(table) or not len(device):
        return ""
    names = dict(export.connection.execute(f"SELECT id, name FROM {table}").fetchall())
    numbers = np.unique(device.place % GROUP_SIZE).tolist()
    found = {str(names[number]) for number in numbers if number in names}
    return ", ".join(sorted(found or set(map(str, list(names.values())[:1]))))


def _process_names(export: _Export) -> tuple[str, ...]:
    """By group: the process's name, whose number is a rank in engines that name their workers."""
    names: dict[int, str] = {}
    if "PROCESSES" in export.tables and {"globalPid", "name"} <= export.columns("PROCESSES"):
        rows = export.connection.execute("SELECT globalPid, name FROM PROCESSES").fetchall()
        names = {row[0] >> _THREAD_BITS: str(row[1]) for row in rows if isinstance(row[0], int) and row[1] is not None}
    return tuple(names.get(process, "") for process in export.groups) or ("",)
