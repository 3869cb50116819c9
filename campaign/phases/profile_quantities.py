"""A profile's numbers and claims."""

from __future__ import annotations

from collections.abc import Iterator

from campaign.phases.profile_data import Capture, Config
from campaign.phases.profile_table import CaptureView, View
from campaign.schema import Finding, Quantity, Source
from campaign.trace import Breakdown


def quantities_of(
    capture: Capture, view: CaptureView, config: Config, source: Source, suffix: str
) -> Iterator[Quantity]:
    """Every number of one batch; `suffix` (`@b16`) sets further batches apart."""

    def quantity(name: str, value: float | None, unit: str, **more: float | None) -> Quantity:
        return Quantity(name=f"{name}{suffix}", value=value, unit=unit, source=source, **more)  # type: ignore[arg-type]

    decode = capture.analysis.decode
    assert decode is not None
    ci95_ms = decode.wall_ms.ci95 or (None, None)
    yield quantity("profile.step_ms", view.wall_mean_ms, "ms", low=ci95_ms[0], high=ci95_ms[1])
    yield quantity("profile.idle_ms", view.idle_ms, "ms")
    yield quantity("profile.batch", view.batch, "1")
    yield quantity("profile.steps", view.steps, "1")
    yield quantity("profile.unprofiled_tpot_ms", view.unprofiled_tpot_ms, "ms")
    yield quantity("profile.rank_spread_ms", view.spread_ms, "ms")
    for row, category in zip(view.rows, sorted(decode.categories, key=lambda c: -c.exposed_ms_per_step), strict=True):
        share_ci = category.share_ci95 or (None, None)
        yield quantity(f"profile.busy_ms.{row.name}", row.busy_ms, "ms")
        yield quantity(f"profile.exposed_ms.{row.name}", row.exposed_ms, "ms")
        yield quantity(f"profile.share.{row.name}", row.share, "1", low=share_ci[0], high=share_ci[1])
        yield quantity(f"profile.busy_share.{row.name}", category.share_of_busy, "1")
        yield quantity(f"profile.calls.{row.name}", row.calls, "1")
        yield quantity(f"profile.us_per_call.{row.name}", row.us_per_call, "us")
    if len(view.paths) > 1:
        yield quantity("profile.path_calls.allreduce", view.paths[0].calls, "1")
        further_ms = sum(path.calls * path.us_per_call for path in view.paths[1:]) / 1e3
        yield quantity("profile.further_paths_ms.allreduce", further_ms, "ms")
    unknown = sum(row.share or 0.0 for row in view.rows if row.name in ("other", "compiled"))
    yield quantity("profile.unclassified_share", unknown, "1")
    yield from _allreduce_quantities(decode, quantity_of=quantity)
    yield quantity("model.allreduces_per_step", config.expected.allreduces_per_step, "1")
    if config.expected.message_bytes_per_token is not None:
        yield quantity("model.message_bytes", config.expected.message_bytes_per_token * view.batch, "B")
    yield quantity("model.weight_bytes_per_step", capture.weight_bytes, "B")
    for name, floor_ms in capture.floor_ms.items():
        yield quantity(f"model.floor_ms.{name}", floor_ms, "ms")


def _allreduce_quantities(decode: Breakdown, *, quantity_of: object) -> Iterator[Quantity]:
    make = quantity_of
    assert callable(make)
    for name, attribute in (("wait", "wait_us_per_call"), ("transfer", "transfer_us_per_call")):
        known = [
            (getattr(c, attribute), c.calls_per_step)
            for c in decode.collectives
            if c.name == "allreduce" and getattr(c, attribute) is not None
        ]
        calls = sum(count for _, count in known)
        mean_us = sum(us * count for us, count in known) / calls if calls else None
        yield make(f"profile.allreduce_{name}_us", mean_us, "us")


def findings_of(view: View) -> Iterator[Finding]:
    """All-reduces that the model does not explain, and categories below their floor."""
    for capture in view.captures:
        expected = capture.allreduces_expected
        for number, path in enumerate(capture.paths if expected else ()):
            if path.unexplained is not None and abs(path.unexplained) >= 0.5:
                known = f"the model's arithmetic gives {expected}" if number == 0 else "no number explains them"
                yield Finding(
                    id=f"profile.collective_calls.b{capture.batch}" + (f".{number}" if number else ""),
                    text=f"{path.calls:.4g} all-reduces a step at batch {capture.batch} by {path.kernel}; {known}.",
                    severity="notice",
                )
        for row in capture.rows:
            if row.is_below_floor:
                yield Finding(
                    id=f"profile.below_floor.{row.name}.b{capture.batch}",
                    text=f"{row.name} takes {row.busy_ms:.2f} ms a step, below its physical floor of "
                    f"{row.floor_ms:.2f} ms: some of its kernels stand in another category.",
                    severity="broken",
                )
