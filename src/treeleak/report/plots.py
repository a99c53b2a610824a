"""Pictures of an audit, for notebooks and papers.

Each function draws into the axes that it is given, or into a new figure, and returns the axes.
Pictures show what the releasable edition tells, unless asked for the internal one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treeleak.auditing.assessors.counts import rows_in_nodes
from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadInput, NotCovered
from treeleak.core.text import percent, shortened
from treeleak.report import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from treeleak.auditing import Audit, Edition
    from treeleak.reconstruction import Reconstruction

# After Okabe and Ito: told apart without colours, too, by how dark they are and by their marks.
BLUE, ORANGE, PALE, GREY, INK = "#0072B2", "#E69F00", "#D9D9D9", "#767676", "#222222"

MOST_LINES = 30
MOST_LETTERS = 40
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000)
_OURS = "treeleak"
_ROOM = 0.09
"""Share of a bar that a figure inside of it needs."""


def plot_recovered(audit: Audit, ax: Axes | None = None) -> Axes:
    """Draw which shares of the rebuilt rows are proved, probable, and neither.

    Parameters
    ----------
    audit : Audit
    ax : matplotlib.axes.Axes, optional

    Raises
    ------
    NotCovered
        If no rows were rebuilt.
    """
    recovered = _exposure(audit)["recovered"]
    ax = _axes(ax, 1.9)
    left = 0.0
    parts = (
        ("proved", "proved", BLUE, "white", ""),
        ("probable", "probable", ORANGE, INK, "//"),
        ("open", "neither", PALE, INK, ""),
    )
    for key, name, colour, ink, hatch in parts:
        share = recovered[key]
        label = f"{name}: {percent(share)}"
        ax.barh(0, share, left=left, color=colour, hatch=hatch, edgecolor="white", label=label)
        if share >= _ROOM:
            box = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
            ax.text(
                left + share / 2, 0, percent(share), ha="center", va="center", color=ink, bbox=box
            )
        left += share
    ax.set_title(f"How surely {recovered['n_rows']:,} rows were rebuilt", loc="left")
    _legend(ax)
    ax.set_yticks([])
    _shares(ax, "share of the rebuilt rows")
    return ax


def plot_exposure(audit: Audit, ax: Axes | None = None, edition: Edition = "releasable") -> Axes:
    """Draw how often the value of each column was right, beside guesses that know no model.

    Without training rows: how often the attack expects it to be right.

    Parameters
    ----------
    audit : Audit
    ax : matplotlib.axes.Axes, optional
    edition : {"releasable", "internal"}
        The releasable one leaves out columns that tell of few rows.

    Raises
    ------
    NotCovered
        If no rows were rebuilt, or no column can be shown.
    """
    found = _exposure(audit, edition)
    columns = found["columns"]
    measured = [c for c in columns if c["right"] is not None]
    if not measured:
        columns = [c for c in columns if c["expected"] is not None]
    # Those that the model adds most to stand at the top.
    lines = sorted(measured or columns, key=facts.over_others)[-MOST_LINES:]
    if not lines:
        raise NotCovered("no column differs in enough rows for a chart")
    ax = _axes(ax, 1.6 + 0.3 * len(lines))
    at = np.arange(len(lines))
    if measured:
        right, guess, usual = (_floats(lines, key) for key in ("right", "guess", "majority"))
        ax.hlines(at, np.fmax(guess, usual), right, color=BLUE, linewidth=1.5, alpha=0.6)
        ax.scatter(guess, at, 30, marker="D", c="white", edgecolors=GREY, label="random baseline")
        ax.scatter(usual, at, 90, marker="|", c=GREY, linewidths=2, label="most common value")
        label, of = "rebuilt rows", "training"
    else:
        right, label, of = 1.0 - _floats(lines, "expected"), "as the attack expects", "rebuilt"
    ax.scatter(right, at, 60, color=BLUE, label=label, zorder=3, clip_on=False)
    more = len(found["columns"]) - len(lines) + found["columns_left_out"]
    _named(ax, [c["column"] for c in lines])
    ax.set_title("How often each column is right", loc="left")
    _legend(ax)
    hidden = f" ({more} {'columns' if more > 1 else 'column'} not shown)" if more else ""
    _shares(ax, f"share of the {of} rows{hidden}")
    return ax


def plot_groups(audit: Audit, ax: Axes | None = None, edition: Edition = "releasable") -> Axes:
    """Draw the error in each group of training rows beside that of random baselines.

    Parameters
    ----------
    audit : Audit
        With training rows; made with ``groups``, it shows these beside the classes.
    ax : matplotlib.axes.Axes, optional
    edition : {"releasable", "internal"}
        The releasable one shows no group of few rows.

    Raises
    ------
    NotCovered
        If there are no groups that can be shown.
    """
    groups = [g for g in _exposure(audit, edition)["groups"] if g["error"] is not None]
    if not groups:
        raise NotCovered("there is no group to show: give training rows with labels or groups")
    groups = groups[:MOST_LINES][::-1]
    ax = _axes(ax, 1.6 + 0.36 * len(groups))
    at = np.arange(len(groups))
    error, guess = (_floats(groups, key) for key in ("error", "guess"))
    ax.barh(at, error, height=0.6, color=BLUE, label="rebuilt rows")
    ax.scatter(
        guess, at, 36, marker="D", c="white", edgecolors=GREY, label="random baseline", zorder=3
    )
    _named(ax, [f"{facts.group_name(g)}  ({g['rows']:,} rows)" for g in groups])
    ax.set_title("Reconstruction error, by group", loc="left")
    _legend(ax)
    _shares(ax, "share of the values in error", whole=False)
    return ax


def plot_leaf_sizes(audit: Audit, ax: Axes | None = None) -> Axes:
    """Draw how many leaves hold how many rows; those under the threshold stand out.

    Parameters
    ----------
    audit : Audit
    ax : matplotlib.axes.Axes, optional

    Raises
    ------
    NotCovered
        If rows in leaves are not counted, or counted with noise.
    """
    release, counts = audit.release, audit.counts
    if release is None or counts is None:
        why = audit.reason("counts", "these are rules, which have no leaves")
        raise NotCovered(why)
    known = [(rows_in_nodes(tree), tree.leaves) for tree in release.trees]
    sizes = np.concatenate([rows[leaves] for rows, leaves in known if rows is not None])
    sizes = sizes[sizes > 0]
    starts = np.array(sorted({*_SIZES, counts.threshold}))
    starts = starts[starts <= sizes.max(initial=1)]
    held = np.histogram(sizes, [*starts, np.inf])[0]
    small = starts < counts.threshold
    ax = _axes(ax, 3.6)
    at = np.arange(len(held))
    under = f"fewer than {counts.threshold} {counts.unit}"
    for chosen, colour, hatch, label in (
        (small, ORANGE, "//", under),
        (~small, BLUE, "", f"{counts.threshold} {counts.unit} or more"),
    ):
        ax.bar(at[chosen], held[chosen], color=colour, hatch=hatch, edgecolor="white", label=label)
    for x, n in zip(at, held, strict=True):
        ax.annotate(f"{n:,}", (x, n), (0, 2), textcoords="offset points", ha="center", fontsize=9)
    ax.set_xticks(at, [*map(_from_to, starts, starts[1:]), f"{starts[-1]:,}+"])
    ax.set_xlabel(f"{counts.unit} in a leaf")
    ax.set_ylabel("leaves, in all trees")
    ax.set_title("Small leaves", loc="left")
    ax.margins(y=0.12)
    _legend(ax)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_trace(reconstruction: Reconstruction, ax: Axes | None = None) -> Axes:
    """Draw how the best answer became better with time.

    Parameters
    ----------
    reconstruction : Reconstruction
    ax : matplotlib.axes.Axes, optional

    Raises
    ------
    NotCovered
        If the attack noted no steps.
    """
    if not reconstruction.trace:
        raise NotCovered("the attack noted no steps")
    seconds = [0.0, *(i.seconds for i in reconstruction.trace), reconstruction.seconds]
    misfit = [i.misfit for i in reconstruction.trace]
    ax = _axes(ax, 3.6)
    # Before the first answer there is nothing to draw.
    ax.step(seconds[1:], [*misfit, misfit[-1]], where="post", color=BLUE, linewidth=2)
    ax.plot(seconds[1:-1], misfit, "o", color=BLUE, ms=5, clip_on=False)
    ax.set_xlim(0, max(seconds[-1], seconds[-2]) or 1.0)
    if max(misfit) > 0:
        ax.set_yscale("symlog", linthresh=1)
        ax.yaxis.set_major_formatter(lambda misfit, _: f"{misfit:,.0f}")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("seconds")
    ax.set_ylabel(reconstruction.misfit_means.lower())
    ax.set_title(f"The search: {reconstruction.status}", loc="left")
    ax.grid(axis="y", color=PALE)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _exposure(audit: Audit, edition: Edition = "releasable") -> dict[str, Any]:
    found: dict[str, Any] | None = audit.document(edition)["exposure"]
    if found is None:
        raise NotCovered(audit.reason("reconstruction", "no rows were rebuilt"))
    return found


def _axes(ax: Axes | None, height: float) -> Axes:
    if ax is not None:
        return ax
    # Loaded only here: whoever draws nothing need not wait for it.
    try:
        import matplotlib.pyplot as plt
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise BadInput("pictures need matplotlib: pip install 'treeleak[plots]'") from None

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    return plt.subplots(figsize=(7.0, height), layout=layout, label=_OURS)[1]


def _floats(lines: Sequence[dict[str, Any]], key: str) -> FloatArray:
    return np.array([np.nan if line[key] is None else line[key] for line in lines], dtype=float)


def _from_to(first: int, end: int) -> str:
    return f"{first:,}" if end - first == 1 else f"{first:,}–{end - 1:,}"


def _named(ax: Axes, names: Any) -> None:
    # A name is text: what looks like a formula to matplotlib is none.
    texts = [shortened(n, MOST_LETTERS) for n in names]
    ax.set_yticks(np.arange(len(texts)), texts, parse_math=False)
    ax.set_ylim(-0.6, len(texts) - 0.4)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x", color=PALE)
    ax.set_axisbelow(True)


def _legend(ax: Axes) -> None:
    """Put the legend below a figure of our own; in the axes of another, where there is room."""
    if ax.figure.get_label() == _OURS:
        ax.figure.legend(loc="outside lower center", ncols=3, frameon=False)
    else:
        ax.legend(loc="best")


def _shares(ax: Axes, what: str, whole: bool = True) -> None:
    ax.set_xlim(0, 1 if whole else None)
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    ax.set_xlabel(what)
    ax.spines[["top", "right", "left"]].set_visible(False)
