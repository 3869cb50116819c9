"""The macro section's figures: throughput and latency against concurrency, per-device against per-user speed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from campaign.load.latency import Mean
from campaign.phases.kind import Figure
from campaign.phases.macro_table import MacroRow, MacroView

#: One colour a prompt length, told apart by people who see colours differently.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def draw(view: MacroView) -> tuple[Figure, ...]:
    """Both figures as SVG, the same bytes for the same rows; none where no closed-loop row counts."""
    rows = [r for r in view.rows if r.concurrency is not None and r.output_tok_s.mean is not None]
    if not rows:
        return ()
    return (
        Figure(name="macro-concurrency.svg", svg=_render(lambda figure: _by_concurrency(figure, rows))),
        Figure(name="macro-pareto.svg", svg=_render(lambda figure: _pareto(figure, rows, view))),
    )


def _render(paint: Any) -> bytes:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({"svg.hashsalt": "campaign", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure = Canvas(figsize=(8, 3.4), layout="constrained")
        paint(figure)
        out = io.BytesIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def _series(rows: Sequence[MacroRow]) -> list[tuple[str, str, list[MacroRow]]]:
    lengths = list(dict.fromkeys(row.input_tokens for row in rows))
    return [
        (f"{length} prompt tokens", COLOURS[i % len(COLOURS)], [r for r in rows if r.input_tokens == length])
        for i, length in enumerate(lengths)
    ]


def _by_concurrency(figure: Any, rows: Sequence[MacroRow]) -> None:
    left, right = figure.subplots(1, 2)
    for label, colour, line in _series(rows):
        _line(left, line, [row.output_tok_s for row in line], colour, label)
        _line(right, line, [row.tpot_ms for row in line], colour, label)
    for axes, title in ((left, "output tok/s"), (right, "TPOT, ms")):
        axes.set_xscale("log", base=2)
        ticks = sorted({row.concurrency or 0 for row in rows})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xlabel("concurrent requests")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    left.legend(frameon=False, fontsize="small")


def _line(axes: Any, rows: Sequence[MacroRow], means: Sequence[Mean], colour: str, label: str) -> None:
    points = [(row.concurrency, mean) for row, mean in zip(rows, means, strict=True) if mean.mean is not None]
    half = [(m.ci95[1] - m.ci95[0]) / 2 if m.ci95 else 0.0 for _, m in points]
    axes.errorbar(
        [x for x, _ in points], [m.mean for _, m in points], yerr=half, color=colour, label=label, marker="o", capsize=3
    )


def _pareto(figure: Any, rows: Sequence[MacroRow], view: MacroView) -> None:
    axes = figure.subplots()
    first = _series(rows)[0][0]
    for label, colour, line in _series(rows):
        known = [r for r in line if r.tok_s_user is not None and r.tok_s_gpu is not None]
        axes.plot([r.tok_s_user for r in known], [r.tok_s_gpu for r in known], color=colour, alpha=0.6, label=label)
        for row in known:
            filled = colour if row.is_headline else "none"
            axes.scatter([row.tok_s_user], [row.tok_s_gpu], color=colour, facecolors=filled, zorder=3)
            axes.annotate(
                str(row.concurrency),
                (row.tok_s_user, row.tok_s_gpu),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize="small",
            )
        good = [r for r in known if r.goodput_share is not None and r.goodput_share >= 0.95]
        if good:
            axes.scatter(
                [r.tok_s_user for r in good],
                [r.tok_s_gpu for r in good],
                s=140,
                facecolors="none",
                edgecolors=colour,
                label="at least 95 % within limits" if label == first else None,
            )
    if view.knee is not None and view.knee.tok_s_user is not None:
        axes.annotate(
            "knee",
            (view.knee.tok_s_user, view.knee.tok_s_gpu),
            xytext=(-52, -18),
            textcoords="offset points",
            arrowprops={"arrowstyle": "->"},
        )
    axes.set_xlabel("tok/s a user (1000 / TPOT)")
    axes.set_ylabel(f"output tok/s a {view.device_word}")
    axes.set_xlim(0, 1.15 * max(r.tok_s_user or 0 for r in rows) or 1)
    axes.set_ylim(0, 1.15 * max(r.tok_s_gpu or 0 for r in rows) or 1)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small", loc="lower left")
