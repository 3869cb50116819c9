"""Figures as SVG: the same bytes on any machine, told apart without colour vision, readable in light and dark."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that people with any colour vision tell apart (Okabe & Ito 2008), by rising preference for emphasis last.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C8C8C", "#B8A000")
#: Hatches that set neighbouring bars apart where colour does not (printed in grey).
HATCHES = ("", "//", "\\\\", "xx", "..", "--", "++", "oo")
#: Markers of lines, in the order of `PALETTE`.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_TEXT, _QUIET, _GRID = "#1f2328", "#59636e", "#d1d9e1"
_DARK = {_TEXT: "#e6edf3", _QUIET: "#9198a1", _GRID: "#3d444d"}
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _TEXT,
    "axes.titlecolor": _TEXT,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "text.color": _TEXT,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.labelcolor": _TEXT,
    "ytick.labelcolor": _TEXT,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "svg.hashsalt": "campaign",
    "svg.fonttype": "none",
    "axes.formatter.use_locale": False,
}


def draw_svg(
    draw: Callable[[Figure, Axes], None], *, title: str, width_in: float = 7.2, height_in: float = 3.6
) -> bytes:
    """One figure as SVG: `draw` gets the figure and its axes (inches); `title` is read out by screen readers."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as NewFigure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = NewFigure(figsize=(width_in, height_in), layout="constrained")
        axes = figure.add_subplot()
        draw(figure, axes)
        out = io.BytesIO()
        metadata = {"Date": None, "Creator": None, "Title": title}
        figure.savefig(out, format="svg", metadata=metadata, transparent=True)
    return _for_light_and_dark(out.getvalue().decode("utf-8")).encode("utf-8")


def legend_above(figure: Figure, columns: int = 4) -> None:
    """The legend above the axes, where it covers no data."""
    figure.legend(loc="outside upper left", ncols=columns)


def _for_light_and_dark(svg: str) -> str:
    """Text and lines follow the reader's colour scheme on screen; what is printed is light."""
    rules = "".join(
        f'[style*="{part}: {light}"]{{{part}:{dark} !important}}'
        for light, dark in _DARK.items()
        for part in ("fill", "stroke")
    )
    style = f"<style>@media screen and (prefers-color-scheme: dark){{{rules}}}</style>"
    at = svg.index(">", svg.index("<svg")) + 1
    return svg[:at] + "\n " + style + svg[at:]
