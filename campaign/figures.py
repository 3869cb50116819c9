"""Figures as SVG: the same bytes for the same numbers, readable on light and dark, and for the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Okabe and Ito's palette, told apart by the colour-blind; grey is for what is nobody's.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8172B3", "#937860", "#4C9F70")
GREY = "#9E9E9E"
#: Text and lines stand out on white and on dark alike.
INK = "#767676"
#: Parts below this share of the whole are drawn but not labelled.
LABELLED_SHARE = 0.04


@contextmanager
def axes(width_in: float, height_in: float, columns: int = 1) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the common style; closed afterwards."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    style = {
        "svg.hashsalt": "campaign", "svg.fonttype": "none", "font.size": 9, "text.color": INK, "axes.labelcolor": INK,
        "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.spines.top": False,
        "axes.spines.right": False, "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
        "legend.frameon": False, "font.family": "sans-serif",
    }  # fmt: skip
    with mpl.rc_context(style):
        figure, made = pyplot.subplots(1, columns, figsize=(width_in, height_in), layout="constrained")
        try:
            yield figure, made
        finally:
            pyplot.close(figure)


def svg_of(figure: Any) -> bytes:
    """The figure as SVG, without the date it was made."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return b"\n".join(line.rstrip() for line in out.getvalue().splitlines()) + b"\n"


def stacked_bar(parts: Sequence[tuple[str, float]], *, unit: str, title: str) -> bytes:
    """One horizontal bar made of named parts, largest first, with a legend that says each part's value."""
    total = sum(value for _, value in parts) or 1.0
    with axes(8.0, 2.2) as (figure, ax):
        left = 0.0
        for number, (name, value) in enumerate(parts):
            colour = GREY if name in ("idle", "host", "other") else PALETTE[number % len(PALETTE)]
            label = f"{name} {value:.3g} {unit} ({value / total:.1%})"
            ax.barh(0, value, left=left, color=colour, edgecolor="white", linewidth=0.5, label=label)
            if value / total >= LABELLED_SHARE * 2:
                ax.text(left + value / 2, 0, name, ha="center", va="center", color="white", fontsize=8)
            left += value
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlim(0, total)
        ax.set_xlabel(f"{unit} of a step")
        ax.set_title(title, loc="left")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.45), ncols=3, fontsize=7)
        return svg_of(figure)
