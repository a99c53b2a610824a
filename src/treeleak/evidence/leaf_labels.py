"""Leaves that name a class."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from treeleak.core.errors import NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import LinearConstraints, Named
from treeleak.evidence.protocol import (
    HOW_ROWS_CAME,
    Contradiction,
    SamplingAssumptions,
    leaf_counts,
)
from treeleak.partition import Geometry
from treeleak.release.noise.laws import LabelNoise
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.statistics import LABELS


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
