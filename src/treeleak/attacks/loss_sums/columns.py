"""Columns: what one row of each kind adds to every statement.

A kind of row is a cell, or a cell with a class. A column has few entries, one per tree and family
of statements; all of them together are never written out: they are weighed by a loop over leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from treeleak.attacks.loss_sums.kernels import add_up, lengths, weigh
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.evidence import LinearConstraints
from treeleak.partition import Geometry

_MANY = 20_000
"""Statements from which on those that say the same are looked for."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of some kinds of rows, in some families of statements.

    Statements are weighed by how much their left sides vary: 1 / :attr:`LinearConstraints.scale`.
    """

    families: tuple[LinearConstraints, ...]
    leaf: NDArray[np.int32]
    """Shape (n_columns, n_trees). Leaves (rows of A)."""
    label: IntArray
    """Shape (n_columns,). Class of each kind of row; any where no statement asks for it."""
    n_leaves: int

    @classmethod
    def of(
        cls,
        geometry: Geometry,
        statements: Sequence[LinearConstraints],
        leaf: NDArray[Any],
        label: IntArray,
    ) -> Columns:
        """Set up columns; statements that say the same of all of them are kept once."""
        n_leaves = int(geometry.leaf_start[-1])
        contiguous = np.ascontiguousarray(leaf, dtype=np.int32)
        families = tuple(
            _each_once(family, contiguous, n_leaves) if len(family.right) > _MANY else family
            for family in statements
        )
        return cls(families, contiguous, label, n_leaves)

    def __len__(self) -> int:
        return len(self.leaf)

    @cached_property
    def begin(self) -> IntArray:
        """Where the statements of each family begin among all of them."""
        return np.cumsum([0, *(len(family.right) for family in self.families)])

    @cached_property
    def weight(self) -> FloatArray:
        """Weight of each statement."""
        return np.concatenate([
            np.ones(len(family.right)) if family.scale is None else 1.0 / family.scale
            for family in self.families
        ])  # fmt: skip

    @cached_property
    def right(self) -> FloatArray:
        """Right sides, weighed."""
        return np.asarray(self.weight * np.concatenate([family.right for family in self.families]))

    @cached_property
    def slack(self) -> FloatArray:
        """By how much both sides may differ, weighed."""
        allowed = [
            np.broadcast_to(getattr(family.law, "tolerance", 0.0), family.right.shape)
            for family in self.families
        ]
        return np.asarray(self.weight * np.concatenate(allowed))

    @cached_property
    def length(self) -> FloatArray:
        """Length of each column."""
        flat, dual = self._by_leaf(self.weight**2)
        return np.maximum(lengths(self.leaf, flat, self._counts, dual), 1e-12)

    @cached_property
    def _counts(self) -> NDArray[np.float32]:
        """What each column counts in families where not every row counts 1."""
        weighted = [family for family in self.families if family.counts is not None]
        out = np.empty((len(weighted), *self.leaf.shape), dtype=np.float32)
        for f, family in enumerate(weighted):
            for begin in range(0, len(self), _CHUNK):
                at = slice(begin, begin + _CHUNK)
                out[f, at] = family.counts(self.leaf[at], self.label[at])  # type: ignore[misc]
        return out

    def _by_leaf(self, of_statements: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Spread numbers of statements over leaves: those where each row counts 1, and others."""
        flat, dual = np.zeros(self.n_leaves), []
        for f, family in enumerate(self.families):
            numbers = of_statements[self.begin[f] : self.begin[f + 1]]
            if family.place is not None:
                numbers = np.append(numbers, 0.0)[family.place]
            if family.counts is None:
                flat += numbers
            else:
                dual.append(numbers)
        return flat, np.array(dual).reshape(len(dual), self.n_leaves)

    def worth(self, residual: FloatArray) -> FloatArray:
        """Weigh every column by a residual of the statements, weighed themselves."""
        flat, dual = self._by_leaf(self.weight * residual)
        return np.asarray(weigh(self.leaf, flat, self._counts, dual))

    def spread(self, multiplier: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give each column exp(start + what multipliers of weighed statements make it worth) rows.

        Returns these numbers, and the left sides that they lead to, weighed.
        """
        x = np.exp(np.minimum(start + self.worth(multiplier), _MOST))
        flat, dual = np.zeros(self.n_leaves), np.zeros((len(self._counts), self.n_leaves))
        add_up(self.leaf, self._counts, x, flat, dual)
        left, counted = [], iter(dual)
        for family in self.families:
            column_sums = flat if family.counts is None else next(counted)
            place = np.arange(self.n_leaves) if family.place is None else family.place
            left.append(np.bincount(place + 1, column_sums, len(family.right) + 1)[1:])
        return x, np.asarray(self.weight * np.concatenate(left))

    def take(self, chosen: IntArray) -> csr_array:
        """Write out some columns, weighed, as rows of a matrix, shape (n_chosen, n_statements)."""
        leaf, label = self.leaf[chosen], self.label[chosen]
        at, values, row = [], [], []
        for f, family in enumerate(self.families):
            place = leaf if family.place is None else family.place[leaf]
            counts = np.ones(leaf.shape) if family.counts is None else family.counts(leaf, label)
            held = place >= 0
            statement = place[held] + self.begin[f]
            at.append(statement)
            values.append(counts[held] * self.weight[statement])
            row.append(np.nonzero(held)[0])
        entries = np.concatenate(values), (np.concatenate(row), np.concatenate(at))
        return csr_array(entries, shape=(len(chosen), len(self.weight)))

    def met(self, chosen: IntArray, m: IntArray) -> bool:
        """Whether so many rows of some kinds meet every statement."""
        return self.missed(chosen, m) == 0

    def missed(self, chosen: IntArray, m: IntArray) -> int:
        """How many statements so many rows of some kinds do not meet."""
        held = self.take(chosen).T @ m.astype(float)
        near = np.abs(held - self.right) <= self.slack + ROUNDED
        return int((~near).sum())  # what is no number is not near


_CHUNK = 20_000
"""Columns whose coefficients are computed at once."""
_MOST = 30.0
"""Greatest exponent of a number of rows: beyond it, a step went much too far."""
ROUNDED = 1e-9
"""What double precision may leave of nothing."""


def _each_once(
    family: LinearConstraints, leaf: NDArray[np.int32], n_leaves: int
) -> LinearConstraints:
    """Leave out statements about the same columns, and about none, as an earlier one."""
    if family.counts is not None:
        return family
    place = np.arange(n_leaves) if family.place is None else family.place
    rng = np.random.default_rng(0x5EED)
    key = np.zeros(len(family.right) + 1, dtype=np.uint64)
    mark = rng.integers(1, 2**64, size=len(leaf), dtype=np.uint64)
    for column in leaf.T:
        np.add.at(key, place[column], mark)
    both = np.column_stack([key[:-1], family.right.astype(np.float64).view(np.uint64)])
    _, first = np.unique(both, axis=0, return_index=True)
    distinct = np.sort(first[(key[first] != 0) | (family.right[first] != 0)])
    number = np.full(len(family.right) + 1, -1)
    number[distinct] = np.arange(len(distinct))
    scale = None if family.scale is None else family.scale[distinct]
    return LinearConstraints(
        family.quantity, family.right[distinct], family.law, place=number[place],
        by_label=family.by_label, scale=scale,
    )  # fmt: skip
