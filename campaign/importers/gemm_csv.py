"""A CSV of matrix products: layer, M, N, K, us (a header line, any order, further columns ignored)."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from campaign.importers.imported import Ask, Imported, Importer, read_text, unusable
from campaign.model import Device, Linear, find_device
from campaign.phases.gemm_data import GemmConfig, GemmData, GemmPoint, Peaks
from campaign.schema import Host

COLUMNS = ("layer", "m", "n", "k", "us")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    layer: str
    m: int
    n: int
    k: int
    us: float
    kernel: str = ""


def _header(line: str) -> list[str]:
    return [cell.strip().lower().replace("µs", "us") for cell in line.split(",")]


def _claims(_path: Path, head: bytes) -> bool:
    first = head.decode("utf-8-sig", "replace").split("\n", 1)[0]
    return set(COLUMNS) <= set(_header(first))


def _rows(path: Path) -> list[Row]:
    lines = read_text(path).splitlines()
    names = _header(lines[0])
    rows = []
    for number, cells in enumerate(csv.reader(lines[1:]), 2):
        if not any(cell.strip() for cell in cells):
            continue
        try:
            found = {name: cell.strip() for name, cell in zip(names, cells, strict=True)}
            us, m, n, k = float(found["us"]), int(found["m"]), int(found["n"]), int(found["k"])
        except ValueError as error:
            raise unusable(path, f"line {number}: {error}", "Write layer,M,N,K,us with one value a column.") from error
        if not (math.isfinite(us) and us > 0 and min(m, n, k) > 0 and found["layer"]):
            raise unusable(path, f"line {number}: a value is missing or not above 0", "Write layer,M,N,K,us.")
        rows.append(Row(layer=found["layer"], m=m, n=n, k=k, us=us, kernel=found.get("kernel", "")))
    if not rows:
        raise unusable(path, "holds no rows", "Write layer,M,N,K,us and one line a product.")
    return rows


def _read(files: Sequence[Path], ask: Ask) -> Imported:
    config = ask.config
    assert isinstance(config, GemmConfig)
    known = {linear.kind: linear for linear in config.linears}
    points: dict[tuple[str, int], list[Row]] = {}
    for path in files:
        for row in _rows(path):
            linear = known.get(row.layer) or _by_shape(config, row, path)
            if linear is None or (linear.n, linear.k) != (row.n, row.k):
                raise unusable(path, f"{row.layer} {row.n}×{row.k}: is no product of this model", _shapes(config))
            points.setdefault((linear.kind, row.m), []).append(row)
    batches = tuple(sorted({m for _, m in points}))
    kinds = {kind for kind, _ in points}
    device = find_device(ask.device_name) if ask.device_name else None
    made = msgspec.structs.replace(
        config,
        device="cuda",
        linears=tuple(linear for linear in config.linears if linear.kind in kinds),
        batch=batches,
        samples=1,
    )
    data = GemmData(
        peaks=Peaks(
            device=device or Device(name=ask.device_name or "not known", memory_gb_s=None),
            is_measured=False,
            cache_bytes=0,
        ),
        points=tuple(_point(known[kind], m, rows) for (kind, m), rows in points.items()),
    )
    left = [linear.kind for linear in config.linears if linear.kind not in kinds]
    notes = ["Times as a CSV lists them: whether weights came from the cache is not known."]
    if left:
        notes.append(f"Not in the file, so a step's sum lacks them: {', '.join(left)}.")
    return Imported(config=made, data=data, host=Host(device=ask.device_name), notes=tuple(notes))


def _by_shape(config: GemmConfig, row: Row, path: Path) -> Linear | None:
    fitting = [linear for linear in config.linears if (linear.n, linear.k) == (row.n, row.k)]
    if len(fitting) > 1:
        names = ", ".join(linear.kind for linear in fitting)
        raise unusable(
            path, f"layer {row.layer!r} with {row.n}×{row.k} could be {names}", "Write one of these as its layer."
        )
    return fitting[0] if fitting else None


def _shapes(config: GemmConfig) -> str:
    return "It has " + ", ".join(f"{linear.kind} {linear.n}×{linear.k}" for linear in config.linears) + "."


def _point(linear: Linear, m: int, rows: Sequence[Row]) -> GemmPoint:
    return GemmPoint(
        kind=linear.kind,
        m=m,
        kernel=rows[0].kernel,
        dtype=linear.dtype,
        bytes_per_weight=linear.bytes_per_weight,
        cold_us=(tuple(row.us for row in rows),),
        is_correct=True,
    )


IMPORTER = Importer(
    name="gemm-csv",
    title="a CSV with the columns layer, M, N, K, us",
    kinds=lambda _files: ("gemm",),
    claims=_claims,
    read=_read,
)
