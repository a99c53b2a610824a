"""Out-of-bag predictions: what the trees that did not draw a training row say of it.

scikit-learn stores them for each training row, in order (``oob_decision_function_``,
``oob_prediction_``). With known draws they are sums over known trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.tree import Tree

NOT_USED = static_message(
    "the file holds out-of-bag predictions that contradict its counts, given these draws: they "
    "were not used",
    "out_of_bag_not_used",
)
USED = static_message(
    "the attack also used the out-of-bag predictions in the file: one for each training row",
    "out_of_bag_used",
)


_OFF = 1e-9
"""Rounding, as a share of the largest value, by which a mean may be off."""


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Means over the trees that did not draw each row."""

    mean: FloatArray
    """Shape (n_rows, n_outputs). NaN where every tree drew the row."""
    values: tuple[FloatArray, ...]
    """What each tree predicts at its nodes, shape (n_nodes, n_outputs)."""
    first: int = 0
    """The place of the first of these trees among those of the release."""

    def of_rows(self, rows: IntArray | NDArray[np.bool_]) -> OutOfBag:
        """Keep the means of some rows."""
        return replace(self, mean=self.mean[rows])

    def off(self) -> FloatArray:
        """By how much rounding may move a mean, shape (n_outputs,)."""
        most = np.max([np.abs(v).max(axis=0) for v in self.values], axis=0)
        return np.asarray(_OFF * np.maximum(most, np.finfo(float).tiny))

    def met(self, trees: Sequence[Tree], rows: NDArray[Any], draws: NDArray[Any]) -> BoolArray:
        """Say of which rows, in the type in which the model compares, the means are met.

        ``trees``: those of the release. ``draws``, shape (n_trees, n_rows): how often each drew
        each row.
        """
        added, out = np.zeros_like(self.mean), np.zeros(len(rows))
        for t, values in enumerate(self.values, self.first):
            beside = draws[t] == 0
            added[beside] += values[trees[t].apply(rows[beside])]
            out += beside
        near = np.abs(added / np.maximum(out, 1)[:, None] - self.mean) <= self.off()
        return np.asarray(near.all(axis=1) & (out > 0))

    def after(self, n_trees: int) -> OutOfBag:
        """Put so many trees before these."""
        return replace(self, first=self.first + n_trees)


def out_of_bag(
    mean: Any, values: list[FloatArray], n_rows: int | None, largest: float
) -> OutOfBag | None:
    """Check an array that a file holds; None if it does not fit the model.

    Parameters
    ----------
    mean : object
        What the file holds.
    values : list of array, shape (n_nodes, n_outputs)
        What each tree predicts at its nodes.
    n_rows : int or None
        Training rows, where known.
    largest : float
        No number is as large as that.
    """
    if not isinstance(mean, np.ndarray) or mean.dtype.kind != "f" or mean.ndim not in (1, 2):
        return None
    mean = mean.astype(float).reshape(len(mean), -1)
    fits = all(value.shape[1] == mean.shape[1] for value in values)
    finite = all(np.isfinite(value).all() for value in values)
    if not fits or not finite or n_rows not in (None, len(mean)):
        return None
    told = mean[~np.isnan(mean)]
    return OutOfBag(mean, tuple(values)) if (np.abs(told) < largest).all() else None
