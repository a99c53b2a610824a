"""How far rows are from the counts of trees whose draws are known."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.posterior.draw_kernels import KNOWN, KNOWN_DISTINCT, LikelihoodArrays
from treeleak.attacks.posterior.likelihood import Likelihood, nothing
from treeleak.core.arrays import IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import KnownDraws


@dataclass(frozen=True, eq=False)
class KnownLikelihood(Likelihood):
    """Whether rows meet :class:`KnownDraws`: each draw and distinct row missed has a price.

    Behind the classes of each leaf stands an equation more, of its distinct rows.
    """

    counted: IntArray
    """Shape (n_leaves, n_classes + 1). n_tvc, and last d_tv; 0 where it is not used."""
    draws: NDArray[np.int32]
    """Shape (n_rows, n_trees). b."""
    use_distinct: bool
    n_classes: int

    @classmethod
    def of(cls, evidence: KnownDraws) -> KnownLikelihood:
        """Take the counts of the evidence."""
        drawn, *distinct = evidence.statements()
        last = distinct[0].right if distinct else np.zeros(len(drawn.right), dtype=np.int64)
        draws = np.ascontiguousarray(evidence.draws.T, dtype=np.int32)
        counted = np.column_stack([drawn.right, last])
        return cls(counted, draws, bool(distinct), drawn.right.shape[1])

    @property
    def n_equations(self) -> int:
        """Leaves times classes and one."""
        return self.counted.size

    @property
    def row_draws(self) -> NDArray[np.int32]:
        """How often each tree drew each row."""
        return self.draws

    @cached_property
    def law(self) -> LikelihoodArrays:
        """The same for the kernels."""
        return nothing()._replace(evidence=KNOWN_DISTINCT if self.use_distinct else KNOWN)

    def held(self, leaves: NDArray[np.int32], label: NDArray[Any]) -> NDArray[np.int32]:
        """By how much each equation counts too many draws or distinct rows: A m - n.

        Row k is row k of the training set.
        """
        width = self.n_classes + 1
        first = leaves.astype(np.int64) * width
        drawn = np.bincount((first + label[:, None]).ravel(), self.draws.ravel(), self.counted.size)
        if self.use_distinct:
            seen = (self.draws > 0).ravel()
            drawn += np.bincount((first + self.n_classes).ravel(), seen, self.counted.size)
        return (drawn - self.counted.ravel()).astype(np.int32)

    def missing(self, rows: NDArray[np.int32]) -> int:
        """Sum of |A m - n|."""
        return int(np.abs(rows).sum())

    def log_complete(
        self,
        rows: NDArray[np.int32],
        seen: NDArray[np.int32],  # noqa: ARG002
        missing_row_penalty: float = np.inf,
    ) -> float:
        """Zero where all counts are met; else what the misses cost."""
        missed = self.missing(rows)
        return -missing_row_penalty * missed if missed else 0.0
