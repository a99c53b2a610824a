"""Figures 2 to 7 of Ferry et al. (2024), redrawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D

__all__ = ["draw"]

NAMES = {"adult": "Adult (10 %)", "compas": "COMPAS"}
KINDS = {"trees": ("optimal tree", "CART"), "rule lists": ("optimal list", "greedy list")}
STYLES = (("-", "o"), ("--", "s"))
"""The optimal models, the greedy ones."""
LEFT = "share of the entropy left (Dist$_G$)"


def draw(models: pd.DataFrame, records: Sequence[dict[str, Any]], folder: Path) -> Iterator[Path]:
    """Draw all figures; models as :func:`benchmarks.interpretable.long_table` lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, kind in ((2, "trees"), (3, "rule lists")):
        size = "splits" if kind == "trees" else "rules"
        yield _lines(models, kind, [("size", size), ("train", "training accuracy")], "left", LEFT,
                     folder / f"figure{number}.png")  # fmt: skip
    yield _spread(records, folder / "figure4.png")
    for number, kind in ((5, "trees"), (6, "rule lists")):
        yield _against_limit(models, kind, folder / f"figure{number}.png")
    yield _against_support(models, folder / "figure7.png")


def _colours(values: Sequence[float]) -> dict[float, Any]:
    return dict(
        zip(values, mpl.colormaps["viridis"](np.linspace(0, 0.88, len(values))), strict=True)
    )


def _grid(rows: int) -> tuple[Any, Any]:
    return plt.subplots(rows, 2, figsize=(11, 4.2 * rows), squeeze=False, layout="constrained")


def _finish(figure: Any, handles: Sequence[Any], path: Path) -> Path:
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 8),
                  frameon=False)  # fmt: skip
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _handles(kinds: Sequence[str], colours: dict[float, Any], what: str) -> list[Line2D]:
    out = [
        Line2D([], [], color="0.2", linestyle=line, marker=marker, label=name, markersize=4)
        for name, (line, marker) in zip(kinds, STYLES, strict=True)
    ]
    return out + [
        Line2D([], [], color=colour, linewidth=3, label=f"{what} {value:g}")
        for value, colour in colours.items()
    ]


def _panel(axis: Any, own: pd.DataFrame, methods: Sequence[str], by: str, colours: dict[float, Any],
           x: str, y: str) -> None:  # fmt: skip
    for method, (line, marker) in zip(methods, STYLES, strict=True):
        for value, colour in colours.items():
            runs = own[(own.method == method) & (own[by] == value)]
            over = "support" if by == "limit" else "limit"
            means = runs.groupby(over)[[c for c in {x, y} if c != over]].mean().reset_index()
            axis.plot(means[x], means[y], line, marker=marker, color=colour, markersize=3.5,
                      linewidth=1.3)  # fmt: skip
    axis.grid(alpha=0.25)


def _lines(models: pd.DataFrame, kind: str, xs: Sequence[tuple[str, str]], y: str, label: str,
           path: Path) -> Path:  # fmt: skip
    colours = _colours(sorted(models.support.unique()))
    figure, axes = _grid(len(xs))
    for row, (x, x_label) in zip(axes, xs, strict=True):
        for axis, dataset in zip(row, NAMES, strict=True):
            own = models[models.dataset == dataset]
            _panel(axis, own, KINDS[kind], "support", colours, x, y)
            axis.set(title=f"{NAMES[dataset]}, {kind}", xlabel=x_label, ylabel=label)
    return _finish(figure, _handles(KINDS[kind], colours, "support"), path)


def _spread(records: Sequence[dict[str, Any]], path: Path) -> Path:
    support = min(r["case"]["support"] for r in records)
    figure, axes = _grid(2)
    for row, (kind, methods) in zip(axes, KINDS.items(), strict=True):
        for axis, dataset in zip(row, NAMES, strict=True):
            for method, (line, _) in zip(methods, STYLES, strict=True):
                own = [r for r in records if (r["case"]["dataset"], r["case"]["method"],
                       r["case"]["support"]) == (dataset, method, support)]  # fmt: skip
                share = np.concatenate([r["row_shares"] for r in own])
                rows = np.concatenate([r["row_counts"] for r in own])
                order = np.argsort(share)
                axis.step(np.cumsum(rows[order]) / rows.sum(), share[order], line, label=method,
                          where="pre", color="0.15" if line == "-" else "C1")  # fmt: skip
            axis.grid(alpha=0.25)
            axis.legend(frameon=False)
            axis.set(
                title=f"{NAMES[dataset]}, {kind}, size 10, support {support:g}",
                xlabel="share of the rows",
                ylabel="at most this much of a row is left",
            )
    return _finish(figure, [], path)


def _against_limit(models: pd.DataFrame, kind: str, path: Path) -> Path:
    size = "splits" if kind == "trees" else "rules"
    colours = _colours(sorted(models.support.unique()))
    figure, axes = _grid(2)
    for row, (y, label) in zip(axes, (("size", size), ("left", LEFT)), strict=True):
        for axis, dataset in zip(row, NAMES, strict=True):
            own = models[models.dataset == dataset]
            _panel(axis, own, KINDS[kind], "support", colours, "limit", y)
            what = "greatest depth" if kind == "trees" else "most rules"
            axis.set(title=f"{NAMES[dataset]}, {kind}", xlabel=what, ylabel=label)
    return _finish(figure, _handles(KINDS[kind], colours, "support"), path)


def _against_support(models: pd.DataFrame, path: Path) -> Path:
    limits = (1, 2, 3, 4, 5, 7, 10)
    colours = _colours(limits)
    figure, axes = _grid(2)
    for row, (kind, methods) in zip(axes, KINDS.items(), strict=True):
        for axis, dataset in zip(row, NAMES, strict=True):
            own = models[models.dataset == dataset]
            _panel(axis, own, methods, "limit", colours, "support", "left")
            axis.set(title=f"{NAMES[dataset]}, {kind}", xlabel="least support", ylabel=LEFT)
    return _finish(figure, _handles(("optimal", "greedy"), colours, "size"), path)
