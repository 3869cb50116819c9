"""Runs of other load generators as cells of a macro result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from campaign.importers.digits import rounded
from campaign.importers.imported import Ask, Imported
from campaign.load.cell import Cell, Client
from campaign.load.latency import SAMPLES_NEEDED, Distribution
from campaign.load.summary import summarize
from campaign.phases.macro_data import MacroConfig, MacroData
from campaign.schema import Host

#: An importer knows nothing of the other client's own cost; its cells are taken as they are, and say so.
CLIENT = Client(cpu_us_per_token=None, lag_ms_p99=None, busy=0.0, processes=0, timestamps="reader", valid=True)


#: No time in ms, count or rate is larger; products of such numbers stay finite.
MOST = 1e15


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One cell and what its file says beside it."""

    cell: Cell
    model: str = ""
    tool: str
    """Name of the client."""
    started_at: str = ""
    finished_at: str = ""
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()


def told(mean: float | None, percentiles: Mapping[int, float | None], count: int) -> Distribution:
    """A summary as another tool printed it; percentiles from too few samples are left out, as for our own."""

    def at(percent: int) -> float | None:
        return percentiles.get(percent) if count >= SAMPLES_NEEDED[percent] else None

    return Distribution(mean=mean, p50=percentiles.get(50), p90=at(90), p95=at(95), p99=at(99), n=count)


def number(value: Any) -> float | None:
    """A JSON number as a float; None for null; raises `ValueError` for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is no number")
    if not math.isfinite(value) or abs(value) > MOST:
        raise ValueError(f"{value!r} can be no measurement")
    return float(value)


def macro_of(runs: Sequence[Run], ask: Ask) -> Imported:
    """One macro result of all runs; equal loads are repeats of one another."""
    config = ask.config
    assert isinstance(config, MacroConfig)
    cells = _numbered([_with_load(run.cell) for run in runs])
    lengths = tuple(sorted({cell.input_tokens_asked for cell in cells if cell.input_tokens_asked is not None}))
    outputs = [cell.output_tokens_asked for cell in cells if cell.output_tokens_asked is not None]
    made = msgspec.structs.replace(
        config,
        input_tokens=lengths or config.input_tokens,
        output_tokens=outputs[0] if outputs else config.output_tokens,
        concurrency=tuple(sorted({cell.concurrency_asked for cell in cells if cell.concurrency_asked is not None})),
        rate=tuple(sorted({cell.rate_asked for cell in cells if cell.rate_asked is not None})),
        repeats=max(cell.repeat for cell in cells),
        device=ask.context.target.device,
    )
    tools = sorted({run.tool for run in runs})
    models = sorted({run.model for run in runs if run.model})
    notes = [
        f"Measured with {' and '.join(tools)}: throughput is over the whole run with ramp and drain, "
        "and the client's own lag is not known."
    ]
    if len(models) > 1:
        notes.append(f"The files name several models: {', '.join(models)}.")
    notes += [note for run in runs for note in run.notes]
    return Imported(
        config=made,
        data=rounded(MacroData(cells=tuple(cells), summary=summarize(cells))),
        host=Host(device=ask.device_name),
        versions={name: version for run in runs for name, version in run.versions.items()},
        started_at=min((run.started_at for run in runs if run.started_at), default=""),
        finished_at=max((run.finished_at or run.started_at for run in runs), default=""),
        duration_s=round(sum(cell.duration_s for cell in cells), 6),
        notes=tuple(dict.fromkeys(notes)),
    )


def _with_load(cell: Cell) -> Cell:
    """A cell whose file does not tell the load asked for stands under the rate that it achieved."""
    if cell.concurrency_asked is not None or cell.rate_asked is not None:
        return cell
    flag = "the load asked for is not told: the achieved rate stands for it"
    return msgspec.structs.replace(
        cell, rate_asked=float(f"{cell.rate_achieved or 0.0:.3g}"), flags=(*cell.flags, flag)
    )


def _numbered(cells: Sequence[Cell]) -> list[Cell]:
    counts: dict[tuple[object, ...], int] = {}
    made = []
    for cell in cells:
        key = (cell.concurrency_asked, cell.rate_asked, cell.input_tokens_asked, cell.output_tokens_asked)
        counts[key] = counts.get(key, 0) + 1
        made.append(msgspec.structs.replace(cell, repeat=counts[key]))
    return made
