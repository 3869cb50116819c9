"""More streams at once: throughput measured where it was, bounded by bytes where it was not."""

from __future__ import annotations

import re

from campaign.analysis.scene import Scene
from campaign.analysis.whatif.change import Change, Input

_CELL = re.compile(r"c(\d+)(\.\w+)?")


def changes(scene: Scene) -> tuple[Change, ...]:
    """Measured cells of other concurrencies; without any, the model's bytes at 16 tokens."""
    measured = _measured(scene)
    return measured if measured else _estimated(scene, 16 * scene.batch)


def _measured(scene: Scene) -> tuple[Change, ...]:
    here = scene.macro("tpot_ms", scene.batch)
    made = []
    for concurrency in sorted(_concurrencies(scene) - {scene.batch}):
        there, tokens = scene.macro("tpot_ms", concurrency), scene.macro("output_tok_s", concurrency)
        if here is None or there is None or tokens is None or scene.is_capacity_limited(there[0]):
            continue
        if min(here[1].low, there[1].low, tokens[1].low) <= 0:
            continue  # three repeats can leave an interval that reaches below 0: no range follows from it
        made.append(
            Change(
                id=f"batch.{concurrency}",
                change=f"{concurrency} streams at once (measured)",
                formula="measured cells",
                inputs=(
                    Input(name=here[0], value=here[1].middle, unit="ms"),
                    Input(name=there[0], value=there[1].middle, unit="ms"),
                    Input(name=tokens[0], value=tokens[1].middle, unit="tok/s"),
                ),
                step_ms_low=there[1].low,
                step_ms_high=there[1].high,
                gain_low=concurrency * here[1].low / (scene.batch * there[1].high),
                gain_high=concurrency * here[1].high / (scene.batch * there[1].low),
                tok_s_low=tokens[1].low,
                tok_s_high=tokens[1].high,
                assumption="enough requests at once; each stream's time per token is the one given",
            )
        )
    return tuple(made)


def _concurrencies(scene: Scene) -> set[int]:
    keys = (_CELL.fullmatch(key) for key in scene.readings.keys("macro.tpot_ms"))
    return {int(match.group(1)) for match in keys if match}


def _estimated(scene: Scene, batch: int) -> tuple[Change, ...]:
    step_ms, model = scene.step_ms, scene.facts.model
    if step_ms is None or model is None:
        return ()
    now, then = model.weight_bytes.get(scene.batch), model.weight_bytes.get(batch)
    gemm_ms = scene.gemm_ms
    if not now or not then or gemm_ms is None:
        return ()
    ratio = then / now
    high_ms = step_ms + (ratio - 1) * gemm_ms.high
    factor = batch / scene.batch
    return (
        Change(
            id=f"batch.{batch}",
            change=f"{batch} streams at once (computed from bytes)",
            formula="step + GEMM time × (bytes at the batch / bytes now − 1)",
            inputs=(
                Input(name="profile.step_ms", value=step_ms, unit="ms"),
                Input(name="GEMM time", value=gemm_ms.low, high=gemm_ms.high, unit="ms"),
                Input(name="weight bytes ratio", value=ratio, unit="1"),
            ),
            step_ms_low=step_ms,
            step_ms_high=high_ms,
            gain_low=factor * step_ms / high_ms,
            gain_high=factor,
            tok_s_low=batch * 1e3 / high_ms,
            tok_s_high=batch * 1e3 / step_ms,
            assumption="uniform routing; attention, KV cache and messages do not grow with the batch",
        ),
    )
