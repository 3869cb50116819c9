"""Campaigns as quantities: the case that shaped the report, and further ones."""

from __future__ import annotations

from collections.abc import Mapping

from campaign.analysis import Facts, ModelFacts
from campaign.schema import Quantity

GPU = Facts(tensor_parallel=8)
KIMI_FACTS = Facts(
    tensor_parallel=8,
    model=ModelFacts(
        layers=61,
        experts=384,
        experts_per_token=8,
        weight_bytes={1: 6.03e9, 4: 6.03e9 * 1.71, 16: 6.03e9 * 4.2},
    ),
)


def quantity(
    name: str, value: float | None, unit: str = "ms", low: float | None = None, high: float | None = None
) -> Quantity:
    return Quantity(name=name, value=value, unit=unit, low=low, high=high)


def profile(
    exposed_ms: Mapping[str, float], *, idle_ms: float = 0.0, batch: int = 1, calls: Mapping[str, float] | None = None
) -> list[Quantity]:
    """A profiled step whose categories and idle time add up."""
    step_ms = sum(exposed_ms.values()) + idle_ms
    made = [
        quantity("profile.step_ms", step_ms),
        quantity("profile.idle_ms", idle_ms),
        quantity("profile.batch", batch, "1"),
        quantity("profile.steps", 155, "1"),
    ]
    for name, ms in exposed_ms.items():
        made += [
            quantity(f"profile.exposed_ms.{name}", ms),
            quantity(f"profile.busy_ms.{name}", ms),
            quantity(f"profile.share.{name}", ms / step_ms, "1"),
        ]
    unknown = sum(exposed_ms.get(name, 0.0) for name in ("other", "compiled")) / step_ms
    made.append(quantity("profile.unclassified_share", unknown, "1"))
    made += [quantity(f"profile.calls.{name}", count, "1") for name, count in (calls or {}).items()]
    return made


KIMI_MS = {
    "allreduce": 11.17, "gemm": 2.08, "attention": 1.31, "rms_norm": 1.12, "rope": 0.81, "silu_mul": 0.47,
    "other": 4.72,
}  # fmt: skip


def kimi() -> list[Quantity]:
    """155 decode steps at batch 1 on 8 ranks, as known from notes."""
    return [
        *profile(KIMI_MS, calls={"allreduce": 127}),
        quantity("model.allreduces_per_step", 123, "1"),
        quantity("model.message_bytes", 14336, "B"),
        quantity("model.weight_bytes_per_step", 6.03e9, "B"),
        quantity("model.floor_ms.gemm", 6.03e9 / 1.792e12 * 1e3),
        quantity("model.floor_ms.allreduce", 122 * 2.6e-3),
        quantity("collectives.burst_ms", 6.81),
        quantity("collectives.burst_calls", 122, "1"),
        quantity("collectives.burst_us_per_call", 55.8, "us"),
    ]
