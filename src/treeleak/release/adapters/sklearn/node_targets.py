"""What a regression tree of scikit-learn stores of the targets of the rows in its nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray
from treeleak.release.adapters.sklearn.nodes import Nodes
from treeleak.release.bounds import MOST_REAL
from treeleak.release.statistics import MEAN, VALUE, VARIANCE, NodeStatistic, Quantity, Statistics
from treeleak.release.stored import StoredObject
from treeleak.release.tree import Tree

SQUARED = ("squared_error", "mse", "friedman_mse")
ABSOLUTE = ("absolute_error", "mae")
_ROUNDED = 1e-14
"""Mean absolute error, as a part of the target, that rounding leaves of zero."""


def with_targets(
    stored: StoredObject, nodes: Nodes, tree: Tree, shift: float = 0.0, *, clipped: bool = False
) -> Tree:
    """Add the mean and the variance of the targets, as far as the criterion tells them.

    Where leaves hold something else, medians or means that were ``clipped``, that is added as it
    is. ``stored``: the tree, with its criterion. ``tree``: the same with counts. ``shift``: what
    was taken off each target before the tree was fitted.
    """
    mean, criterion = nodes.value[:, 0, 0] + shift, stored.get("criterion")
    impurity = nodes.impurity
    if nodes.value.shape[1:] != (1, 1):
        return tree
    held = (VALUE, np.where(tree.is_leaf, mean, 0.0), tree.is_leaf)
    if clipped:
        return _with(tree, held)
    squared = criterion in SQUARED
    # Means of weighted rows say nothing of sums over rows.
    counted = tree.totals is not None and np.array_equal(tree.totals, nodes.weight)
    weighted = nodes.reached.any() and not counted
    if squared and not weighted:
        return _with(tree, (MEAN, mean, None), (VARIANCE, impurity, None))
    if squared or criterion in ABSOLUTE:
        # Medians: of nodes of one row, and of those whose rows are all alike, means as well.
        constant = nodes.reached == 1
        if impurity is not None:
            constant |= impurity <= _ROUNDED * np.abs(mean)
        return _with(tree, (MEAN, mean, constant), (VARIANCE, np.zeros(len(mean)), constant), held)
    if criterion == "poisson" and not weighted:
        return _with(tree, (MEAN, mean, None))
    return _with(tree, held)


def with_statistic(
    tree: Tree, quantity: Quantity, values: FloatArray | None, at: BoolArray | None = None
) -> Tree:
    """Add a statistic, at some nodes only where these are given; nothing where there is none."""
    return _with(tree, (quantity, values, at))


def _with(tree: Tree, *items: tuple[Quantity, FloatArray | None, BoolArray | None]) -> Tree:
    entries = list(tree.statistics)
    for quantity, values, at in items:
        if (
            values is None
            # What boosting adds at its leaves is there already, in its own units.
            or tree.statistics.get(quantity) is not None
            or not (np.abs(values) <= MOST_REAL).all()
            or (at is not None and not at.any())
        ):
            continue
        masked = values if at is None else np.where(at, values, 0.0)
        entries.append(NodeStatistic(quantity, masked, None if at is None or at.all() else at))
    return replace(tree, statistics=Statistics(tuple(entries)))
