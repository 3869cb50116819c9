"""Rules on cells of the macro benchmark that are not to be trusted yet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from campaign.analysis.wording import percent
from campaign.planner.proposal import Proposal
from campaign.planner.view import View

#: Half an interval above this part of its value asks for more repeats.
NOISE_LIMIT = 0.05
#: Client processes of a repeated macro phase.
PROCESSES = 4
_CELL = re.compile(r"macro\.tpot_ms\.c(\d+)(?:\.i(\d+))?")


def noise(view: View) -> Iterator[Proposal]:
    """An interval over ±5 %: more repeats of the noisiest concurrency."""
    worst, widest = None, NOISE_LIMIT
    for name in filter(_CELL.fullmatch, view.scene.readings.names):
        interval, value = view.scene.readings.interval(name), view.scene.readings.value(name)
        if interval is not None and value and (interval.high - interval.low) / 2 / value > widest:
            worst, widest = name, (interval.high - interval.low) / 2 / value
    match = _CELL.fullmatch(worst) if worst else None
    if match is None:
        return
    parameters: dict[str, object] = {"concurrency": [int(match[1])], "repeats": 10}
    if match[2]:
        parameters["input_tokens"] = int(match[2])
    yield Proposal(
        id="macro-repeats",
        kind="macro",
        parameters=parameters,
        rule="noise",
        reason=f"{worst} is known to ±{percent(widest)} only (limit {percent(NOISE_LIMIT, 0)}): more repeats",
        server_loads=1,
        minutes=5.0,
    )


def client_bound(view: View) -> Iterator[Proposal]:
    """Cells that their client bound: again with more processes."""
    found = next((f for f in view.findings if f.id == "macro.invalid"), None)
    if found is None:
        return
    yield Proposal(
        id="macro-processes",
        kind="macro",
        parameters={"processes": PROCESSES},
        rule="client_bound",
        reason=f"{found.text} Again with {PROCESSES} client processes",
        server_loads=1,
        minutes=5.0,
    )
