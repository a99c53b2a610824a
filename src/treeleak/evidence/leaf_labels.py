"""Leaves that name a class."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray
from treeleak.core.private import dataclass
from treeleak.evidence.leaves import leaf_counts
from treeleak.evidence.protocol import Contradiction
from treeleak.partition import Geometry
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.tree import AllRows

__all__ = ["LeafLabels"]


@dataclass(frozen=True, eq=False)
class LeafLabels:
    """Leaves that name one class each, chosen by how many rows they hold of each.

    Attributes
    ----------
    geometry : Geometry
    n_rows : int
        N.
    noise : LabelNoise
    sampling : {"all", "disjoint"}
        How rows reached the trees.
    """

    geometry: Geometry
    n_rows: int
    noise: LabelNoise
    sampling: str = AllRows.kind
    kind: ClassVar[str] = "class of each leaf"

    @property
    def n_statements(self) -> int:
        """How many leaves there are."""
        return len(self.named)

    @cached_property
    def present(self) -> BoolArray:
        """Which classes each leaf names, shape (n_leaves, n_classes)."""
        return np.asarray(leaf_counts(self.geometry.release.trees) > 0)

    @cached_property
    def named(self) -> NDArray[np.int32]:
        """The class that each leaf names, shape (n_leaves,)."""
        counts = leaf_counts(self.geometry.release.trees)
        return np.asarray(counts.argmax(axis=1), dtype=np.int32)

    def contradiction(self) -> Contradiction | None:
        """Any leaf may name any class, if the noise is large enough."""
        return None
