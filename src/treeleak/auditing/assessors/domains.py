"""Rebuilt values written as an adversary writes them who knows which values a column can take.

A tree places a value between two thresholds. Whoever knows that a column holds 0 and 100, or 1 to 5
in steps of 1, then knows the value; an attack without a schema names any number between them. So
rebuilt rows are measured as such a reader writes them, and figures do not depend on how a table is
coded. Only measuring goes by this: attacks never see the training rows.

A domain counts as known where values repeat: where there are two of them, or at most half as many
as rows. Elsewhere, all values may lie on a grid, as numbers of two decimals do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.reconstruction import Reconstruction
from treeleak.release.release import Release
from treeleak.schema import Attribute, Categorical, Numeric, OneHot, Ordinal, Schema

MOST_DECIMALS = 9
COUNTABLE = 2.0**53
"""From here on floats skip whole numbers."""


@dataclass(frozen=True, eq=False)
class Domain:
    """Values that one column of the training rows takes."""

    values: FloatArray
    """The different ones, ascending."""
    known: bool
    """Whether they are common knowledge."""
    step: tuple[int, int, int] | None
    """Where they are not: a number, a step and the power of ten that both are divided by."""
    cuts: FloatArray
    sets: tuple[IntArray, ...]
    float_type: str
    complete: bool
    """Whether no row misses a value."""

    @classmethod
    def of(cls, column: FloatArray, k: int, release: Release) -> Domain:
        """Look at column number ``k`` of the training rows."""
        values = np.unique(column[np.isfinite(column)])
        known = len(values) <= max(2, len(column) // 2)
        step = None if known else _step(values)
        cuts, sets = release.thresholds[k], release.category_sets[k]
        complete = not np.isnan(column).any()
        return cls(values, known, step, cuts, sets, release.float_type, complete)

    def places(self, x: FloatArray) -> IntArray:
        """Number the places that tests of the column tell apart, by value, shape (n, n_tests)."""
        x = x.astype(self.float_type).astype(float)
        at = np.where(np.isnan(x), len(self.cuts) + 1, np.searchsorted(self.cuts, x))
        return np.column_stack([at, *(np.isin(x, values).astype(np.int64) for values in self.sets)])

    def written(self, x: FloatArray) -> FloatArray:
        """Write each value as the nearest of the domain that has its place, if any has it."""
        found, place = x.copy(), self._numbered(x)
        if self.known and len(self.values):
            for number in np.unique(place[0]):
                rows = np.flatnonzero((place[0] == number) & ~np.isnan(x))
                nearby = self.values[place[1] == number]
                found[rows] = _nearest(x[rows], nearby if len(nearby) else self.values)
        elif self.step is not None:
            start, step, power = self.step
            below = np.floor((x * power - start) / step)
            for steps in (below + 1, below, np.rint((x * power - start) / step)):
                on_grid = (start + steps * step) / power
                same = (self.places(on_grid) == self.places(x)).all(axis=1)
                found = np.where(same, on_grid, found)
        return found

    def isolated(self, x: FloatArray) -> FloatArray:
        """Write each value as the only one of the training rows that has its place, if one has."""
        found, place = x.copy(), self._numbered(x)
        many = np.bincount(place[1], minlength=int(place[0].max(initial=0)) + 1)
        of = np.zeros(len(many))
        of[place[1]] = self.values
        alone = (many[place[0]] == 1) & ~np.isnan(x)
        found[alone] = of[place[0][alone]]
        return found

    @property
    def narrower(self) -> bool:
        """Whether no value of a known domain lies between two thresholds, or beyond all."""
        places = len(np.unique(self.places(self.values)[:, 0]))
        return self.known and places <= len(self.cuts)

    def _numbered(self, x: FloatArray) -> tuple[IntArray, IntArray]:
        """Number the place of each value, and of each of the domain."""
        both = np.vstack([self.places(x), self.places(self.values)])
        group = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        return group[: len(x)], group[len(x) :]


@dataclass(frozen=True, eq=False)
class Domains:
    """The domains of all columns whose values are inferred, or known to intervals."""

    columns: dict[str, Domain]
    inferred: bool
    """Whether the schema of the attack was inferred."""

    @classmethod
    def of(cls, schema: Schema, release: Release, true: pd.DataFrame, inferred: bool) -> Domains:
        """Look at the training rows.

        What a schema says that was given holds of categories. Of numbers it may allow more than
        rows have, and values alone in their place are looked at in any column.
        """
        columns = {}
        for k, name in enumerate(release.feature_names):
            attribute = next((a for a in schema.attributes if a.columns == (name,)), None)
            if attribute is None or isinstance(attribute, OneHot) or name not in true:
                continue
            values = true[name].to_numpy(dtype=float)
            numbers = isinstance(attribute, (Numeric, Ordinal))
            domain = Domain.of(values, k, release)
            if not numbers and not (inferred and not attribute.holds(values[:, None]).all()):
                domain = replace(domain, known=False, step=None)
            columns[name] = domain
        return cls(columns, inferred)

    def written(self, rebuilt: Reconstruction) -> Reconstruction:
        """Write rebuilt rows in the domains, under a schema that says so."""
        if rebuilt.X is None or rebuilt.X.empty or rebuilt.space != "model":
            return rebuilt
        domains = {c: d for c, d in self.columns.items() if c in rebuilt.X}
        moved = {c: d.written(rebuilt.X[c].to_numpy(dtype=float)) for c, d in domains.items()}
        left = (c for c in rebuilt.interval_columns if c not in domains or not domains[c].known)
        return replace(
            rebuilt,
            X=rebuilt.X.assign(**moved) if moved else rebuilt.X,
            schema=self.schema(rebuilt.schema),
            interval_columns=tuple(left),
        )

    def isolated(self, X: pd.DataFrame) -> pd.DataFrame:
        """Write numbers as the only ones of the training rows between their thresholds."""
        domains = {c: d for c, d in self.columns.items() if c in X}
        return X.assign(**{c: d.isolated(X[c].to_numpy(dtype=float)) for c, d in domains.items()})

    def nearest(self, X: pd.DataFrame) -> pd.DataFrame:
        """Write guesses, which know nothing of thresholds, in the domains that are known."""
        domains = {c: d for c, d in self.columns.items() if c in X and d.known and len(d.values)}
        moved = {c: _nearest(X[c].to_numpy(dtype=float), d.values) for c, d in domains.items()}
        return X.assign(**moved) if moved else X

    def schema(self, schema: Schema) -> Schema:
        """Name two values as such, and let columns hold the values that they have."""
        if not self.inferred:
            return schema
        return Schema([*self._attributes(schema.attributes)], schema.rules)

    def _attributes(self, attributes: Sequence[Attribute]) -> Iterator[Attribute]:
        for a in attributes:
            domain = self.columns.get(a.name)
            missing = bool(getattr(a, "missing", False))
            if domain is None or not domain.known or not len(domain.values):
                yield a
            elif len(domain.values) == 2:
                yield Categorical(a.name, tuple(domain.values.tolist()), missing=missing)
            elif a.holds(domain.values[:, None]).all():
                yield a
            else:
                ends = float(domain.values[0]), float(domain.values[-1])
                yield Numeric(a.name, *ends, missing=missing)

    @property
    def narrower(self) -> bool:
        """Whether the attack had to reckon with values that no row can have."""
        return self.inferred and any(d.narrower for d in self.columns.values())

    def misses(self, X: pd.DataFrame) -> bool:
        """Whether rebuilt rows miss values in columns where no training row does."""
        return any(d.complete and c in X and X[c].isna().any() for c, d in self.columns.items())


def _nearest(x: FloatArray, values: FloatArray) -> FloatArray:
    """Take the nearest of ascending values; missing ones stay."""
    above = np.searchsorted(values, x).clip(max=len(values) - 1)
    below = (above - 1).clip(min=0)
    near = np.where(x - values[below] < values[above] - x, values[below], values[above])
    return np.where(np.isnan(x), x, near)


def _step(values: FloatArray) -> tuple[int, int, int] | None:
    """Find the grid of few decimals on which all values lie."""
    for decimals in range(MOST_DECIMALS + 1):
        power = 10**decimals
        scaled = values * power
        if not len(values) or np.abs(scaled).max() >= COUNTABLE:
            return None
        whole = np.rint(scaled)
        if (whole / power == values).all():
            step = int(np.gcd.reduce(np.diff(whole).astype(np.int64)))
            return int(whole[0]), step, power
    return None
