"""The macro section's figures: throughput and latency against concurrency, per-device against per-user speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from campaign import figures
from campaign.load.latency import Mean
from campaign.phases.kind import Figure
from campaign.phases.macro_table import MacroRow, MacroView

#: A row is marked where so many of its requests met every stated limit.
GOOD_SHARE = 0.95


def draw(view: MacroView) -> tuple[Figure, ...]:
    """Both figures as SVG, the same bytes for the same rows; none where no closed-loop row counts."""
    rows = [r for r in view.rows if r.concurrency is not None and r.output_tok_s.mean is not None]
    if not rows:
        return ()
    return (
        Figure(name="macro-concurrency.svg", svg=_by_concurrency(rows)),
        Figure(name="macro-pareto.svg", svg=_pareto(rows, view)),
    )


def _series(rows: Sequence[MacroRow]) -> list[tuple[dict[str, Any], list[MacroRow]]]:
    """The rows of each prompt length, with how their line looks."""
    lengths = list(dict.fromkeys(row.input_tokens for row in rows))
    return [
        (
            {
                "label": f"{length} prompt tokens",
                "color": figures.PALETTE[number % len(figures.PALETTE)],
                "marker": figures.MARKERS[number % len(figures.MARKERS)],
            },
            [row for row in rows if row.input_tokens == length],
        )
        for number, length in enumerate(lengths)
    ]


def _by_concurrency(rows: Sequence[MacroRow]) -> bytes:
    with figures.axes(8.0, 3.4, columns=2) as (figure, (left, right)):
        for look, line in _series(rows):
            _line(left, line, [row.output_tok_s for row in line], look)
            _line(right, line, [row.tpot_ms for row in line], look | {"label": None})
        for ax, title in ((left, "output tok/s"), (right, "TPOT, ms")):
            ax.set_xscale("log", base=2)
            ticks = sorted({row.concurrency or 0 for row in rows})
            ax.set_xticks(ticks, [str(tick) for tick in ticks])
            ax.minorticks_off()
            ax.set_xlabel("concurrent requests")
            ax.set_ylabel(title)
            ax.set_ylim(bottom=0)
        figures.legend_above(figure)
        return figures.svg_of(figure, "Throughput and time per token against concurrency")


def _line(ax: Any, rows: Sequence[MacroRow], means: Sequence[Mean], look: dict[str, Any]) -> None:
    points = [(row.concurrency, mean) for row, mean in zip(rows, means, strict=True) if mean.mean is not None]
    lows = [m.mean - m.ci95[0] if m.ci95 and m.mean is not None else 0.0 for _, m in points]
    highs = [m.ci95[1] - m.mean if m.ci95 and m.mean is not None else 0.0 for _, m in points]
    ax.errorbar([x for x, _ in points], [m.mean for _, m in points], yerr=(lows, highs), capsize=3, **look)


def _pareto(rows: Sequence[MacroRow], view: MacroView) -> bytes:
    with figures.axes(8.0, 3.8) as (figure, ax):
        ring = "at least 95 % within limits"
        for look, line in _series(rows):
            known = [row for row in line if row.tok_s_user is not None and row.tok_s_gpu is not None]
            ax.plot([row.tok_s_user for row in known], [row.tok_s_gpu for row in known], markevery=[], **look)
            for row in known:
                _point(ax, row, look)
            good = [row for row in known if row.goodput_share is not None and row.goodput_share >= GOOD_SHARE]
            if good:
                places = [row.tok_s_user for row in good], [row.tok_s_gpu for row in good]
                ax.scatter(*places, s=140, facecolors="none", edgecolors=look["color"], label=ring)
                ring = ""
        if view.knee is not None and view.knee.tok_s_user is not None:
            place = (view.knee.tok_s_user, view.knee.tok_s_gpu)
            arrow = {"arrowstyle": "->", "color": figures.QUIET}
            ax.annotate("knee", place, xytext=(-52, -18), textcoords="offset points", arrowprops=arrow)
        ax.set_xlabel("tok/s a user (1000 / TPOT)")
        ax.set_ylabel(f"output tok/s a {view.device_word}")
        ax.set_xlim(0, 1.15 * max(row.tok_s_user or 0 for row in rows) or 1)
        ax.set_ylim(0, 1.15 * max(row.tok_s_gpu or 0 for row in rows) or 1)
        figures.legend_above(figure)
        return figures.svg_of(figure, f"Throughput a {view.device_word} against the speed that one user sees")


def _point(ax: Any, row: MacroRow, look: dict[str, Any]) -> None:
    """One load with its concurrency beside it; hollow where it is no headline."""
    place = (row.tok_s_user, row.tok_s_gpu)
    face = look["color"] if row.is_headline else "none"
    ax.plot(*place, marker=look["marker"], color=look["color"], markerfacecolor=face, linestyle="none", zorder=3)
    ax.annotate(str(row.concurrency), place, xytext=(5, 4), textcoords="offset points", fontsize="small")
