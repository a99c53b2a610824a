"""Learning rate, lambda and numbers of rows where the sums of hessians were taken out of a file.

With H the sum of second derivatives of a node plus lambda, and w its value (``base_weights``; of a
leaf, what it adds over the learning rate), a node and its children fulfil

    w_l H_l + w_r H_r = w H,    w_l² H_l + w_r² H_r - w² H = gain,    H_l + H_r - H = lambda:

linear in all H, and in lambda; only the learning rate is searched for. Where each row counts the
same, whole numbers must come out that add up, as they do not with a wrong rate or lambda. Two
children of nearly one value stay open: how their rows part follows from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.release.statistics import GAIN, ROWS, STEP, VALUE, NodeStatistic, Quantity
from treeleak.release.tree import Tree

MOST_SOLVED = 1000
"""In one tree: a dense system is solved for each."""
MOST_WORK = 5e9
"""Cubes of the numbers of nodes, in all trees: a few seconds."""
FEWEST_NODES = 5
"""With fewer, lambda does not follow from the equations."""
SEARCHED = 3
"""Trees by which the learning rate is found."""
MOST_SEARCHED = 100
"""Nodes of each, at most, whose equations that takes: they are solved hundreds of times."""
RATES = np.geomspace(0.001, 1.2, 120)
_FINER, _STEPS = 8, 41
_DIGITS, _FITS = 4, 1e-5
"""Digits of parameters that are found, and the share by which they may miss their equations."""
_NEAR = 0.1
"""How far a number of rows may be from a whole one."""
ROUNDING = 1e-6
"""How far an equation may be missed, as a share of all rows, by numbers in single precision."""
TINY = 1e-30
SINGULAR, RESOLVED = 1e-12, 1e-6


@dataclass(frozen=True, eq=False)
class _Equations:
    """What the nodes of a tree with a test fulfil, but for the values of leaves."""

    tree: Tree
    inner: IntArray
    """Nodes with a test."""
    unit: float = 1.0
    """What each row counts: sums are in these."""

    def part(self) -> _Equations:
        """Give the equations below one node, the nearest to the root of few nodes."""
        tree, top = self.tree, 0
        below = 2 * tree.summed(np.ones(tree.n_nodes)) - 1  # Nodes with a test are one fewer.
        while below[top] > MOST_SEARCHED:
            top = max(int(tree.left[top]), int(tree.right[top]), key=below.__getitem__)
        inside = np.arange(tree.n_nodes) == top
        for v in self.inner.tolist():
            inside[[tree.left[v], tree.right[v]]] |= inside[v]
        return replace(self, inner=self.inner[inside[self.inner]])

    def matrix(self, rate: float) -> tuple[FloatArray, FloatArray]:
        """Write the equations down: for rows plus lambda of all nodes, and lambda as the last."""
        tree, n, inner_nodes = self.tree, self.tree.n_nodes, self.inner
        places = (tree.left[inner_nodes], tree.right[inner_nodes], inner_nodes)
        value = np.where(tree.is_leaf, _of(tree, VALUE) / rate, _of(tree, STEP))
        left = np.zeros((3, len(inner_nodes), n + 1))
        right = np.zeros((3, len(inner_nodes)))
        for power in (1, 2, 0):
            scale = np.ones(len(inner_nodes))
            if power:
                scale = np.maximum(sum(np.abs(value[p]) ** power for p in places), TINY)
            for place, sign in zip(places, (1.0, 1.0, -1.0), strict=True):
                left[power, np.arange(len(inner_nodes)), place] = (
                    sign * value[place] ** power / scale
                )
            if power == 2:
                right[power] = _of(tree, GAIN)[inner_nodes] / self.unit / scale
        left[0, :, n] = -1.0
        return left.reshape(-1, n + 1), right.ravel()

    def solved(self, rate: float) -> tuple[FloatArray, float]:
        """Solve for all that is in them, and say how well the equations are met."""
        A, b = self.matrix(rate)
        A = A[:, A.any(axis=0)]
        found = np.linalg.lstsq(A, b, rcond=None)[0]
        return np.asarray(found), float(np.sqrt(np.mean((A @ found - b) ** 2)))

    def missed(self, rate: float, extra: float) -> float:
        """Say how well the equations are met with a lambda, as a share of their right sides."""
        A, b = self.matrix(rate)
        A, b = A[:, :-1], b - A[:, -1] * extra
        found = np.linalg.lstsq(A, b, rcond=None)[0]
        return float(np.linalg.norm(A @ found - b) / np.linalg.norm(b))

    def rows(self, rate: float, l2: float) -> NodeStatistic | None:
        """Find the numbers of rows for a rate and a lambda; None where some are not whole."""
        A, b = self.matrix(rate)
        extra = l2 / self.unit
        A, b = A[:, :-1], b - A[:, -1] * extra
        inverse = np.linalg.pinv(A, rcond=SINGULAR)
        found = inverse @ b - extra
        rows = np.round(found)
        # What rounding in the file, of each equation, moves a number by.
        off = np.sqrt((inverse**2).sum(axis=1)) * ROUNDING * max(float(found.max()), 1.0)
        # What no equation speaks of is not resolved, though a solution is chosen.
        resolved = np.abs(np.einsum("ij,ji->i", inverse, A) - 1) < RESOLVED
        known = (off < _NEAR) & resolved
        inner = self.inner
        below = (self.tree.left[inner], self.tree.right[inner])
        solvable = known[inner] & known[below[0]] & known[below[1]]
        added = (rows[below[0]] + rows[below[1]])[solvable]
        near = np.abs(found - rows)[known].max(initial=0.0) <= _NEAR
        if not known[0] or not near or not (rows[known] >= 1).all():
            return None
        if not np.array_equal(rows[inner][solvable], added):
            return None
        return NodeStatistic(ROWS, np.where(known, rows, 0.0), None if known.all() else known)


def settings_from_gains(trees: Sequence[Tree]) -> tuple[float, float] | None:
    """Find the learning rate and lambda by what nodes gain and add, without sums of hessians.

    None unless some numbers, of few digits where these do, meet the equations of the first trees.
    """
    large = [t for t in trees if FEWEST_NODES <= t.n_nodes <= MOST_SOLVED and _has_equations(t)]
    if not large:
        return None
    systems = [_Equations(t, np.flatnonzero(~t.is_leaf)) for t in large[:SEARCHED]]
    searched = [system.part() for system in systems]
    rate, width = _best(searched, RATES), RATES[1] / RATES[0]
    for _ in range(_FINER):
        around = rate * np.geomspace(1 / width, width, _STEPS)
        rate, width = _best(searched, around), width**0.1
    rounded = float(f"{rate:.{_DIGITS}g}")
    for tried in (rounded, rate):
        l2 = float(np.median([system.solved(tried)[0][-1] for system in systems]))
        for penalty in (round(l2, _DIGITS), l2):
            if penalty >= 0 and max(s.missed(tried, penalty) for s in systems) < _FITS:
                return tried, abs(penalty)
    return None


def missed_by(tree: Tree, rate: float, l2: float) -> float:
    """Say by which share a tree misses its equations with a learning rate and a lambda."""
    return _Equations(tree, np.flatnonzero(~tree.is_leaf)).missed(rate, l2)


def root_hessian(tree: Tree, rate: float, l2: float) -> float:
    """Give the sum of hessians at a root with two children; NaN where gains and steps do not."""
    if tree.n_nodes < 3 or not _has_equations(tree):
        return np.nan
    step = np.where(tree.is_leaf, _of(tree, VALUE) / rate, _of(tree, STEP))
    s, left, right = step[[0, tree.left[0], tree.right[0]]]
    gain = _of(tree, GAIN)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        both = (gain + l2 * s * np.array([right, left])) / (
            (np.array([left, right]) - s) * np.array([left - right, right - left])
        )
    return float(both.sum() - 2 * l2)


def restored_rows(
    trees: Sequence[Tree], units: Sequence[float], rate: float, l2: float
) -> list[NodeStatistic] | None:
    """Work out how many rows reach each node of some trees.

    Parameters
    ----------
    trees : sequence of Tree
        In which each row counts the same.
    units : sequence of float
        What it counts, for each tree.
    rate, l2 : float
        The learning rate, and lambda.

    Returns
    -------
    list of NodeStatistic, or None
        Of the nodes whose number follows; None unless whole numbers come out, which add up.
    """
    grown = [(tree, unit) for tree, unit in zip(trees, units, strict=True) if tree.n_nodes > 1]
    if not grown or any(t.n_nodes > MOST_SOLVED or not _has_equations(t) for t, _ in grown):
        return None
    if sum(float(t.n_nodes) ** 3 for t, _ in grown) > MOST_WORK:
        return None
    found = [_Equations(t, np.flatnonzero(~t.is_leaf), unit).rows(rate, l2) for t, unit in grown]
    determined = [rows for rows in found if rows is not None]
    if len(determined) < len(found):
        return None
    # Of a tree that is one leaf, nothing is said but how many rows all others saw.
    alone = NodeStatistic(ROWS, np.full(1, max(float(rows.values[0]) for rows in determined)))
    after = iter(determined)
    return [next(after) if tree.n_nodes > 1 else alone for tree in trees]


def _of(tree: Tree, quantity: Quantity) -> FloatArray:
    entry = tree.statistics.get(quantity)
    return np.zeros(tree.n_nodes) if entry is None else entry.values


def _has_equations(tree: Tree) -> bool:
    return all(tree.statistics.get(quantity) is not None for quantity in (GAIN, STEP, VALUE))


def _best(systems: Sequence[_Equations], rates: FloatArray) -> float:
    """Find the rate with which the equations are met best."""
    missed = [sum(system.solved(float(rate))[1] for system in systems) for rate in rates]
    return float(rates[int(np.argmin(missed))])
