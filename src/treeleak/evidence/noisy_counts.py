"""Counts with noise of a known law.

Leaves that name a class, chosen by noise, stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import FloatArray
from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints, Named, Noisy
from treeleak.evidence.protocol import (
    HOW_ROWS_CAME,
    Contradiction,
    SamplingAssumptions,
    leaf_counts,
)
from treeleak.partition import Geometry
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.statistics import DRAWS, LABELS, ROWS


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts with noise of a known law: n* = A m + Y if every tree saw every row.

    If trees drew rows, A m is what they drew; if each row went to one tree, every tree has its m.
    """

    geometry: Geometry
    n_rows: int
    """N, or the likeliest number where it is not known."""
    noise: CountNoise
    rows_between: tuple[int, int]
    """Where N lies; both are ``n_rows`` where it is known."""
    sampling: str = AllRows.kind
    """{"all", "bootstrap", "disjoint"}. How rows reached the trees."""
    n_draws: int | None = None
    """Draws of each tree, for a bootstrap."""
    kind: ClassVar[str] = "noisy counts"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], NoisyCounts] | None:
        """Fit counts with noise."""
        release = assumed.release
        if not isinstance(release.noise, CountNoise):
            return None
        n_rows = assumed.noisy_rows()
        n_draws = None
        if isinstance(release.sampling, Bootstrap):
            n_draws = release.sampling.n_draws or n_rows
        return partial(
            cls,
            n_rows=n_rows,
            noise=release.noise,
            rows_between=assumed.rows_between or (n_rows, n_rows),
            sampling=release.sampling.kind,
            n_draws=n_draws,
        )

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind + HOW_ROWS_CAME.get(self.sampling, "")

    @cached_property
    def n(self) -> FloatArray:
        """Noisy rows of each class in each leaf, shape (n_leaves, n_classes)."""
        trees = self.geometry.release.trees
        return np.concatenate([t.counts[t.leaves] for t in trees if t.counts is not None])

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give the noisy rows (or draws) of each class in each leaf."""
        law = Noisy(self.noise, known_rows=self.sampling == AllRows.kind)
        return (LinearConstraints(ROWS if self.n_draws is None else DRAWS, self.n, law),)

    def contradiction(self) -> Contradiction | None:
        """Noise may turn any counts into any others."""
        return None


@dataclass(frozen=True, eq=False)
class LeafLabels:
    """Leaves that name one class each, chosen by how many rows they hold of each."""

    geometry: Geometry
    n_rows: int
    """N."""
    noise: LabelNoise
    sampling: str = AllRows.kind
    """{"all", "disjoint"}. How rows reached the trees."""
    kind: ClassVar[str] = "class of each leaf"

    @classmethod
    def fitting(cls, assumed: SamplingAssumptions) -> Callable[[Geometry], LeafLabels] | None:
        """Fit leaves that name classes."""
        noise, sampling = assumed.release.noise, assumed.release.sampling
        if not isinstance(noise, LabelNoise):
            return None
        n_rows = assumed.noisy_rows()
        if sampling.kind == Bootstrap.kind and noise.rule not in ("majority", "present"):
            raise NotCovered(
                static_message("leaves that name a class only, of trees that drew their rows")
            )
        return partial(cls, n_rows=n_rows, noise=noise, sampling=sampling.kind)

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return self.kind + HOW_ROWS_CAME.get(self.sampling, "")

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give 1 for each class that a leaf names, and 0 for the others."""
        law = Named(self.noise, known_rows=self.sampling == AllRows.kind)
        named = leaf_counts(self.geometry.release.trees) > 0
        return (LinearConstraints(LABELS, named.astype(np.int64), law),)

    def contradiction(self) -> Contradiction | None:
        """Any leaf may name any class, if the noise is large enough."""
        return None
