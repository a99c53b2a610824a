"""Every dataset that counts allow, found by trying all."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeleak.release.release import Release
from treeleak.schema import Schema

from .grids import all_points
from .releases import leaves_of


def histograms(
    columns: np.ndarray, target: np.ndarray, n_rows: int, most: int = 4000
) -> list[np.ndarray] | None:
    """All whole m >= 0 with A m = target and sum n_rows; None if there are more than ``most``.

    ``columns`` holds, for each entry of m, the equations in which it stands.
    """
    found: list[np.ndarray] = []
    m = np.zeros(len(columns), dtype=int)
    left = target.copy()

    def choose(j: int, rows: int) -> bool:
        if rows == 0:
            if not left.any():
                found.append(m.copy())
            return len(found) <= most
        if j == len(columns):
            return True
        room = min(rows, int(left[columns[j]].min(initial=rows)))
        for k in range(room, -1, -1):
            m[j] = k
            left[columns[j]] -= k
            going = choose(j + 1, rows - k)
            left[columns[j]] += k
            m[j] = 0
            if not going:
                return False
        return True

    if (target < 0).any():
        return []
    return found if choose(0, n_rows) else None


def released_counts(release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Leaf counts as (n_leaves, n_classes), or (n_leaves, 1), and where each tree's begin."""
    by_class = release.counts_are in ("rows", "draws")
    blocks = []
    for tree in release.trees:
        own = tree.counts if by_class else tree.totals[:, None]
        blocks.append(own[tree.leaves])
    start = np.cumsum([0, *(len(b) for b in blocks)])
    return np.concatenate(blocks).round().astype(int), start


def equations_of(release: Release, X: np.ndarray) -> np.ndarray:
    """Rows of A in which each row of ``X`` stands."""
    start = released_counts(release)[1]
    leaves = leaves_of(release, X)
    return np.stack(
        [
            start[t] + np.searchsorted(tree.leaves, leaves[:, t])
            for t, tree in enumerate(release.trees)
        ],
        axis=1,
    )


def datasets(release: Release, schema: Schema, most: int = 4000) -> list[list[np.ndarray]] | None:
    """Every dataset that meets the counts, as one list per independent system.

    A dataset is a table of rows with the class in a last column. With counts by class, there is
    one system per class; else one system of all. None if a system has more than ``most``.
    """
    points = all_points(schema, release.feature_names)
    columns = equations_of(release, points)
    counts, start = released_counts(release)
    out = []
    if release.counts_are == "rows":
        for c in range(counts.shape[1]):
            found = histograms(columns, counts[:, c], counts[: start[1], c].sum(), most)
            if found is None:
                return None
            labelled = np.column_stack([points, np.full(len(points), c)])
            out.append([np.repeat(labelled, m, axis=0) for m in found])
        return out
    n_classes = max(len(release.classes), 1)
    pairs = [(p, c) for p in range(len(points)) for c in range(n_classes)]
    if release.counts_are == "weights":
        leaves = leaves_of(release, points)
        pairs = [
            (p, c)
            for p, c in pairs
            if all(tree.counts[leaves[p, t], c] > 0 for t, tree in enumerate(release.trees))
        ]
    at = np.array([p for p, _ in pairs], dtype=int)
    label = np.array([c for _, c in pairs], dtype=int)
    found = histograms(columns[at], counts[:, 0], counts[: start[1], 0].sum(), most)
    if found is None:
        return None
    labelled = np.column_stack([points[at], label])
    return [[np.repeat(labelled, m, axis=0) for m in found]]


def ordered_datasets(
    release: Release,
    schema: Schema,
    b: np.ndarray,
    *,
    distinct: bool = True,
    most: int = 4000,
    points: np.ndarray | None = None,
) -> list[np.ndarray] | None:
    """Every table whose rows, drawn ``b[t, k]`` times, meet the counts; None if more than ``most``.

    Rows stand in order, with the class in a last column. ``distinct``: also meet the distinct
    rows of each leaf. ``points``: what a row can be, if not all that the schema allows.
    """
    points = all_points(schema, release.feature_names) if points is None else points
    columns = equations_of(release, points)
    left = released_counts(release)[0]
    spare = [tree.distinct[tree.leaves] for tree in release.trees] if distinct else [left.sum(1)]
    once = np.concatenate(spare)
    pairs = list(itertools.product(range(len(points)), range(left.shape[1])))
    found: list[np.ndarray] = []
    chosen: list[int] = []

    def choose(k: int) -> bool:
        if k == b.shape[1]:
            if not left.any() and not (distinct and once.any()):
                rows = [[*points[pairs[i][0]], pairs[i][1]] for i in chosen]
                found.append(np.array(rows))
            return len(found) <= most
        here = b[:, k] > 0
        for i, (p, c) in enumerate(pairs):
            at = columns[p][here]
            if (left[at, c] < b[here, k]).any() or (distinct and (once[at] < 1).any()):
                continue
            left[at, c] -= b[here, k]
            once[at] -= distinct
            chosen.append(i)
            going = choose(k + 1)
            chosen.pop()
            left[at, c] += b[here, k]
            once[at] += distinct
            if not going:
                return False
        return True

    return found if choose(0) else None


def rows_in(release: Release, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many of these rows lie in each leaf and class: A m, one equation after the other."""
    n_classes = max(len(release.classes), 1)
    equations = equations_of(release, X) * n_classes + np.asarray(y)[:, None]
    size = len(released_counts(release)[0]) * n_classes
    return np.bincount(equations.ravel(), minlength=size).astype(np.int32)


def log_chance(release: Release, X: np.ndarray, y: np.ndarray, distinct: bool) -> float:
    """Log probability of the counts, by going through all draws of every tree from these rows."""
    counts, start = released_counts(release)
    leaves = equations_of(release, X)
    total = 0.0
    for t, tree in enumerate(release.trees):
        own, target = slice(start[t], start[t + 1]), counts[start[t] : start[t + 1]]
        draws = np.array(list(itertools.product(range(len(X)), repeat=int(target.sum()))))
        hits = np.zeros((len(draws), *counts.shape), dtype=int)
        drawn_rows = np.zeros((len(draws), len(counts)), dtype=int)
        for k in range(len(X)):
            times = (draws == k).sum(axis=1)
            hits[:, leaves[k, t], y[k]] += times
            drawn_rows[:, leaves[k, t]] += times > 0
        met = (hits[:, own] == target).all(axis=(1, 2))
        if distinct:
            met &= (drawn_rows[:, own] == tree.distinct[tree.leaves]).all(axis=1)
        total += np.log(met.mean()) if met.any() else -np.inf
    return float(total)


def as_multiset(table: np.ndarray) -> Counter[tuple[str, ...]]:
    """Rows with their number; text, so that missing values are equal."""
    return Counter(tuple(repr(float(v)) for v in row) for row in np.asarray(table, dtype=float))


def stands_in(claimed: np.ndarray, sure: np.ndarray, world: np.ndarray) -> bool:
    """Whether the rows of a world can be ordered so that every sure value is right."""
    same = (claimed[:, None] == world[None]) | (np.isnan(claimed)[:, None] & np.isnan(world)[None])
    wrong = (~same & sure[:, None]).any(axis=2)
    i, j = linear_sum_assignment(wrong)
    return not wrong[i, j].any()
