"""A generated run in files of other kinds: several ranks in one Chrome trace, an nsys export."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from tests.trace import generator
from tests.trace.generator import KERNELS, Run

Row = dict[str, Any]


def rows_of(run: Run, rank: int) -> list[Row]:
    """A rank's events on the first rank's clock."""
    shift = run.ranks[rank].base_ns - run.ranks[0].base_ns
    return [{**row, "ts": row["ts"] + shift} for row in generator.chrome_events(run, rank)]


def one_process(run: Run) -> list[Row]:
    """All ranks as devices of one process, a thread a device: correlation ids are unique in it."""
    found = []
    for rank in range(len(run.ranks)):
        for row in rows_of(run, rank):
            is_host = row["pid"] == 800 + rank
            arguments = dict(row.get("args", {}))
            if "correlation" in arguments:
                arguments["correlation"] += 1_000_000 * rank
            found.append({**row, "pid": 800 if is_host else row["pid"], **({"args": arguments} if arguments else {})})
    return found


def merged(run: Run) -> list[Row]:
    """Files of several processes put into one by a tool: labels before pids, correlation ids that repeat."""
    return [{**row, "pid": f"[TP{r:02d}] {row['pid']}"} for r in range(len(run.ranks)) for row in rows_of(run, r)]


#: Columns by version of nsys; the analysis needs few of them, the rest stand there as in exports.
KERNEL_2022 = (
    "start end deviceId contextId streamId correlationId globalPid demangledName shortName launchType gridX graphNodeId"
)
KERNEL_2023 = KERNEL_2022.replace("shortName", "shortName mangledName")
KERNEL_2024 = KERNEL_2023.replace("contextId", "contextId greenContextId").replace("graphNodeId", "graphNodeId graphId")
NVTX_2022 = "start end eventType rangeId category text globalTid textId domainId"
NVTX_2024 = NVTX_2022 + " jsonText jsonTextId binaryData"
OTHERS = {
    "StringIds": "id value",
    "TARGET_INFO_GPU": "vmId id name busLocation",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId contextId streamId correlationId globalPid bytes copyKind",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
}
PROCESSES = {"PROCESSES": "globalPid pid name"}
SCHEMAS = {
    "2022": {**OTHERS, "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2022, "NVTX_EVENTS": NVTX_2022},
    "2023": {**OTHERS, **PROCESSES, "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2023, "NVTX_EVENTS": NVTX_2022},
    "2025": {**OTHERS, **PROCESSES, "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_2024, "NVTX_EVENTS": NVTX_2024},
}


def write_sqlite(run: Run, path: Path, *, schema: dict[str, str] = SCHEMAS["2025"], is_one_gpu: bool = False) -> Path:
    """An export of all ranks, a process a rank, with the tables and columns of `schema` and no others.

    is_one_gpu: each process sees one device and calls it 0.
    """
    connection = sqlite3.connect(path)
    for table, columns in schema.items():
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns.split())})")
    ids: dict[str, int] = {}

    def add(table: str, **values: object) -> None:
        if table not in schema:
            return
        row = {column: values.get(column) for column in schema[table].split()}
        connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", list(row.values()))

    def text(value: str) -> int:
        return ids.setdefault(value, len(ids) + 10)

    for number, mine in enumerate(run.ranks):
        process = (0x1A << 48) | ((4000 + number) << 24)
        shift = mine.base_ns - run.ranks[0].base_ns
        device = 0 if is_one_gpu else number
        add("PROCESSES", globalPid=process, pid=4000 + number, name=f"VLLM::Worker_TP{number}")
        add("TARGET_INFO_GPU", id=number, name="NVIDIA H200")
        for event in mine.events:
            at = {"start": event.start + shift, "end": event.end + shift, "deviceId": device, "globalPid": process}
            at |= {"streamId": event.stream, "correlationId": event.correlation}
            name = text(KERNELS[event.key][0])
            if event.key in ("copy", "fill"):
                add("CUPTI_ACTIVITY_KIND_MEMCPY", **at, copyKind=2, bytes=4)
            else:
                add("CUPTI_ACTIVITY_KIND_KERNEL", **at, demangledName=name, shortName=text("short"), mangledName=name)
        for called, start, duration, correlation in mine.launches:
            at = {"start": start + shift, "end": start + duration + shift, "globalTid": process | 800}
            add("CUPTI_ACTIVITY_KIND_RUNTIME", **at, correlationId=correlation, nameId=text(called + "_v10000"))
        for turn, (label, start, duration) in enumerate(mine.annotations):
            at = {"start": start + shift, "end": start + duration + shift, "globalTid": process | 800, "eventType": 59}
            is_by_id = turn % 2 and "textId" in schema.get("NVTX_EVENTS", "")
            add("NVTX_EVENTS", **at, **({"textId": text(label)} if is_by_id else {"text": label}))
        add("NVTX_EVENTS", start=1, end=None, eventType=34, text="a mark")
    for value, identity in ids.items():
        add("StringIds", id=identity, value=value)
    connection.commit()
    connection.close()
    return path
