"""Saturation: the knee of throughput over concurrency, and the highest goodput under stated limits."""

from __future__ import annotations

import itertools

import msgspec

from campaign.load.bench import Bench
from campaign.load.cell import Cell
from campaign.load.workload import Load

#: Past the knee a step of concurrency gains less than this part of what it asks for.
KNEE_GAIN = 0.5


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
            knee=knee_of(cells),
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
        flat = all(_gain(self._cells[low], self._cells[2 * low]) < KNEE_GAIN for low in (slots // 4, slots // 2))
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


def _gain(low: Cell, high: Cell) -> float:
    """Part of the asked growth that throughput followed: 1 = in full, 0 = none."""
    if not low.output_tok_s or not high.output_tok_s or not low.concurrency_asked or not high.concurrency_asked:
        return 0.0
    return (high.output_tok_s / low.output_tok_s - 1) / (high.concurrency_asked / low.concurrency_asked - 1)


def knee_of(cells: tuple[Cell, ...]) -> int | None:
    """The last concurrency before a step gained less than half of what it asked for; invalid cells are left out."""
    valid = [cell for cell in cells if cell.client.valid and cell.completed]
    for low, high in itertools.pairwise(valid):
        if _gain(low, high) < KNEE_GAIN:
            return low.concurrency_asked
    return None
