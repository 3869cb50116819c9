"""Figures as SVG: the same bytes for the same numbers, readable on light and dark, and for the colour-blind."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Okabe and Ito's palette, told apart by the colour-blind; grey is for what is nobody's.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#8172B3", "#937860", "#4C9F70")
GREY = "#9E9E9E"
#: Set neighbouring bars apart, and lines from each other, where colour does not (printed in grey).
HATCHES = ("", "//", "\\\\", "xx", "..", "--", "++", "oo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: Text, quiet lines and the grid on white; on dark each is replaced by its counterpart.
INK, QUIET, GRID = "#1f2328", "#59636e", "#d1d9e1"
_ON_DARK = {INK: "#e6edf3", QUIET: "#9198a1", GRID: "#3d444d"}
#: Parts below this share of the whole are drawn but not labelled.
LABELLED_SHARE = 0.04

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "campaign", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
    "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "axes.edgecolor": QUIET,
    "xtick.color": QUIET, "ytick.color": QUIET, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "hatch.linewidth": 0.5,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
    "lines.linewidth": 1.8, "lines.markersize": 5, "axes.formatter.use_locale": False,
}  # fmt: skip


@contextmanager
def axes(width_in: float, height_in: float, columns: int = 1) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the common style, whatever a person's own matplotlibrc says."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        yield figure, figure.subplots(1, columns)


def svg_of(figure: Any, title: str = "") -> bytes:
    """The figure as SVG, without the date it was made; `title` is what screen readers say.

    Text and lines in `INK`, `QUIET` and `GRID` follow the reader's colour scheme on screen; print is light.
    """
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = "\n".join(line.rstrip() for line in out.getvalue().decode("utf-8").split("\n")).rstrip("\n") + "\n"
    rules = "".join(
        f'[style*="{part}: {light}"]{{{part}:{dark} !important}}'
        for light, dark in _ON_DARK.items()
        for part in ("fill", "stroke")
    )
    head = f"\n <title>{html.escape(title)}</title>" if title else ""
    head += f"\n <style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>"
    at = svg.index(">", svg.index("<svg")) + 1
    return (svg[:at] + head + svg[at:]).encode("utf-8")


def legend_above(figure: Any, columns: int = 4) -> None:
    """The legend above the axes, where it covers no data."""
    figure.legend(loc="outside upper left", ncols=columns)


def stacked_bar(parts: Sequence[tuple[str, float]], *, unit: str, title: str) -> bytes:
    """One horizontal bar made of named parts, largest first, with a legend that says each part's value."""
    total = sum(value for _, value in parts) or 1.0
    with axes(8.0, 2.4) as (figure, ax):
        left = 0.0
        for number, (name, value) in enumerate(parts):
            colour = GREY if name in ("idle", "host", "other") else PALETTE[number % len(PALETTE)]
            hatch = HATCHES[number % len(HATCHES)]
            label = f"{name} {value:.3g} {unit} ({value / total:.1%})"
            ax.barh(0, value, left=left, color=colour, edgecolor="white", linewidth=0.5, label=label, hatch=hatch)
            if value / total >= LABELLED_SHARE * 2:
                box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
                ax.text(left + value / 2, 0, name, ha="center", va="center", color="white", fontsize=8, bbox=box)
            left += value
        ax.set_yticks([])
        ax.grid(False)
        ax.spines["left"].set_visible(False)
        ax.set_xlim(0, total)
        ax.set_xlabel(f"{unit} of a step")
        ax.set_title(title, loc="left")
        figure.legend(loc="outside lower center", ncols=3, fontsize=7)
        return svg_of(figure, title)
