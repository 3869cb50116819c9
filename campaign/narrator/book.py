"""What may be said: subjects, their numbers, and their order, out of one synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from campaign.analysis.headline import Headline
from campaign.analysis.synthesis import Synthesis

#: Unit of an entry: %, ms, tok/s, x (a factor), points, 1 (a count). Times and rates are converted to these.
_CELL = re.compile(r"macro\.(tpot_ms|ttft_ms|output_tok_s)\.c(\d+)(?:\.i\d+)?")
_MACRO = {"tpot_ms": "tpot", "ttft_ms": "ttft", "output_tok_s": "throughput"}


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One number that may be said of one subject."""

    subject: str
    """Category, `step`, `burst`, `free.<category>`, `floor.<category>`, `tpot.<streams>`, `direction.<id>`, …"""
    value: float
    """Its value in `unit`."""
    unit: str
    """%, ms, tok/s, x, points or 1."""
    role: str = "value"
    """value, least (a lower bound of something), most (an upper one), change (since the last revision)."""
    needs: str = ""
    """Another subject that must stand in the same clause, e.g. what a factor is measured against."""


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may be said."""

    entries: tuple[Entry, ...]
    """Numbers by subject."""
    bottleneck: str | None
    """The category that may be called what bounds decode; null = no claim."""
    largest: str | None
    """The largest named category."""
    second: str | None
    """The second largest."""
    verdicts: tuple[tuple[str, str], ...]
    """(claim, verdict)."""
    directions: tuple[str, ...]
    """Ids of directions, best first."""
    batch: int
    """Batch of the profiled step."""
    broken: int
    """Laws that do not hold."""
    tested: int
    """Laws that could be tested."""

    def of(self, subject: str, unit: str) -> list[Entry]:
        """Numbers of that subject in that unit."""
        return [entry for entry in self.entries if entry.subject == subject and entry.unit == unit]

    def streams(self, subject: str) -> list[int]:
        """Concurrencies at which a macro subject was measured."""
        heads = (entry.subject.partition(".") for entry in self.entries)
        return sorted({int(cell) for head, _, cell in heads if head == subject and cell.isdigit()})


def write_book(synthesis: Synthesis) -> Book:
    """The book of one synthesis."""
    found = synthesis.bottleneck
    tested = [law for law in synthesis.laws if law.status in ("holds", "broken")]
    return Book(
        entries=tuple(_entries(synthesis)),
        bottleneck=found.category if found is not None and found.is_claimed else None,
        largest=found.category if found is not None else None,
        second=found.second.category if found is not None and found.second is not None else None,
        verdicts=tuple((verdict.claim, verdict.verdict) for verdict in synthesis.verdicts),
        directions=tuple(change.id for change in synthesis.directions),
        batch=synthesis.batch,
        broken=sum(law.status == "broken" for law in tested),
        tested=len(tested),
    )


def _entries(synthesis: Synthesis) -> Iterator[Entry]:
    if synthesis.step_ms is not None:
        yield Entry(subject="step", value=synthesis.step_ms, unit="ms")
        yield Entry(subject="unclassified", value=synthesis.unclassified * 100, unit="%")
    for share in synthesis.shares:
        yield Entry(subject=share.category, value=share.share * 100, unit="%")
        yield Entry(subject=share.category, value=share.exposed_ms, unit="ms")
        if share.floor_ms is not None:
            yield Entry(subject=f"floor.{share.category}", value=share.floor_ms, unit="ms")
    for change in synthesis.changes:
        is_bound = change.id.startswith("free.")
        subject = change.id if is_bound else f"direction.{change.id}"
        for value, unit, role in (
            (change.step_ms_low, "ms", "least"),
            (change.step_ms_high, "ms", "most"),
            (change.gain_low, "x", "least"),
            (change.gain_high, "x", "most"),
        ):
            yield Entry(subject=subject, value=value, unit=unit, role=role)
    yield from _of_laws(synthesis)
    for verdict in synthesis.verdicts:
        if verdict.margin is not None and verdict.margin_unit == "share":
            subject = f"belief.{verdict.claim}"
            yield Entry(subject=subject, value=verdict.margin * 100, unit="points", role="least")
    for row in synthesis.headlines:
        yield from _of_headline(row)


def _of_laws(synthesis: Synthesis) -> Iterator[Entry]:
    for law in synthesis.laws:
        if law.id == "allreduce_in_situ" and law.ratio is not None and law.expected is not None:
            yield Entry(subject="allreduce", value=law.ratio, unit="x", needs="burst")
            yield Entry(subject="burst", value=law.expected, unit="ms")
        if law.id == "collective_calls" and law.measured is not None:
            yield Entry(subject="calls", value=law.measured, unit="1")
    tested = [law for law in synthesis.laws if law.status in ("holds", "broken")]
    yield Entry(subject="laws", value=float(len(tested)), unit="1")
    yield Entry(subject="laws.broken", value=float(sum(law.status == "broken" for law in tested)), unit="1")


def _of_headline(row: Headline) -> Iterator[Entry]:
    match = _CELL.fullmatch(row.name)
    subject = {"profile.step_ms": "step"}.get(row.name)
    if match is not None:
        subject = f"{_MACRO[match[1]]}.{match[2]}"
        yield Entry(subject=subject, value=row.value, unit=row.unit)
    if subject is not None and row.change is not None:
        yield Entry(subject=subject, value=row.change * 100, unit="%", role="change")
