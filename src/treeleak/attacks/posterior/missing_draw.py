"""One row is missing of a bootstrap whose draws are known: where it stood, and what it can be.

What the leaves count, less the draws of the known rows, are the draws of one row: in each tree that
drew it, all in one leaf and class. Which draws are those of the known rows depends on where the
missing one stood, for it shifts the numbers of all that follow.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.posterior.leave_one_out import MissingRow
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import Mismatch, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass

MAX_WORK = 2**34
"""Most (place, tree, grid point) triples that are looked at."""
_NONE = -1

Draws = NDArray[np.unsignedinteger[Any]]

NO_PLACE = static_message(
    "no row explains the difference between the draws and the known rows, at any place. "
    "They must be all training rows but one, in the order of training"
)
OTHERS = static_message(
    "the leaves count other draws than these rows have. They must be all training rows, in the "
    "order of training"
)


@dataclass(frozen=True, eq=False)
class MissingDraw:
    """What a row of known draws can be."""

    missing: MissingRow
    leaf_counts: IntArray
    """Shape (n_leaves, n_classes). Draws of each class in each leaf."""
    draws: Draws
    """Shape (n_trees, n_rows)."""

    def check(self, points: IntArray, label: IntArray) -> None:
        """Raise Mismatch if these rows, taken for all, are not those that the trees drew."""
        if self._left(self._cells(points, label), np.arange(self.draws.shape[1])).any():
            raise Mismatch(OTHERS)

    def of_row(self, point: int, label: int, place: int) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but the one at a place.

        ``point`` and ``label`` are those of that row: of what it is, the trees that drew it tell.
        """
        cell = self._cells(np.array([point]), np.array([label]))[:, 0]
        return self._log({self._seen(cell, place): 1})

    def of_known(self, points: IntArray, label: IntArray, place: int | None) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but one, in order.

        ``place``: where that one stood; else all places are taken to be equally probable.

        Raises
        ------
        Mismatch
            If no row at such a place explains the draws.
        NotCovered
            If there are too many places and grid points.
        """
        n_trees, n_rows = self.draws.shape
        cells = self._cells(points, label)
        first = 0 if place is None else place
        order = np.arange(n_rows - 1)
        left = self._left(cells, order + (order >= first))
        n_leaves = np.diff(self.missing.geometry.leaf_start)
        tree = np.repeat(np.arange(n_trees), n_leaves * self.leaf_counts.shape[1])
        wrong = np.bincount(tree, left != 0, minlength=n_trees).astype(np.int64)
        drawn = self.draws > 0
        fits: Counter[tuple[int, ...]] = Counter()
        for p in range(first, n_rows if place is None else first + 1):
            # One entry for each tree that drew the row: as sums of draws agree, it is its draws.
            if np.array_equal(wrong, drawn[:, p]):
                found = np.full(n_trees, _NONE)
                at = np.flatnonzero(left)
                found[tree[at]] = at
                if (left[at] == self.draws[tree[at], p]).all():
                    fits[tuple(found.tolist())] += 1
            if p < n_rows - 1 and place is None:
                # The known row behind the gap moves into it.
                cell = cells[:, p]
                wrong -= left[cell] != 0
                left[cell] += self.draws[:, p + 1].astype(np.int64) - self.draws[:, p]
                wrong += left[cell] != 0
        if len(fits) * self.missing.signature.size > MAX_WORK:
            raise NotCovered(f"the missing row could stand at {fits.total():,} places")
        out = self._log(fits)
        if np.isneginf(out).all():
            raise Mismatch(NO_PLACE)
        return out

    def _cells(self, points: IntArray, label: IntArray) -> IntArray:
        """Leaf and class of each row in each tree, shape (n_trees, n_rows)."""
        at = self.missing.signature[:, points].astype(np.int64)
        return np.asarray(at * self.leaf_counts.shape[1] + label)

    def _left(self, cells: IntArray, places: IntArray) -> IntArray:
        """Draws that rows at such places do not explain, by leaf and class."""
        held = np.bincount(
            cells.ravel(), self.draws[:, places].ravel(), minlength=self.leaf_counts.size
        ).astype(np.int64)
        return np.asarray(self.leaf_counts.ravel() - held)

    def _seen(self, cell: IntArray, place: int) -> tuple[int, ...]:
        return tuple(np.where(self.draws[:, place] > 0, cell, _NONE).tolist())

    def _log(self, fits: Counter[tuple[int, ...]] | dict[tuple[int, ...], int]) -> FloatArray:
        """Log of at how many of the places a row of each grid point and class can stand."""
        n_classes = self.leaf_counts.shape[1]
        number = np.zeros((len(self.missing.allowed), n_classes))
        for cells, times in fits.items():
            drew = np.flatnonzero(np.array(cells) != _NONE)
            leaf, label = np.divmod(np.array(cells)[drew], n_classes)
            if len(set(label.tolist())) > 1:
                continue
            inside: BoolArray = (self.missing.signature[drew] == leaf[:, None]).all(axis=0)
            class_slice = slice(None) if not len(label) else label[:1]
            number[np.ix_(inside, np.arange(n_classes)[class_slice])] += times
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(number))
