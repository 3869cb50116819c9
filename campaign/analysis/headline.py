"""The summary's one table: the numbers that a busy reader looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from campaign.analysis.readings import Readings
from campaign.analysis.revisions import is_beyond_noise, relative_change
from campaign.analysis.scene import Scene
from campaign.schema import Quantity


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the summary's table."""

    what: str
    """What the number is, in words."""
    name: str
    """The quantity."""
    value: float
    """Its value."""
    unit: str
    """Its unit; `share` for a fraction of the step."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    """Upper end."""
    change: float | None = None
    """Relative change since the last revision; null without one, and for a number that was not measured again."""
    is_beyond_noise: bool = False
    """Whether the change is beyond noise."""
    note: str = ""
    """A caveat."""
    origin: str = "measured"
    """measured, computed, imported, or noted (known only from notes)."""


_CELL = re.compile(r"c(\d+)(?:\.i(\d+))?")
#: At most so many rows of one macro quantity.
_MOST_CELLS = 4


def headlines(scene: Scene, before: Readings | None) -> tuple[Headline, ...]:
    """The rows, with the change against the numbers of the last revision."""
    made = []
    for what, name, unit in _wanted(scene):
        quantity = scene.readings.find(name)
        if quantity is not None and quantity.value is not None:
            made.append(_row(what, quantity, unit or quantity.unit, before.find(name) if before else None))
    return tuple(made)


def _wanted(scene: Scene) -> Iterator[tuple[str, str, str]]:
    """(words, quantity, unit if not the quantity's own)."""
    yield f"decode step at batch {scene.batch}", "profile.step_ms", ""
    ranked = scene.shares.ranked()
    for share in ranked[:2]:
        if share.category != "idle":
            yield f"{scene.word(share.category)}, share of the step", f"profile.share.{share.category}", "share"
    yield "unclassified, share of the step", "profile.unclassified_share", "share"
    yield "idle a step", "profile.idle_ms", ""
    yield from _cells(scene, "tpot_ms", "time per output token")
    yield from _cells(scene, "ttft_ms", "time to first token")
    yield from _cells(scene, "output_tok_s", "output throughput")
    yield "GEMM shapes alone, a step", "gemm.step_ms", ""
    yield "isolated all-reduce burst", "collectives.burst_ms", ""
    yield "isolated all-reduce burst in a graph", "collectives.burst_graph_ms", ""


def _cells(scene: Scene, quantity: str, words: str) -> Iterator[tuple[str, str, str]]:
    keys = [key for key in scene.readings.keys(f"macro.{quantity}") if _is_shown(scene, f"macro.{quantity}.{key}", key)]
    if len(keys) > _MOST_CELLS:
        keys = [keys[0], keys[-1]]
    for key in keys:
        match = _CELL.fullmatch(key)
        assert match is not None
        streams = f"{match[1]} stream{'s' if match[1] != '1' else ''}"
        yield f"{words}, {streams}{f', input {match[2]}' if match[2] else ''}", f"macro.{quantity}.{key}", ""


def _is_shown(scene: Scene, name: str, key: str) -> bool:
    """A cell that could not hold its concurrency is never a headline."""
    return bool(_CELL.fullmatch(key)) and not scene.is_capacity_limited(name)


def _row(what: str, quantity: Quantity, unit: str, before: Quantity | None) -> Headline:
    assert quantity.value is not None
    if before is not None and before.value == quantity.value and before.source == quantity.source:
        before = None  # The same measurement: nothing can have changed.
    return Headline(
        what=what,
        name=quantity.name,
        value=quantity.value,
        unit=unit,
        low=quantity.low,
        high=quantity.high,
        change=relative_change(before, quantity),
        is_beyond_noise=before is not None and is_beyond_noise(before, quantity),
        note=quantity.note,
        origin=quantity.source.origin if quantity.source is not None else "measured",
    )
