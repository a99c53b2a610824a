"""What a file says of each training row by its number: its leaf in each tree, and its target.

Also, out-of-bag predictions: what the trees that did not draw a row say of it. scikit-learn stores
them for each training row, in order (``oob_decision_function_``, ``oob_prediction_``). With known
draws they are sums over known trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.release.bounds import MOST_COUNTS, at_most
from treeleak.release.tree import LEAF, Tree

NOT_TOLD = LEAF
"""In place of the leaf of a row that a file does not tell."""


@dataclass(frozen=True, eq=False)
class RowFacts:
    """Facts about numbered rows.

    Raises
    ------
    BadModel
        On arrays that do not belong together, on too many rows, or on nodes that are no leaves.
    """

    leaves: NDArray[np.int32]
    """Shape (n_trees, n_rows). The node of each row's leaf, or :data:`NOT_TOLD`."""
    targets: FloatArray
    """Shape (n_rows,). NaN where nothing is told; the likeliest where several are possible."""
    low: FloatArray
    high: FloatArray
    """Shape (n_rows,). Between which ends each target lies. Of a row that left before its event was
    seen, the target is when it left, and the high end is infinite."""
    sure: FloatArray
    """Shape (n_rows,). 1 where only one target is possible, else 0."""
    in_order: bool = True
    """Whether row k is row k of the training set: else the numbers are made up."""
    notes: tuple[str, ...] = ()
    """Those of the release that say what the file tells, and hold no longer than these facts."""

    @classmethod
    def of(cls, leaves: NDArray[np.int32], targets: FloatArray) -> RowFacts:
        """Take targets that are known exactly, or not at all."""
        return cls(leaves, targets, targets, targets, (~np.isnan(targets)).astype(float))

    def __post_init__(self) -> None:
        at_most(MOST_COUNTS, self.leaves.size, "leaves of rows")
        for each in (self.targets, self.low, self.high, self.sure):
            if each.shape != self.leaves.shape[1:]:
                raise BadModel(f"targets of {len(each)} rows, and leaves of {self.n_rows}")

    @property
    def told(self) -> BoolArray:
        """Shape (n_rows,). Rows of whose target something is told."""
        return ~np.isnan(self.targets)

    @property
    def exact(self) -> BoolArray:
        """Shape (n_rows,). Rows whose target is told exactly; of survival, that of an event."""
        return np.asarray((self.sure > 0) & (self.high == self.targets))

    @property
    def censored(self) -> BoolArray:
        """Shape (n_rows,). Rows that are known to have left before their event was seen."""
        return self.told & np.isinf(self.high)

    @property
    def n_rows(self) -> int:
        """Training rows."""
        return int(self.leaves.shape[1])

    def check(self, trees: Sequence[Tree]) -> None:
        """Refuse leaves that these trees do not have."""
        if len(self.leaves) != len(trees):
            raise BadModel(f"leaves of rows in {len(self.leaves)} trees, not {len(trees)}")
        for t, (tree, leaves) in enumerate(zip(trees, self.leaves, strict=True)):
            told = leaves[leaves != NOT_TOLD]
            inside = (told >= 0) & (told < tree.n_nodes)
            if not inside.all() or not tree.is_leaf[told].all():
                raise BadModel(f"tree {t}: a training row in a node that is no leaf")

    def places(self, trees: Sequence[Tree]) -> NDArray[np.int32]:
        """Number leaves as they follow each other in their tree, shape (n_trees, n_rows)."""
        out = np.full(self.leaves.shape, NOT_TOLD, dtype=np.int32)
        for t, (tree, leaves) in enumerate(zip(trees, self.leaves, strict=True)):
            told = leaves != NOT_TOLD
            out[t, told] = np.searchsorted(tree.leaves, leaves[told])
        return out


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
