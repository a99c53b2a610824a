"""Counts with noise of a known law."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.private import dataclass
from treeleak.evidence.protocol import Contradiction
from treeleak.partition import Geometry
from treeleak.release.noise.laws import CountNoise
from treeleak.release.tree import AllRows

__all__ = ["NoisyCounts"]


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts with noise of a known law: n* = A m + Y if every tree saw every row.

    If trees drew rows, A m is what they drew; if each row went to one tree, every tree has its m.

    Attributes
    ----------
    geometry : Geometry
    n_rows : int
        N, or the likeliest number where it is not known.
    noise : CountNoise
    rows_between : tuple of two int
        Where N lies; both are ``n_rows`` where it is known.
    sampling : {"all", "bootstrap", "disjoint"}
        How rows reached the trees.
    n_draws : int or None
        Draws of each tree, for a bootstrap.
    """

    geometry: Geometry
    n_rows: int
    noise: CountNoise
    rows_between: tuple[int, int]
    sampling: str = AllRows.kind
    n_draws: int | None = None
    kind: ClassVar[str] = "noisy counts"

    @property
    def n_statements(self) -> int:
        """How many counts there are."""
        return self.n.size

    @cached_property
    def n(self) -> FloatArray:
        """Noisy rows of each class in each leaf, shape (n_leaves, n_classes)."""
        trees = self.geometry.release.trees
        return np.concatenate([t.counts[t.leaves] for t in trees if t.counts is not None])

    def contradiction(self) -> Contradiction | None:
        """Noise may turn any counts into any others."""
        return None
