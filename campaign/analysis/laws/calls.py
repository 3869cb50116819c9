"""All-reduces found in a step against those that the model needs."""

from __future__ import annotations

from campaign.analysis.laws.law import BROKEN, HOLDS, Law, not_testable
from campaign.analysis.scene import Scene
from campaign.analysis.wording import whole

_ID, _LAW = "collective_calls", "all-reduces a step = 2 a layer + 1 for the embedding"


def check(scene: Scene) -> tuple[Law, ...]:
    """Expected `model.allreduces_per_step`, measured `profile.path_calls.allreduce` (else `profile.calls.allreduce`)."""
    expected = scene.readings.value("model.allreduces_per_step")
    # Where an engine has a second path (its own all-reduce beside NCCL's), the model's calls are on the first.
    measured = scene.readings.value("profile.path_calls.allreduce")
    if measured is None:
        measured = scene.readings.value("profile.calls.allreduce")
    if expected is None or measured is None:
        if expected == 0:
            return ()
        missing = ["model.allreduces_per_step"] * (expected is None) + ["profile.calls.allreduce"] * (measured is None)
        return (not_testable(_ID, _LAW, *missing),)
    rest = measured - expected
    layers = 2 * (expected // 2)
    parts = f"{whole(layers)} in layers + {whole(expected - layers)} for the embedding"
    is_kept = abs(rest) < 0.5
    return (
        Law(
            id=_ID,
            law=_LAW,
            status=HOLDS if is_kept else BROKEN,
            unit="1",
            expected=expected,
            measured=measured,
            difference=rest,
            explained_by="",
            unexplained=None if is_kept else rest,
            note=f"{whole(measured)} = {parts}"
            + ("" if is_kept else f" {'+' if rest > 0 else '−'} {whole(abs(rest))} unexplained"),
        ),
    )
