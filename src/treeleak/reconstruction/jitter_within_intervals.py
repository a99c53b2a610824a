"""Numbers drawn inside the intervals in which rows of a sample lie."""

from __future__ import annotations

import numpy as np

from treeleak.attacks.samples import Samples
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition import AttributeAtoms
from treeleak.release.release import Release
from treeleak.schema import Ordinal


@dataclass(frozen=True, eq=False)
class _Column:
    """A column whose atoms are intervals."""

    a: int
    """Its attribute."""
    part: AttributeAtoms
    low: FloatArray
    high: FloatArray
    """Shape (n_atoms,). Ends between which each value is equally likely; equal where one value is
    known, NaN where it is missing or nothing says how far values go on."""
    beyond: tuple[tuple[int, FloatArray], ...]
    """Atoms beyond the outermost thresholds, with values that are equally likely, a line for each
    density there."""


@dataclass(frozen=True, eq=False)
class Inside:
    """Draws values of rows of samples: all of an interval alike, or as so many rows reach.

    How dense rows are beyond the outermost thresholds is one draw for all rows of a dataset.
    """

    columns: tuple[_Column, ...]
    release: Release

    @classmethod
    def of(cls, samples: Samples, release: Release) -> Inside:
        """Take the intervals of the atoms of samples, and how many rows are in each."""
        columns = []
        for a, part in enumerate(samples.values.parts):
            if not part.intervals:
                continue
            rows = np.bincount(samples.atoms[:, :, a].ravel(), minlength=len(part)) / len(samples)
            ended = np.isfinite(part.spans).all(axis=1, keepdims=True)
            low, high = np.where(ended, part.spans, np.nan).T
            columns.append(_Column(a, part, low, high, part.beyond(release, rows)))
        return cls(tuple(columns), release)

    def drawn(self, table: FloatArray, atoms: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw values for rows, each inside the interval of its atom.

        Parameters
        ----------
        table : float array, shape (n_rows, n_columns)
            Rows at the points of their atoms.
        atoms : int array, shape (n_rows, n_attributes)
            Counted from 0 in each attribute.
        """
        out = table.copy()
        for column in self.columns:
            atom, at = atoms[:, column.a], column.part.columns[0]
            x = column.low[atom] + rng.random(len(atom)) * (column.high - column.low)[atom]
            for k, values in column.beyond:
                here = np.flatnonzero(atom == k)
                x[here] = rng.choice(values[rng.integers(len(values))], len(here))
            if isinstance(column.part.attribute, Ordinal):
                x = np.round(x)
            # An end belongs to one of two intervals, and rounding may reach it.
            same = column.part.side_of(x, self.release) == column.part.side_of(
                out[:, at], self.release
            )
            out[:, at] = np.where(same & ~np.isnan(x), x, out[:, at])
        return out
