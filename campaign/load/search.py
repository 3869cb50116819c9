"""Saturation: the knee of throughput over concurrency, and the highest goodput under stated limits."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from campaign.load.bench import Bench
from campaign.load.cell import Cell
from campaign.load.knee import KNEE_GAIN, gain, knee_of
from campaign.load.workload import Load


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, with every cell it rests on."""

    schema: str = "campaign-load-search"
    schema_version: int = 1
    knee: int | None
    """Concurrency at the knee; null where throughput still grew at the last one tried."""
    best_goodput: int | None
    """Concurrency of the highest goodput; null without limits."""
    best_goodput_req_s: float | None
    """That goodput, requests a second."""
    cells: tuple[Cell, ...]
    """Every cell, by rising concurrency."""


class Search:
    """Doubles the concurrency past the knee, then halves the steps around the best goodput."""

    def __init__(self, bench: Bench, *, input_tokens: int, output_tokens: int) -> None:
        self._bench = bench
        self._input_tokens = input_tokens
        self._output_tokens = output_tokens
        self._cells: dict[int, Cell] = {}

    def run(self, highest: int = 256) -> SearchResult:
        """Search up to `highest` concurrent requests; raises `LoadError` where the server takes none."""
        slots = 1
        while slots <= highest:
            cell = self._measure(slots)
            if self._is_past(slots) or cell.capacity_limited or not cell.completed:
                break
            slots *= 2
        self._refine()
        cells = tuple(self._cells[slots] for slots in sorted(self._cells))
        best = max((c for c in cells if c.goodput and c.client.valid), key=_goodput, default=None)
        return SearchResult(
            knee=knee_of(_points(cells)),
            best_goodput=best.concurrency_asked if best and _goodput(best) > 0 else None,
            best_goodput_req_s=_goodput(best) if best and _goodput(best) > 0 else None,
            cells=cells,
        )

    def _measure(self, slots: int) -> Cell:
        if slots not in self._cells:
            load = Load(
                requests=max(3 * slots, 8),
                input_tokens=self._input_tokens,
                output_tokens=self._output_tokens,
                concurrency=slots,
            )
            self._cells[slots] = self._bench.run_cell(load).cell
        return self._cells[slots]

    def _is_past(self, slots: int) -> bool:
        """Two doublings in a row gained less than half: one alone may be noise; and goodput no longer grows."""
        if slots < 4:
            return False
        tried = [(at, self._cells[at].output_tok_s or 0.0) for at in (slots // 4, slots // 2, slots)]
        flat = all(gain(low, high) < KNEE_GAIN for low, high in itertools.pairwise(tried))
        return flat and _goodput(self._cells[slots]) <= _goodput(self._cells[slots // 2])

    def _refine(self) -> None:
        """Bisect between the neighbours of the best goodput until the steps are an eighth of it."""
        while any(cell.goodput for cell in self._cells.values()):
            ordered = sorted(self._cells)
            best = max(ordered, key=lambda slots: _goodput(self._cells[slots]))
            place = ordered.index(best)
            around = ordered[max(0, place - 1) : place + 2]
            gaps = [(high - low, low) for low, high in itertools.pairwise(around)]
            widest, low = max(gaps, default=(0, 0))
            if widest < 2 or widest <= best / 8 or _goodput(self._cells[best]) == 0:
                return
            self._measure(low + widest // 2)


def _goodput(cell: Cell) -> float:
    return cell.goodput.req_s if cell.goodput else 0.0


def _points(cells: Sequence[Cell]) -> list[tuple[int, float]]:
    """Concurrency and tok/s of the cells that count."""
    return [(c.concurrency_asked or 0, c.output_tok_s or 0.0) for c in cells if c.client.valid and c.completed]
