"""Draw the pictures of the documents, from an example small enough to list all its worlds.

    python tools/draw_pictures.py [FOLDER]

Six people of two columns, and three small trees. What the pictures say is computed here: the cells,
every histogram that fits the counts of one, two and three trees, and what all of them share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

AGES = ("18-30", "31-40", "41-60", "61-90")
PRIORS = ("0-1", "2-3", "4+")
PEOPLE = ((0, 0), (0, 0), (1, 2), (2, 2), (3, 1), (3, 1))
"""Of each person, which interval of age and of priors they lie in."""

ILL = (0, 0, 1, 0, 1, 1)
"""The label of each, of the boosted trees."""

Leaf = Callable[[int, int], int]
TREES: tuple[Leaf, ...] = (
    lambda age, priors: 2 if age > 1 else int(priors > 0),
    lambda age, priors: 2 if priors > 1 else int(age > 2),
    lambda age, priors: 0 if age == 0 else 1 if priors == 0 else 2,
)

# Words and lines stand on paper of their own colour, so that they can be read on any page.
PAPER, INK, FAINT, LINE = "#fcfcfa", "#1f2933", "#52606d", "#7b8794"
FILLS = (("#d6e6f7", "#e9f1fa", "#b5d0ec"), ("#f8e6bf", "#fcf3df", "#efd08a"))
FILLS += (("#d3ebd3", "#e8f4e8", "#aed6ae"),)
STRONG, PROVED = ("#2f6096", "#8a6414", "#3d7a3d"), "#9fd0a8"

GRID = [(age, priors) for age in range(len(AGES)) for priors in range(len(PRIORS))]


def cells() -> dict[tuple[int, ...], list[tuple[int, int]]]:
    """Signature to the places that have it."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for place in GRID:
        found.setdefault(tuple(leaf(*place) for leaf in TREES), []).append(place)
    return found


CELLS = cells()
TRUTH = tuple(sum(person in places for person in PEOPLE) for places in CELLS.values())
NAMES = "abcdefghijklmnop"[: len(CELLS)]


def counts(tree: int) -> list[int]:
    return [sum(TREES[tree](*person) == leaf for person in PEOPLE) for leaf in range(3)]


def worlds(n_trees: int) -> list[tuple[int, ...]]:
    """Every histogram over the cells that fits the counts of the first trees."""
    signatures = list(CELLS)

    def fill(done: tuple[int, ...], left: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(signatures):
            if not any(map(any, left)):
                yield done
            return
        leaves = signatures[len(done)][:n_trees]
        for rows in range(min(left[t][leaf] for t, leaf in enumerate(leaves)) + 1):
            after = [
                [n - rows * (i == leaf) for i, n in enumerate(tree)]
                for tree, leaf in zip(left, leaves, strict=True)
            ]
            yield from fill((*done, rows), after)

    return list(fill((), [counts(t) for t in range(n_trees)]))


def paper(width: float, height: float) -> Figure:
    figure = Figure((width, height), facecolor=PAPER)
    figure.subplots_adjust(0, 0, 1, 1)
    return figure


def sheet(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes in inches, one unit an inch."""
    across, up = figure.get_size_inches()
    axes = figure.add_axes((x / across, y / up, width / across, height / up))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return axes


def say(axes: Axes, x: float, y: float, text: str, size: float = 10, **how: Any) -> None:
    how = {"ha": "center", "va": "center", "color": INK, **how}
    axes.text(x, y, text, fontsize=size, **how)


def plane(
    axes: Axes,
    regions: Sequence[Sequence[tuple[int, int]]],
    texts: Sequence[str],
    fills: Sequence[str],
    size: float = 13,
    labels: bool = True,
    **how: Any,
) -> None:
    """Regions of the plane of age and priors, each with a text in its first places' middle."""
    left = 0.55 if labels else 0.02
    low = 0.45 if labels else 0.02
    across = (axes.get_xlim()[1] - left - 0.02) / len(AGES)
    up = (axes.get_ylim()[1] - low - (0.35 if labels else 0.02)) / len(PRIORS)
    of = {place: i for i, region in enumerate(regions) for place in region}
    for (age, priors), region in of.items():
        x, y = left + age * across, low + priors * up
        axes.add_patch(Rectangle((x, y), across, up, color=fills[region], lw=0.6))
        for other, ends in (
            ((age + 1, priors), ((x + across,) * 2, (y, y + up))),
            ((age, priors + 1), ((x, x + across), (y + up,) * 2)),
        ):
            if other in of and of[other] != region:
                axes.plot(*ends, color=LINE, lw=1)
    frame = Rectangle(
        (left, low), across * len(AGES), up * len(PRIORS), fill=False, edgecolor=LINE, lw=1.2
    )
    axes.add_patch(frame)
    for region, text in zip(regions, texts, strict=True):
        # An L-shaped region has no middle: the middle of its longest row lies inside.
        rows = [[p for p in region if p[1] == row] for row in range(len(PRIORS))]
        best = max(map(len, rows))
        full = [row for row in rows if len(row) == best]
        x = left + across * (np.mean([p[0] for p in full[0]]) + 0.5)
        y = low + up * (np.mean([row[0][1] for row in full]) + 0.5)
        say(axes, x, y, text, size, **how)
    if labels:
        for i, name in enumerate(AGES):
            say(axes, left + across * (i + 0.5), low - 0.13, name, 8, color=FAINT)
        for i, name in enumerate(PRIORS):
            say(axes, left - 0.06, low + up * (i + 0.5), name, 8, color=FAINT, ha="right")
        say(axes, left + across * len(AGES) / 2, 0.12, "age", 9, color=FAINT)
        middle = low + up * len(PRIORS) / 2
        say(axes, 0.12, middle, "priors", 9, color=FAINT, rotation=90)


def world(axes: Axes, rows: Sequence[int], fill: str = FILLS[0][2]) -> None:
    """A histogram: how many rows lie in each cell."""
    texts = [str(n) if n else "" for n in rows]
    plane(axes, list(CELLS.values()), texts, [fill if n else PAPER for n in rows], 11, labels=False)


def draw_cells() -> Figure:
    figure = paper(6.1, 5.4)
    corners = [(0.1, 2.75), (3.1, 2.75), (0.1, 0.1), (3.1, 0.1)]
    for tree, (leaf, corner) in enumerate(zip(TREES, corners, strict=False)):
        axes = sheet(figure, *corner, 2.8, 2.5)
        regions = [[place for place in GRID if leaf(*place) == i] for i in range(3)]
        plane(axes, regions, list(map(str, counts(tree))), FILLS[tree], 15, color=STRONG[tree])
        say(axes, 1.7, 2.33, f"tree {tree + 1}: rows in each leaf", color=STRONG[tree])
    axes = sheet(figure, *corners[-1], 2.8, 2.5)
    plane(axes, list(CELLS.values()), list(NAMES), [PAPER] * len(CELLS), 12, style="italic")
    say(axes, 1.7, 2.33, f"all three: {len(CELLS)} cells")
    return figure


def draw_histogram() -> Figure:
    figure = paper(5.7, 4.35)
    axes = sheet(figure, 0, 0, 5.7, 4.35)
    box, left, low = 0.32, 1.35, 0.1
    right = left + box * len(CELLS) + 0.35
    top = low + 9 * box + 0.34
    for i, (name, rows) in enumerate(zip(NAMES, TRUTH, strict=True)):
        x = left + box * (i + 0.5)
        say(axes, x, top, name, 11, style="italic")
        for k in range(rows):
            y = top + 0.2 + 0.26 * k
            axes.add_patch(Rectangle((x - 0.12, y), 0.24, 0.22, color=FILLS[0][2]))
    say(axes, left - 0.12, top + 0.4, "histogram m:\nrows in each cell", 9, ha="right")
    for tree in range(3):
        for leaf in range(3):
            y = low + box * (8 - 3 * tree - leaf) + 0.07 * (2 - tree)
            text = f"tree {tree + 1}, leaf {leaf + 1}"
            say(axes, left - 0.12, y + box / 2, text, 9, ha="right", color=STRONG[tree])
            for i, signature in enumerate(CELLS):
                inside = signature[tree] == leaf
                fill = FILLS[tree][2] if inside else PAPER
                square = Rectangle(
                    (left + box * i, y), box, box, facecolor=fill, edgecolor="#cbd2d9", lw=0.7
                )
                axes.add_patch(square)
                if inside:
                    say(axes, left + box * (i + 0.5), y + box / 2, "1", 9)
            say(axes, right, y + box / 2, f"= {counts(tree)[leaf]}", 11)
    say(axes, right, top, "n", 11, style="italic")
    return figure


def draw_worlds() -> Figure:
    figure = paper(6.6, 4.5)
    for n_trees in (1, 2, 3):
        found = worlds(n_trees)
        y = 4.5 - 1.47 * n_trees
        axes = sheet(figure, 0.2, y, 1.5, 1.35)
        say(axes, 0, 1.0, f"{n_trees} tree{'s' * (n_trees > 1)}", 11, ha="left", color=FAINT)
        say(axes, 0, 0.65, f"{len(found):,} world{'s' * (len(found) > 1)}", 15, ha="left")
        truth = found.index(TRUTH)
        others = [found[i] for i in np.linspace(0, len(found) - 1, 3).astype(int) if i != truth]
        for i, rows in enumerate([TRUTH, *others][:3]):
            axes = sheet(figure, 1.7 + 1.55 * i, y, 1.4, 1.3)
            world(axes, rows, PROVED if i == 0 else FILLS[0][2])
        if len(found) > 3:
            axes = sheet(figure, 6.2, y, 0.4, 1.3)
            say(axes, 0.2, 0.65, "…", 18)
    axes = sheet(figure, 3.2, 4.5 - 1.47 * 3, 3.4, 1.3)
    say(axes, 0.15, 0.65, "green: the people as they were", 11, ha="left")
    return figure


def draw_proof() -> Figure:
    found = np.array(worlds(2))
    least, mean = found.min(0), found.mean(0)
    figure = paper(5.9, 4.6)
    axes = sheet(figure, 0, 4.1, 5.9, 0.5)
    say(axes, 0.2, 0.25, f"worlds of two trees: 4 of {len(found)}", 10, ha="left")
    for i, k in enumerate(np.linspace(0, len(found) - 1, 4).astype(int)):
        world(sheet(figure, 0.2 + 1.42 * i, 2.95, 1.25, 1.15), found[k])
    for x, title, values, form in (
        (0.1, "rows in every world: proved", least, "{:.0f}"),
        (3.0, "rows on average: a guess", mean, "{:.1f}"),
    ):
        axes = sheet(figure, x, 0.1, 2.75, 2.6)
        texts = [form.format(v) if v else "" for v in values]
        shades = [PROVED if n and values is least else FILLS[0][1] if n else PAPER for n in values]
        plane(axes, list(CELLS.values()), texts, shades, 11)
        say(axes, 1.6, 2.42, title, 10)
    return figure


def draw_draws() -> Figure:
    drawn = np.random.default_rng(5).multinomial(6, [1 / 6] * 6, size=5).T
    figure = paper(6.5, 3.75)
    box = 0.44
    for x, title, known in (
        (0.0, "draws known: a seed repeats them", True),
        (3.25, "draws hidden: sums are left", False),
    ):
        axes = sheet(figure, x, 0, 3.25, 3.75)
        say(axes, 1.75, 3.5, title, 10)
        middles = [0.95 + box * (tree + 0.5) for tree in range(5)]
        for tree, middle in enumerate(middles):
            say(axes, middle, 3.2, f"tree {tree + 1}", 8, color=FAINT)
        for row in range(6):
            y = 2.85 - 0.34 * row
            say(axes, 0.88, y, f"row {row + 1}", 9, ha="right", color=FAINT)
            for tree, middle in enumerate(middles):
                n = drawn[row, tree]
                fill = FILLS[0][(1, 0, 2)[min(n, 2)]] if known and n else PAPER
                corner = (middle - box / 2, y - 0.17)
                square = Rectangle(corner, box, 0.34, facecolor=fill, edgecolor="#cbd2d9")
                axes.add_patch(square)
                text, colour = (str(n), INK if n else FAINT) if known else ("?", FAINT)
                say(axes, middle, y, text, 10, color=colour)
        for y, name, sums in (
            (0.68, "drawn", drawn.sum(0)),
            (0.35, "different", (drawn > 0).sum(0)),
        ):
            say(axes, 0.88, y, name, 9, ha="right", color=FAINT)
            for middle, n in zip(middles, sums, strict=True):
                say(axes, middle, y, str(n), 11)
    return figure


def narrowed(row: int, drawn: np.ndarray[Any, Any]) -> tuple[list[set[int]], list[set[int]]]:
    """Leaves of each tree that count enough draws of a row, and what is left where trees meet."""
    counted = [
        {leaf for leaf in range(3) if leaf_draws(t, leaf, drawn[t]) >= drawn[t][row]}
        for t in range(3)
    ]
    left = counted
    while True:
        pairs = [
            {(TREES[s](*place), TREES[t](*place)) for place in GRID}
            for s in range(3)
            for t in range(3)
        ]
        kept = [
            {
                i
                for i in left[s]
                if all(any((i, j) in pairs[3 * s + t] for j in left[t]) for t in range(3))
            }
            for s in range(3)
        ]
        if kept == left:
            return counted, left
        left = kept


def leaf_draws(tree: int, leaf: int, drawn: Sequence[int]) -> int:
    return sum(
        int(b) for b, person in zip(drawn, PEOPLE, strict=True) if TREES[tree](*person) == leaf
    )


def draw_meet() -> Figure:
    row, drawn = 5, np.random.default_rng(2).multinomial(6, [1 / 6] * 6, size=3)
    counted, left = narrowed(row, drawn)
    figure = paper(6.1, 5.6)
    corners = [(0.1, 2.85), (3.1, 2.85), (0.1, 0.1), (3.1, 0.1)]
    for t, corner in enumerate(corners[:3]):
        axes = sheet(figure, *corner, 2.8, 2.6)
        regions = [[place for place in GRID if TREES[t](*place) == leaf] for leaf in range(3)]
        texts, fills = [], []
        for leaf in range(3):
            n = leaf_draws(t, leaf, drawn[t])
            why = "too few" if leaf not in counted[t] else "" if leaf in left[t] else "meets\nnone"
            texts.append(f"{n}\n{why}" if why else str(n))
            fills.append(FILLS[t][2] if leaf in left[t] else PAPER)
        plane(axes, regions, texts, fills, 10, color=STRONG[t])
        times = ("once", "twice")[drawn[t][row] - 1]
        say(axes, 1.7, 2.43, f"tree {t + 1} drew the row {times}", color=STRONG[t])
    axes = sheet(figure, *corners[-1], 2.8, 2.6)
    there = [
        place
        for place in GRID
        if all(tree(*place) in own for tree, own in zip(TREES, left, strict=True))
    ]
    rest = [place for place in GRID if place not in there]
    plane(axes, [there, rest], ["here", ""], [PROVED, PAPER], 10)
    say(axes, 1.7, 2.43, "where the row lies")
    return figure


def boosted() -> list[tuple[list[int], list[float]]]:
    """Of each tree, the rows in its leaves and what these add, for the logistic loss."""
    labels, score, rate = np.array(ILL), np.zeros(len(PEOPLE)), 0.3
    told = []
    for tree in range(len(TREES)):
        leaf = np.array([TREES[tree](*person) for person in PEOPLE])
        p = 1 / (1 + np.exp(-score))
        rows, gradient, hessian = (
            np.bincount(leaf, weights=w, minlength=3) for w in (p * 0 + 1, p - labels, p * (1 - p))
        )
        value = np.divide(-rate * gradient, hessian, where=rows > 0, out=np.zeros(3))
        told.append((rows.astype(int).tolist(), value.tolist()))
        score += value[leaf]
    return told


def draw_boosted() -> Figure:
    figure = paper(6.1, 5.6)
    corners = [(0.1, 2.85), (3.1, 2.85), (0.1, 0.1), (3.1, 0.1)]
    for t, ((rows, values), corner) in enumerate(zip(boosted(), corners, strict=False)):
        axes = sheet(figure, *corner, 2.8, 2.6)
        regions = [[place for place in GRID if TREES[t](*place) == leaf] for leaf in range(3)]
        texts = [
            f"{n} row{'s' * (n != 1)}\n{v:+.2f}" if n else "0 rows"
            for n, v in zip(rows, values, strict=True)
        ]
        plane(axes, regions, texts, FILLS[t], 10, color=STRONG[t])
        say(axes, 1.7, 2.43, f"tree {t + 1}: all {sum(rows)} people", color=STRONG[t])
    axes = sheet(figure, *corners[-1], 2.8, 2.6)
    ((*only,),) = worlds(len(TREES))
    texts = [str(n) if n else "" for n in only]
    plane(axes, list(CELLS.values()), texts, [PROVED if n else PAPER for n in only], 11)
    say(axes, 1.7, 2.43, "the only table that fits")
    return figure


PICTURES = {
    "cells": draw_cells,
    "histogram": draw_histogram,
    "worlds": draw_worlds,
    "proof": draw_proof,
    "draws": draw_draws,
    "meet": draw_meet,
    "boosted": draw_boosted,
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # The same bytes whenever it runs; words stay words, in the reader's own font.
    settings = {"svg.hashsalt": "treeleak", "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context(settings):
        for name, draw in PICTURES.items():
            draw().savefig(folder / f"{name}.svg", facecolor=PAPER, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
