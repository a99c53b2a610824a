"""What a file says of each training row by its number: its leaf in each tree, and its target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import BadModel
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
    targets: FloatArray | None = None
    """Shape (n_rows,). NaN where a target is not told."""
    low: FloatArray | None = None
    high: FloatArray | None = None
    """Shape (n_rows,). Between which ends it lies, where it is not known exactly. Of an event that
    was not seen, which is all that is known of a censored row, the high end is infinite."""
    sure: FloatArray | None = None
    """Shape (n_rows,). 1 where only one target is possible, else 0."""
    in_order: bool = True
    """Whether row k is row k of the training set: else the numbers are made up."""

    def __post_init__(self) -> None:
        at_most(MOST_COUNTS, self.leaves.size, "leaves of rows")
        for each in (self.targets, self.low, self.high, self.sure):
            if each is not None and each.shape != self.leaves.shape[1:]:
                raise BadModel(f"targets of {len(each)} rows, and leaves of {self.n_rows}")

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
