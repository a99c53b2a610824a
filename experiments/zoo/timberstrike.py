"""The core of TimberStrike (Di Gennaro and others, 2025) on one XGBoost classifier's file.

Written from the paper. Before the first tree all rows have one prediction, so the sum of hessians
of a leaf is their number, and its value gives the number of each class: these are the rows, with
the intervals of their leaf. Each later tree assigns all rows to leaves whose intervals they can
meet, so that the sums of gradients and hessians in leaves differ least from those in the file (a
mixed-integer program), and narrows their intervals. Values are the middles of what is left. The
program is solved by HiGHS, for a share of the time each; the paper gave a solver minutes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, sparse
from scipy.special import expit

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.release import Release, to_release
from treeleak.release.statistics import HESSIAN, VALUE
from treeleak.release.tree import LEAF, Tree
from treeleak.schema import Categorical, Numeric, Schema

MOST_ROWS, MOST_PAIRS = 20_000, 200_000
_LEAST_SHARE = 0.25
"""Share of the time that is left which the program of one tree may take."""


def timberstrike(path: Path, schema: Schema, limit: float, seed: int) -> pd.DataFrame | None:  # noqa: ARG001
    """Rebuild rows, see :data:`~experiments.zoo.attacks.Attack`.

    Raises
    ------
    NotCovered
        If this is no XGBoost classifier of two classes that says what the attack needs.
    """
    clock = Clock(limit)
    release = to_release(path, trust_pickle=True)
    ensemble = release.ensemble if release.origin.startswith("XGBoost") else None
    if ensemble is None or ensemble.fitting is None or ensemble.fitting.loss != "logistic":
        raise NotCovered("TimberStrike attacks XGBoost classifiers of two classes")
    margin, l2 = ensemble.base_scores[0], ensemble.fitting.l2
    rate = ensemble.learning_rate or 0.3
    ends = np.array([a.bounds for a in schema.attributes for _ in a.columns])
    where = [schema.columns.index(c) for c in release.feature_names]
    low = high = np.empty((0, 0))
    label, score = np.empty(0), np.empty(0)
    for t, tree in enumerate(release.trees):
        leaf, lows, highs = _boxes(tree, ends[where])
        held = _held(tree, leaf)
        G, H = -held[1] / rate * (held[0] + l2), held[0]
        if t == 0:
            first = float(expit(margin))
            n = np.rint(H / (first * (1 - first))).astype(int)
            ones = np.clip(np.rint(n * first - G).astype(int), 0, n)
            if not 0 < n.sum() <= MOST_ROWS:
                raise NotCovered(f"the first tree speaks of {n.sum():,} rows")
            low, high = lows.repeat(n, axis=0), highs.repeat(n, axis=0)
            label = np.concatenate([np.arange(k) < one for k, one in zip(n, ones, strict=True)])
            score = margin + held[1].repeat(n)
            continue
        meet: BoolArray = np.all((low[:, None] < highs) & (lows < high[:, None]), axis=2)
        if clock.stopped or meet.sum() > MOST_PAIRS:
            break
        p = expit(score)
        chosen = _assigned(meet, p - label, p * (1 - p), G, H, _LEAST_SHARE * clock.left)
        if chosen is None:
            break
        known = chosen >= 0
        low[known] = np.maximum(low[known], lows[chosen[known]])
        high[known] = np.minimum(high[known], highs[chosen[known]])
        score[known] += held[1][chosen[known]]
    rows = pd.DataFrame(_values(release, schema, low, high), columns=list(release.feature_names))
    return rows[list(schema.columns)].assign(target=label.astype(int))


def _boxes(tree: Tree, ends: FloatArray) -> tuple[list[int], FloatArray, FloatArray]:
    """Leaves of a tree, and the ends of their intervals, shape (n_leaves, n_columns)."""
    if tree.categories is not None:
        raise NotCovered("TimberStrike knows no tests for categories")
    # Ends lie a little outside: an interval is open.
    low, high = (
        np.tile(ends[:, 0] - 1e-6, (tree.n_nodes, 1)),
        np.tile(ends[:, 1], (tree.n_nodes, 1)),
    )
    for v in np.flatnonzero(tree.left != LEAF):
        for child in (tree.left[v], tree.right[v]):
            low[child], high[child] = low[v], high[v]
        k, cut = tree.feature[v], tree.threshold[v]
        high[tree.left[v], k] = min(high[v, k], cut)
        low[tree.right[v], k] = max(low[v, k], cut)
    leaf = np.flatnonzero(tree.left == LEAF)
    return leaf.tolist(), low[leaf], high[leaf]


def _held(tree: Tree, leaf: list[int]) -> list[FloatArray]:
    out = []
    for quantity in (HESSIAN, VALUE):
        statistic = tree.statistics.get(quantity)
        if statistic is None:
            raise NotCovered(f"the file lacks the {quantity.name} of each leaf")
        out.append(np.asarray(statistic.values, dtype=float)[leaf])
    return out


def _assigned(
    meet: BoolArray, g: FloatArray, h: FloatArray, G: FloatArray, H: FloatArray, limit: float
) -> FloatArray | None:
    """Give each row a leaf that it can lie in (-1 where it meets none); None without an answer."""
    row, leaf = np.nonzero(meet)
    n, (n_rows, n_leaves) = len(row), meet.shape
    pair, off = np.arange(n), np.eye(n_leaves)
    once = sparse.csr_array((np.ones(n), (row, pair)), (n_rows, n + 2 * n_leaves))
    blocks: list[Any] = []
    sums: list[FloatArray] = []
    for k, (each, total) in enumerate(((g, G), (h, H))):
        summed = sparse.csr_array((each[row], (leaf, pair)), (n_leaves, n))
        for sign in (1, -1):  # their difference is at most what is minimised
            slack: list[Any] = [-off, 0 * off] if k == 0 else [0 * off, -off]
            blocks.append(sparse.hstack([sign * summed, *map(sparse.csr_array, slack)]))
            sums.append(sign * total)
    free = meet.any(axis=1).astype(float)
    least = optimize.milp(
        np.r_[np.zeros(n), np.ones(2 * n_leaves)],
        integrality=np.r_[np.ones(n), np.zeros(2 * n_leaves)],
        bounds=optimize.Bounds(0, np.r_[np.ones(n), np.full(2 * n_leaves, np.inf)]),
        constraints=[
            optimize.LinearConstraint(once, free, free),
            optimize.LinearConstraint(sparse.vstack(blocks), -np.inf, np.concatenate(sums)),
        ],
        options={"time_limit": max(limit, 0.1)},
    )
    if least.x is None:
        return None
    chosen = np.full(n_rows, -1)
    taken = least.x[:n] > 0.5
    chosen[row[taken]] = leaf[taken]
    return chosen


def _values(release: Release, schema: Schema, low: FloatArray, high: FloatArray) -> FloatArray:
    """Take the middle of each interval, or the nearest value that its column can have."""
    out = (low + high) / 2
    of = {c: a for a in schema.attributes for c in a.columns}
    for k, name in enumerate(release.feature_names):
        attribute = of[name]
        if isinstance(attribute, Categorical):
            values = np.array(attribute.values)
            out[:, k] = values[np.abs(values - out[:, [k]]).argmin(axis=1)]
        elif not isinstance(attribute, Numeric):
            out[:, k] = np.clip(np.rint(out[:, k]), *attribute.bounds)
    return out
