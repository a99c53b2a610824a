"""The search space of a system: what the rows can be, attribute by attribute.

Two levels. The *atoms* of an attribute are what the evidence can tell apart; the search moves
over them. The *values* of an atom are what the user reads; the evidence says nothing of the
choice between them, and distances between rows are measured on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import clearly_less, first_least, on_grid, rounded
from treeleak.core.memory import require
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms, Geometry
from treeleak.partition.atoms import listable
from treeleak.partition.untested_priors import nodes_per_column, shares_of_ones
from treeleak.release.release import Release
from treeleak.schema import Attribute, Binary, Categorical, Joint, Numeric, OneHot, Ordinal

_BINS = 8
"""Bins of the atoms of an ordered attribute that has more."""
_KEPT = 2**26
"""Most pairs of values whose distances are kept, of all attributes: 0.5 GiB."""
_BLOCK = 2**24
"""Most pairs of values that are compared at once otherwise."""


@dataclass(frozen=True, eq=False)
class ValueIndex:
    """All listed values of all attributes, numbered through; the last attribute is the class."""

    parts: tuple[AttributeAtoms, ...]
    start: IntArray
    """Shape (n_attributes + 2,). Values of attribute a are ``start[a]`` to ``start[a + 1] - 1``."""
    atom_start: IntArray
    """Shape (n_attributes + 2,). The same for atoms."""
    atom_of: IntArray
    """Shape (n_values,). Atom of each value, numbered over all attributes."""
    tests: float = 0.0
    """Nodes that test, per column: see :mod:`~treeleak.partition.untested_priors`."""

    @property
    def n_values(self) -> int:
        """Number of listed values of all attributes."""
        return int(self.start[-1])

    @property
    def n_atoms(self) -> int:
        """Number of atoms of all attributes."""
        return int(self.atom_start[-1])

    @property
    def n_columns(self) -> int:
        """Columns of the model that all attributes have."""
        return sum(len(part.columns) for part in self.parts)

    @cached_property
    def first(self) -> IntArray:
        """First listed value of each atom, over all atoms."""
        return np.searchsorted(self.atom_of, np.arange(self.n_atoms))

    @cached_property
    def listed(self) -> ValueIndex:
        """The same values, each an atom of its own; ``parts`` keep theirs."""
        if self.n_atoms == self.n_values:
            return self
        out = replace(self, atom_start=self.start, atom_of=np.arange(self.n_values))
        # Large, and the same.
        out.__dict__["_distances"] = self._distances
        return out

    def with_tails(self, release: Release, rows: FloatArray) -> ValueIndex:
        """The same, but with points beyond the outermost thresholds where half of the rows are.

        ``rows``: shape (n_atoms,), those in each, over all attributes.
        """
        columns = [slice(*pair) for pair in pairwise(self.atom_start)]
        parts = tuple(
            part.with_tails(release, rows[at]) if part.intervals else part
            for part, at in zip(self.parts, columns, strict=False)
        )
        return replace(self, parts=parts)

    @cached_property
    def atom_sizes(self) -> FloatArray:
        """Points of the schema in each atom."""
        sizes = [atom.size for part in self.parts for atom in part.atoms]
        return np.array(sizes + [1.0] * (self.n_atoms - len(sizes)))

    @cached_property
    def atom_weights(self) -> FloatArray:
        """How likely each atom is before anything is counted, up to a factor per attribute.

        Points in it are equally likely, but intervals are whatever their length: thresholds lie
        between values of the training set, and so most closely where these do.
        """
        out = self.atom_sizes.copy()
        for a, part in enumerate(self.parts):
            if not listable(part.attribute):
                out[self.atom_start[a] : self.atom_start[a + 1]] = 1.0
        return out

    @cached_property
    def bins(self) -> tuple[IntArray, ...]:
        """Per attribute, the bin of each atom: neighbours among many, else each for itself."""
        out = []
        for part, n in zip((*self.parts, None), np.diff(self.atom_start), strict=True):
            bins = np.arange(n)
            if part is not None and isinstance(part.attribute, (Ordinal, Numeric)) and n > _BINS:
                n_ordered = n - part.attribute.missing
                bins = np.minimum(bins * _BINS // n_ordered, _BINS)
            out.append(bins)
        return tuple(out)

    @cached_property
    def _distances(self) -> tuple[FloatArray, ...] | None:
        """Distances of all pairs of values of each attribute; None if they are too many to keep."""
        if int((np.diff(self.start) ** 2).sum()) > _KEPT:
            return None
        return tuple(self._compared(a, slice(None)) for a in range(len(self.start) - 1))

    def _compared(self, a: int, others: slice | IntArray) -> FloatArray:
        """Work out what :meth:`distance` says."""
        if a < len(self.parts):
            return _distance(self.parts[a].attribute, self.table(a), others)
        return 1.0 - np.eye(int(self.start[-1] - self.start[-2]))[:, others]

    def distance(self, a: int, others: slice | IntArray = slice(None)) -> FloatArray:
        """Columns that differ between each value of attribute ``a`` and others: all unless given.

        Shares of the range for numbers. The last attribute is the class.
        """
        return (
            self._compared(a, others) if self._distances is None else self._distances[a][:, others]
        )

    @cached_property
    def single_valued(self) -> BoolArray:
        """Whether an atom is a single value, over all atoms."""
        fixed = [atom.fixed for part in self.parts for atom in part.atoms]
        return np.array(fixed + [True] * (self.n_atoms - len(fixed)))

    @cached_property
    def binaries(self) -> IntArray:
        """The atoms 0 and 1 of each binary column that some tree tests, shape (n, 2)."""
        first = [
            self.atom_start[a]
            for a, part in enumerate(self.parts)
            if isinstance(part.attribute, Binary) and part.atoms[0].fixed
        ]
        return np.array(first, dtype=np.int64)[:, None] + np.arange(2)

    @cached_property
    def known_binaries(self) -> FloatArray:
        """Atoms with 0 and with 1 in each binary column that is known, shape (n, 2, n_atoms)."""
        out: list[FloatArray] = []
        for a, part in enumerate(self.parts):
            if isinstance(part.attribute, Joint):
                columns = slice(self.atom_start[a], self.atom_start[a + 1])
                for i, owner in enumerate(part.attribute.owners):
                    if isinstance(owner, Binary):
                        out.append(np.zeros((2, self.n_atoms)))
                        out[-1][:, columns] = part.representatives[:, i] == [[0.0], [1.0]]
        return np.array(out).reshape(len(out), 2, self.n_atoms)

    def table(self, a: int) -> FloatArray:
        """Listed values of attribute ``a``, shape (n_values, n_columns)."""
        return np.concatenate([atom.values for atom in self.parts[a].atoms])

    def rows(self, chosen: IntArray, n_columns: int) -> FloatArray:
        """Write rows in the model's columns; ``chosen`` holds one value per attribute."""
        out = np.zeros((len(chosen), n_columns))
        for a, part in enumerate(self.parts):
            out[:, part.columns] = self.table(a)[chosen[:, a] - self.start[a]]
        return out

    def places(self, chosen: IntArray) -> IntArray:
        """Atoms of rows of values, from 0 in each attribute; the class last."""
        return np.asarray(self.atom_of[chosen] - self.atom_start[:-1])

    def prior(self, atom_marginal: FloatArray) -> FloatArray:
        """Probability of each value given its atom, from the marginals of the atoms.

        The values of an atom are equally likely, but for binary columns that no tree tests: see
        :func:`~treeleak.partition.untested_priors.shares_of_ones`.
        """
        counts = np.bincount(self.atom_of, minlength=self.n_atoms)
        share, weight = self.shares_of_ones(atom_marginal)
        ones = np.full(len(self.unsplit_binaries), share @ weight)
        return rounded(self.with_ones(1.0 / counts[self.atom_of], ones))

    def shares_of_ones(self, atom_marginal: FloatArray) -> tuple[FloatArray, FloatArray]:
        """List shares of ones in an untested column, and the probability of each."""
        marginal = np.concatenate(
            [atom_marginal[self.binaries], self.known_binaries @ atom_marginal]
        )
        return shares_of_ones(marginal, self.tests)

    def with_ones(self, prior: FloatArray, ones: FloatArray) -> FloatArray:
        """Probability of each value, with other shares of ones in untested columns."""
        out = prior.copy()
        for a, share in zip(self.unsplit_binaries, ones, strict=True):
            pair = slice(self.start[a], self.start[a] + 2)
            out[pair] = prior[pair].sum() * np.array([1.0 - share, share])
        return out

    def guessed(self, prior: FloatArray) -> FloatArray:
        """The same with the likelier value in all rows of an untested column."""
        ones = [
            clearly_less(*prior[self.start[a] : self.start[a] + 2]) for a in self.unsplit_binaries
        ]
        return self.with_ones(prior, np.array(ones, dtype=float))

    @cached_property
    def unsplit_binaries(self) -> tuple[int, ...]:
        """Binary columns that no tree tests."""
        both = enumerate(self.parts)
        return tuple(a for a, p in both if isinstance(p.attribute, Binary) and not p.atoms[0].fixed)

    def draw(self, atoms: IntArray, prior: FloatArray, rng: np.random.Generator) -> IntArray:
        """Choose a value for every atom of ``atoms`` (rows x attributes, numbered through).

        ``prior`` is the probability of each value given its atom, of all rows (one line) or of
        each (as many lines as rows).
        """
        if len(prior) == 1:
            upto = np.concatenate([[0.0], np.cumsum(prior[0])])
            begin = np.searchsorted(self.atom_of, np.arange(self.n_atoms + 1))
            low, high = upto[begin[atoms]], upto[begin[atoms + 1]]
            drawn = np.searchsorted(upto[1:], low + rng.random(atoms.shape) * (high - low), "right")
            return np.asarray(np.clip(drawn, begin[atoms], begin[atoms + 1] - 1))
        out = np.empty_like(atoms)
        for a in range(atoms.shape[1]):
            columns = slice(self.start[a], self.start[a + 1])
            allowed = self.atom_of[columns][None, :] == atoms[:, a, None]
            share = np.cumsum(np.where(allowed, prior[:, columns], 0.0), axis=1)
            u = rng.random(len(atoms)) * share[:, -1]
            out[:, a] = self.start[a] + (share <= u[:, None]).sum(axis=1)
        return out

    def cheapest(self, atoms: IntArray, cost: FloatArray) -> IntArray:
        """Value of least cost of each of ``atoms``; ``cost`` has a line per row, or one for all."""
        out = np.empty_like(atoms)
        for a in range(atoms.shape[1]):
            columns = slice(self.start[a], self.start[a + 1])
            allowed = self.atom_of[columns][None, :] == atoms[:, a, None]
            out[:, a] = self.start[a] + first_least(np.where(allowed, cost[:, columns], np.inf))
        return out

    def apart(self, x: IntArray, y: IntArray) -> tuple[FloatArray, FloatArray]:
        """Columns that differ between rows of atoms, each at its point; and whether classes do.

        Of many atoms, only those in use are compared.
        """
        require("a table of all pairs of rows", (3, len(x), len(y)))
        out = np.zeros((2, len(x), len(y)))
        for a in range(x.shape[1]):
            used, place = np.unique(np.concatenate([x[:, a], y[:, a]]), return_inverse=True)
            pair = place[: len(x), None], place[None, len(x) :]
            if a < len(self.parts):
                part = self.parts[a]
                points = part.representatives[used - self.atom_start[a]]
                out[0] += _distance(part.attribute, points)[pair]
            else:
                out[1] += pair[0] != pair[1]
        return out[0], out[1]

    def expected_cost(self, share: FloatArray) -> FloatArray:
        """Expected distance of each value, given each row's shares; shape (n_rows, n_values).

        On a grid: rows are matched and values chosen by these, and many are equal.
        """
        out = np.zeros_like(share)
        for a, n in enumerate(np.diff(self.start)):
            columns = slice(self.start[a], self.start[a + 1])
            size = n if self._distances is not None else max(_BLOCK // n, 1)
            for begin in range(0, n, size):
                block = slice(begin, begin + size)
                out[:, columns][:, block] = share[:, columns] @ self.distance(a, block)
        return on_grid(out)

    def mean_cost(self, chosen: IntArray, cost: FloatArray) -> float:
        """What the chosen values of rows cost, per row and column, without the class.

        ``cost``: as :meth:`expected_cost` has it.
        """
        far = np.take_along_axis(cost, chosen, axis=1)[:, :-1]
        return float(far.sum() / max(len(chosen) * self.n_columns, 1))


def values_in(geometry: Geometry) -> ValueIndex:
    """List the values of every attribute of a geometry, and the classes."""
    release = geometry.release
    return values_of(geometry.parts, release.n_classes, nodes_per_column(release))


def values_of(parts: Sequence[AttributeAtoms], n_classes: int, tests: float = 0.0) -> ValueIndex:
    """List the values of every attribute, and the classes."""
    start, atom_start = [0], [0]
    atom_of: list[int] = []
    for part in parts:
        for k, atom in enumerate(part.atoms):
            atom_of += [atom_start[-1] + k] * len(atom.values)
        start.append(start[-1] + sum(len(atom.values) for atom in part.atoms))
        atom_start.append(atom_start[-1] + len(part.atoms))
    atom_of += range(atom_start[-1], atom_start[-1] + n_classes)
    start.append(start[-1] + n_classes)
    atom_start.append(atom_start[-1] + n_classes)
    arrays = np.array(start), np.array(atom_start), np.array(atom_of)
    return ValueIndex(tuple(parts), *arrays, tests)


def _distance(
    attribute: Attribute, table: FloatArray, others: slice | IntArray = slice(None)
) -> FloatArray:
    """Compare each value of a table with some of the others."""
    selected = table[others]
    require("a table of all pairs of values of a column", (2, len(table), len(selected)))
    if isinstance(attribute, Joint):
        d = np.zeros((len(table), len(selected)))
        for i, owner in enumerate(attribute.owners):
            d += _distance(owner, table[:, i, None], others)
        return d
    if isinstance(attribute, (Ordinal, Numeric)):
        x, y = table[:, 0], selected[:, 0]
        low, high = attribute.bounds
        if not math.isfinite(high - low):
            low, high = (np.nanmin(x), np.nanmax(x)) if np.isfinite(x).any() else (0.0, 0.0)
        d = np.abs(x[:, None] - y[None, :]) / ((high - low) or 1.0)
        return np.where(np.isnan(x)[:, None] != np.isnan(y)[None, :], 1.0, np.nan_to_num(d))
    if isinstance(attribute, OneHot):
        # A product of matrices: comparing all columns of a large group at once takes gigabytes.
        return table @ (1.0 - selected).T + (1.0 - table) @ selected.T
    if isinstance(attribute, (Binary, Categorical)):
        x = np.nan_to_num(table[:, 0], nan=np.inf)
        return np.not_equal.outer(x, x[others]).astype(float)
    raise TypeError(f"no distance for attributes of kind {attribute.kind!r}")
