"""An nsys report exported to SQLite → one `Trace` a device: kernels, copies, runtime calls and NVTX ranges."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from campaign.errors import TraceError
from campaign.trace import events
from campaign.trace.events import NO_ID, Spans, Trace

_GRAPH_TABLE: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_KERNEL_TABLE: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME_TABLE: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_COPIES: Final = (
    ("CUPTI_ACTIVITY_KIND_MEMCPY", events.MEMCPY, "Memcpy"),
    ("CUPTI_ACTIVITY_KIND_MEMSET", events.MEMSET, "Memset"),
)
#: Event types of NVTX ranges: push/pop and start/end.
_NVTX_RANGES: Final = (59, 60)

_Row = tuple[int, int, int, int, int, int]


@dataclass
class _Names:
    number: dict[str, int] = field(default_factory=dict)

    def of(self, text: object) -> int:
        return self.number.setdefault(str(text), len(self.number))


def read_sqlite(path: Path) -> list[Trace]:
    """One trace a device in the order of devices; raises `TraceError` where the file is no nsys export."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return _read(path, connection)
    except sqlite3.Error as error:
        raise TraceError(f"{path}: {error}. Export it again: nsys export --type sqlite REPORT.nsys-rep.") from error


def _read(path: Path, connection: sqlite3.Connection) -> list[Trace]:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    problems: list[str] = []
    if _GRAPH_TABLE in tables and connection.execute(f"SELECT 1 FROM {_GRAPH_TABLE} LIMIT 1").fetchone():
        problems.append(
            "CUDA graphs were traced whole, their kernels are not in the report: "
            "profile again with --cuda-graph-trace=node"
        )
    if _KERNEL_TABLE not in tables and not problems:
        raise TraceError(
            f"{path}: holds no kernels ({_KERNEL_TABLE}). Profile with --trace=cuda,nvtx and export again."
        )
    names = _Names()
    device = _device_rows(connection, tables, names, problems)
    launches = _rows(_runtime_rows(connection, tables, names))
    annotations = _rows(_nvtx_rows(connection, tables, names))
    total = sum(len(rows) for rows in device.values()) + len(launches) + len(annotations)
    known = tuple(names.number)
    return [
        Trace(
            path=str(path), rank=number if len(device) > 1 else None, world_size=None,
            base_ns=0, device_name=_device_name(connection, tables, number), events=total, names=known,
            device=_rows(device[number]).sorted(), launches=launches.sorted(), ops=_rows([]),
            annotations=annotations.sorted(), device_annotations=_rows([]), problems=tuple(problems),
        )
        for number in sorted(device)
    ]  # fmt: skip


def _rows(rows: list[_Row]) -> Spans:
    """Rows of (code, start, duration, name, lane, correlation)."""
    table = np.array(rows, np.int64).reshape(-1, 6)
    return Spans(table[:, 1], table[:, 2], table[:, 3], table[:, 4], table[:, 5], table[:, 0])


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _device_rows(
    connection: sqlite3.Connection, tables: set[str], names: _Names, problems: list[str]
) -> dict[int, list[_Row]]:
    found: dict[int, list[_Row]] = {}
    if _KERNEL_TABLE in tables:
        has_demangled = "demangledName" in _columns(connection, _KERNEL_TABLE)
        name = "k.demangledName" if has_demangled else "k.shortName"
        query = (
            f"SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, s.value FROM {_KERNEL_TABLE} k "
            f"LEFT JOIN StringIds s ON s.id = {name}"
        )
        for start, end, device, stream, correlation, text in connection.execute(query):
            row = (events.KERNEL, start, end - start, names.of(text or "?"), stream, _id(correlation))
            found.setdefault(device, []).append(row)
    for table, code, label in _COPIES:
        if table not in tables:
            continue
        query = f"SELECT start, end, deviceId, streamId, correlationId FROM {table}"
        for start, end, device, stream, correlation in connection.execute(query):
            row = (code, start, end - start, names.of(label), stream, _id(correlation))
            found.setdefault(device, []).append(row)
    bad = sum(1 for rows in found.values() for row in rows if row[2] < 0)
    if bad:
        problems.append(f"{bad} events with negative durations are left out")
    return {device: [row for row in rows if row[2] >= 0] for device, rows in found.items()}


def _id(value: int | None) -> int:
    return NO_ID if value is None else value


def _runtime_rows(connection: sqlite3.Connection, tables: set[str], names: _Names) -> list[_Row]:
    if _RUNTIME_TABLE not in tables:
        return []
    query = (
        f"SELECT r.start, r.end, r.globalTid, r.correlationId, s.value FROM {_RUNTIME_TABLE} r "
        "LEFT JOIN StringIds s ON s.id = r.nameId"
    )
    return [
        (events.LAUNCH, start, max(0, end - start), names.of(text or "?"), (thread or 0) & 0xFFFFFF, _id(correlation))
        for start, end, thread, correlation, text in connection.execute(query)
    ]


def _nvtx_rows(connection: sqlite3.Connection, tables: set[str], names: _Names) -> list[_Row]:
    if "NVTX_EVENTS" not in tables:
        return []
    has_id = "textId" in _columns(connection, "NVTX_EVENTS")
    text = "COALESCE(n.text, s.value)" if has_id else "n.text"
    join = "LEFT JOIN StringIds s ON s.id = n.textId" if has_id else ""
    query = (
        f"SELECT n.start, n.end, n.globalTid, {text} FROM NVTX_EVENTS n {join} "
        f"WHERE n.end IS NOT NULL AND n.eventType IN {_NVTX_RANGES}"
    )
    return [
        (events.ANNOTATION, start, max(0, end - start), names.of(label), (thread or 0) & 0xFFFFFF, NO_ID)
        for start, end, thread, label in connection.execute(query)
        if label
    ]


def _device_name(connection: sqlite3.Connection, tables: set[str], device: int) -> str:
    if "TARGET_INFO_GPU" not in tables or not {"id", "name"} <= _columns(connection, "TARGET_INFO_GPU"):
        return ""
    row = connection.execute("SELECT name FROM TARGET_INFO_GPU WHERE id = ?", (device,)).fetchone()
    return str(row[0]) if row else ""
