"""What leaves add, where a boosted model holds nothing else of its rows: no counts, no sums.

A leaf adds v = -rate G / (H + l2), where G and H are sums over its rows of what the model itself
tells for each cell. So each leaf says G + s H = -s l2, with s = v / rate: a linear statement about
how many rows of each class there are in each cell. How many rows there are in all is not said; with
l2 = 0 nothing but their shares follows, and their number only from their being whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence.linear_constraints import Equal, LinearConstraints
from treeleak.evidence.loss_sums import STEP as ON_STEPS
from treeleak.evidence.loss_sums import Derivative
from treeleak.evidence.predictions import fitted, l2_at_leaves, steps, values_present
from treeleak.evidence.protocol import Contradiction, SamplingAssumptions
from treeleak.evidence.tolerances import TOLERANCES
from treeleak.partition import Geometry
from treeleak.release.statistics import ROWS, STEP


@dataclass(frozen=True, eq=False)
class LeafValueEvidence:
    """Steps that the leaves of a boosted model took, without any number of rows."""

    geometry: Geometry
    held: IntArray | None = None
    """Shape (n_leaves,). Rows in each leaf, as far as they were found."""
    kind: ClassVar[str] = "what leaves add"

    @classmethod
    def fitting(
        cls, assumed: SamplingAssumptions
    ) -> Callable[[Geometry], LeafValueEvidence] | None:
        """Fit boosted models of classes whose trees saw all rows, and count none."""
        release, ensemble = assumed.release, assumed.release.ensemble
        fitting = None if ensemble is None else ensemble.fitting
        if (
            not assumed.exact
            or assumed.sampling != "all"
            or ensemble is None
            or fitting is None
            or fitting.steps > 1
            or not fitting.plain
            or ensemble.learning_rate is None
            or len(release.classes) != max(len(ensemble.base_scores), 2)
            or not (fitting.assumed or all(tree.totals is None for tree in release.trees))
            or not values_present(release)
        ):
            return None
        return cls

    @property
    def n_rows(self) -> int:
        """N; 0 as long as it is not known."""
        return 0 if self.held is None else int(self.held[: self.geometry.leaf_start[1]].sum())

    @property
    def described(self) -> str:
        """What an answer says it was made from."""
        return f"{self.kind} (no numbers of rows)"

    def open_leaves(self) -> BoolArray:
        """Leave all leaves open."""
        shape = int(self.geometry.leaf_start[-1]), len(self.geometry.release.classes)
        return np.ones(shape, dtype=bool)

    def contradiction(self) -> Contradiction | None:
        """Find none: no two leaves speak of the same number."""
        return None

    @property
    def shares_only(self) -> bool:
        """Whether twice as many rows of each kind would do as well."""
        return not self._right.any()

    def statements(self) -> tuple[LinearConstraints, ...]:
        """Give what leaves add; where only shares are told, these as shares of one row."""
        _, fitting = fitted(self.geometry.release)
        precise = fitting.rough * (
            TOLERANCES.in_double if fitting.derivatives == "float64" else 1.0
        )
        known, step = self._place >= 0, self._steps[0]
        held = np.zeros(len(known)) if self.held is None else self.held
        blur = precise * (TOLERANCES.each_row * held + TOLERANCES.beside_sum) * (1.0 + np.abs(step))
        added = LinearConstraints(
            STEP, self._right, Equal(blur[known]), place=self._place,
            counts=Derivative(self.geometry, ON_STEPS, step), by_label=True,
        )  # fmt: skip
        if self.held is not None or not self.shares_only:
            return (added,)
        first = np.where(np.arange(len(known)) < self.geometry.leaf_start[1], 0, -1)
        return LinearConstraints(ROWS, np.ones(1), place=first, by_label=True), added

    @cached_property
    def _steps(self) -> tuple[FloatArray, BoolArray]:
        return steps(self.geometry)

    @cached_property
    def _place(self) -> IntArray:
        """Statement of each leaf; none where it took no step that is known."""
        known = self._steps[1]
        return np.where(known, np.cumsum(known) - 1, -1)

    @cached_property
    def _right(self) -> FloatArray:
        return (-self._steps[0] * l2_at_leaves(self.geometry.release))[self._place >= 0]
