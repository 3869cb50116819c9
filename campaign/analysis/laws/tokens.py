"""Tokens that the client counted against tokens that the server counted."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law, not_testable
from campaign.analysis.scene import Scene

_ID, _LAW = "tokens", "tokens counted by the client = tokens counted by the server"


def check(scene: Scene) -> tuple[Law, ...]:
    """measured: `macro.client_tokens`; expected: `macro.server_tokens`; equal to the token."""
    expected = scene.readings.value("macro.server_tokens")
    measured = scene.readings.value("macro.client_tokens")
    if expected is None or measured is None:
        missing = ["macro.server_tokens"] * (expected is None) + ["macro.client_tokens"] * (measured is None)
        return (not_testable(_ID, _LAW, *missing),)
    difference = measured - expected
    return (
        Law(
            id=_ID,
            law=_LAW,
            status=HOLDS if abs(difference) < 0.5 else BROKEN,
            unit="1",
            expected=expected,
            measured=measured,
            difference=difference,
            unexplained=None if abs(difference) < 0.5 else difference,
            note="" if abs(difference) < 0.5 else "throughput of these cells is not to be trusted",
        ),
    )
