"""Sums of the loss by the leaves that they are about, and how to measure their multipliers.

Sums of one leaf say nearly the same. So multipliers are measured in coordinates in which the sums
of a leaf vary alone and alike: a preconditioner of blocks of one leaf each (Nocedal and Wright,
Numerical Optimization, 2006, section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.parallel import THREADS, run_all
from treeleak.core.private import dataclass
from treeleak.evidence import LinearConstraints

_LEAST_VARIANCE = 1e-2
"""Share of a statement's usual variance that it is taken to have at least."""
_AT_ONCE = 2**10
"""Cells that are looked at together: what they count then stays near the core."""
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class LeafSums:
    """Statements of one kind, by the leaves that they are about."""

    constraints: LinearConstraints
    place: IntArray
    """Shape (n_leaves,). Statement that each leaf has part in; -1 where none."""

    @classmethod
    def of(cls, constraints: LinearConstraints, n_leaves: int) -> LeafSums:
        """Find the leaves."""
        place = np.arange(n_leaves) if constraints.place is None else constraints.place
        return cls(constraints, np.where(place < len(constraints.right), place, -1))

    def counts(self, leaf: NDArray[np.int32], n_classes: int) -> Singles:
        """What rows of all kinds count, shape (n_kinds, n_trees); ``leaf``: of all cells."""
        function, out = self.constraints.counts, list[Singles]()
        for c in range(n_classes):
            if function is not None and (not c or self.constraints.by_label):
                each = np.empty(leaf.shape, dtype=np.float32)
                run_all(partial(_count, function, leaf, c, k, each) for k in range(THREADS))
            elif not c:
                each = np.ones(leaf.shape, dtype=np.float32)
            out.append(each)
        return np.concatenate(out)

    @property
    def alone(self) -> bool:
        """Whether each leaf has a statement of its own."""
        used = self.place[self.place >= 0]
        return len(np.unique(used)) == len(used)

    def at_leaves(self, numbers: FloatArray) -> FloatArray:
        """Numbers of the statements at their leaves; 0 where a leaf has none."""
        return np.where(self.place >= 0, numbers[self.place], 0.0)

    def of_statements(self, numbers: FloatArray) -> FloatArray:
        """Numbers of leaves, added up for each statement."""
        there, n = self.place >= 0, len(self.constraints.right)
        return np.bincount(self.place[there], numbers[there], n).astype(float)


def _count(
    function: Callable[[NDArray[Any], IntArray], FloatArray],
    leaf: NDArray[np.int32],
    label: int,
    thread: int,
    out: Singles,
) -> None:
    for first in range(thread * _AT_ONCE, len(leaf), THREADS * _AT_ONCE):
        some = leaf[first : first + _AT_ONCE]
        out[first : first + _AT_ONCE] = function(some, np.full(len(some), label))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Multipliers x = M y in which all sums vary about alike, and those of a leaf alone."""

    alone: FloatArray
    """Shape (n_statements,). One by the standard deviation of each sum."""
    statement: IntArray
    """Shape (n_leaves, n_kinds). Statements in blocks of one leaf; -1 where there is none."""
    whiten: FloatArray
    """Shape (n_leaves, n_kinds, n_kinds). The inverse of the Cholesky factor of each block."""

    @classmethod
    def of(
        cls, sums: Sequence[LeafSums], scales: Sequence[FloatArray], covariance: FloatArray
    ) -> Coordinates:
        """Measure by the covariance of all sums of each leaf, shape (n_leaves, n_kinds, n_kinds).

        ``scales``: by how much statements of each kind change, about, with other rows.
        """
        first = np.cumsum([0, *(len(s.constraints.right) for s in sums)])[:-1]
        statement = np.full(covariance.shape[:2], -1)
        variance = []
        covariance = covariance.copy()
        for a, (each, scale) in enumerate(zip(sums, scales, strict=True)):
            least = _LEAST_VARIANCE * scale**2
            variance.append(np.maximum(each.of_statements(covariance[:, a, a]), least))
            covariance[:, a, a] += each.at_leaves(least)
            if each.alone:
                statement[:, a] = np.where(each.place >= 0, first[a] + each.place, -1)
            outside = statement[:, a] < 0
            covariance[outside, a, :] = covariance[outside, :, a] = 0.0
            covariance[outside, a, a] = 1.0
        whiten = np.linalg.inv(np.linalg.cholesky(covariance))
        return cls(1.0 / np.sqrt(np.concatenate(variance)), statement, whiten)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Compute x."""
        out, there = y * self.alone, self.statement >= 0
        block = np.where(there, y[self.statement], 0.0)
        out[self.statement[there]] = np.einsum("lba,lb->la", self.whiten, block)[there]
        return out

    def gradient(self, g: FloatArray) -> FloatArray:
        """Compute the gradient in y from that in x."""
        out, there = g * self.alone, self.statement >= 0
        block = np.where(there, g[self.statement], 0.0)
        out[self.statement[there]] = np.einsum("lab,lb->la", self.whiten, block)[there]
        return out

    def from_multipliers(self, x: FloatArray) -> FloatArray:
        """Compute y."""
        out, there = x / self.alone, self.statement >= 0
        block = np.where(there, x[self.statement], 0.0)
        solved = np.linalg.solve(self.whiten.transpose(0, 2, 1), block[:, :, None])[:, :, 0]
        out[self.statement[there]] = solved[there]
        return out
