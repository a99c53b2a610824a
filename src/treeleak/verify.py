"""The second, independent path: push rows through the trees and compare the counts.

Nothing here shares code with the partition or the attacks, nor with the library that made the
model: only the release's own trees are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.release.tree import Release

__all__ = ["Check", "Miss", "check_rows"]


@dataclass(frozen=True)
class Miss:
    """A count that the rows do not give.

    Attributes
    ----------
    tree, node : int
    label : object
        Class label, or None for the total.
    released, found : float
    """

    tree: int
    node: int
    label: Any
    released: float
    found: float

    def __str__(self) -> str:
        what = "rows" if self.label is None else f"rows of class {self.label!r}"
        return (
            f"tree {self.tree}, leaf {self.node}: the model counts {self.released:g} {what}, "
            f"these rows give {self.found:g}"
        )


@dataclass(frozen=True)
class Check:
    """How far rows are from the released leaf counts.

    Attributes
    ----------
    misfit : int
        Sum of |released - found| over all leaves and classes.
    misses : int
        Number of counts that differ.
    first : Miss or None
    """

    misfit: float
    misses: int
    first: Miss | None

    @property
    def ok(self) -> bool:
        """Whether every count is met."""
        return self.misses == 0


def check_rows(release: Release, X: NDArray[Any], y: NDArray[np.int64] | None) -> Check:
    """Compare the leaf counts that some rows give with the released ones.

    Parameters
    ----------
    release : Release
        In which every tree saw every row once.
    X : float array, shape (n_rows, n_features)
        In the model's columns.
    y : int array, shape (n_rows,), or None
        Index of each row's class; None compares totals only.

    Returns
    -------
    Check
    """
    n_classes = max(len(release.classes), 1)
    by_class = release.counts_are == "rows" and y is not None
    label = y if y is not None and by_class else np.zeros(len(X), dtype=np.int64)
    # Equal rows take equal paths: push each once, with its number of copies.
    table = np.column_stack([np.asarray(X, dtype=release.float_type), label])
    distinct, copies = np.unique(table, axis=0, return_counts=True)
    rows, label = np.ascontiguousarray(distinct[:, :-1]), distinct[:, -1].astype(np.int64)
    misfit, misses, first = 0.0, 0, None
    for t, tree in enumerate(release.trees):
        released = tree.counts if by_class else tree.totals
        if released is None:
            continue
        width = n_classes if by_class else 1
        at = tree.apply(rows) * width + label
        found = np.bincount(at, copies, minlength=tree.n_nodes * width).reshape(-1, width)
        off = (found - released.reshape(tree.n_nodes, width))[tree.leaves]
        wrong = np.argwhere(np.abs(off) > 0.5)
        misfit += float(np.abs(off).sum())
        misses += len(wrong)
        if first is None and len(wrong):
            v, c = int(tree.leaves[wrong[0][0]]), int(wrong[0][1])
            name = release.classes[c] if by_class else None
            expected = released.reshape(tree.n_nodes, width)[v, c]
            first = Miss(t, v, name, float(expected), float(found[v, c]))
    return Check(misfit, misses, first)
