"""How figures look: one style for all studies, for print and for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of Okabe and Ito (2008): told apart by colour-blind readers, and by their lightness in print."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "treeleak",
}


@contextmanager
def styled() -> Iterator[None]:
    """Set the style of all figures for what is drawn inside."""
    from matplotlib import rc_context

    with rc_context(cast(Any, _STYLE)):
        yield


def panels(
    rows: int, columns: int, width: float = 6.8, height: float = 2.0, share_x: bool = True
) -> tuple[Figure, Any]:
    """Lay out panels that share their axes: the figure, and an array of axes (rows, columns)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows + 0.5))
    return figure, figure.subplots(rows, columns, sharex=share_x, sharey="row", squeeze=False)


def label_edges(axes: Any, x: str, y: str) -> None:
    """Name what panels share, once: below the lowest ones, and beside the first ones."""
    for ax in axes[-1]:
        ax.set_xlabel(x)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)


def from_zero(axes: Any) -> None:
    """Let values begin at zero: once all is drawn, for what panels share is then fixed."""
    for ax in axes.flat:
        ax.set_ylim(bottom=0)


def legend_below(figure: Figure, axes: Axes, columns: int = 7) -> None:
    """Put one legend for all panels below them."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def band(ax: Axes, mean: pd.Series[Any], spread: pd.Series[Any], k: int, label: str) -> None:
    """Draw the mean of shares, and one standard deviation around it."""
    ax.plot(mean.index, mean, color=COLOURS[k], marker=MARKERS[k], label=f"{label}, mean and sd")
    ends = (mean - spread).clip(lower=0), (mean + spread).clip(upper=1)
    ax.fill_between(mean.index, *ends, color=COLOURS[k], alpha=0.2, lw=0)
