"""A dataset that meets exact counts, or almost."""

from __future__ import annotations

from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass


@dataclass(frozen=True, eq=False)
class World:
    """A dataset proposed by a search."""

    points: IntArray
    """Shape (n_open,). Positions of the open rows in the search space."""
    values: IntArray
    """Shape (n_anchored + n_open, n_attributes + 1). Values of the anchored rows, then of the open
    ones."""
    misfit: int
