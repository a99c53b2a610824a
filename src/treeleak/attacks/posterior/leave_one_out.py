"""One row is missing and all others are known: the exact posterior over what it is.

What the leaves say, less what the known rows explain, is said by one row. Whether it lies in a leaf
changes only what that leaf says, so the likelihood of a grid point and class is a sum over its
leaves of entries of one table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.decisions import first_least, greatest, on_grid
from treeleak.core.errors import Mismatch, NotCovered
from treeleak.core.message import static_message
from treeleak.core.private import dataclass, shows_no_value
from treeleak.core.text import short
from treeleak.evidence.predictions import at_leaves
from treeleak.partition import Geometry, GridTooLarge
from treeleak.partition.atoms import rules_hold
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.release.noise.goodness_of_fit import noise_misfit
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS
from treeleak.schema import OneHot, Schema
from treeleak.side_information.density import Density

MAX_ENTRIES = 2**26
"""Most (grid point, tree or class) pairs that are held."""
MAX_GAINS = 2**26
"""Most (leaf, class, class) triples that are held."""
_CHUNK = 2**18
_LIKELIEST = 4096
"""Points of which it is asked which of the values that no tree tells apart go with them."""
_FAINT = 1e-9
"""Weight of what the population says of these values at all other points."""


@shows_no_value
class GridLikelihood(NamedTuple):
    """What the leaves tell of the missing row."""

    posterior: FloatArray
    """Shape (n_points, n_classes). Probability of each grid point and class."""
    bits: float
    """Its divergence from the prior."""
    n_possible: int
    """Grid points and classes that are not impossible, however improbable."""


@dataclass(frozen=True, eq=False)
class MissingRow:
    """What one row can be, and what the leaves would say with it."""

    geometry: Geometry
    """Its grid is enumerated whole; where it is small enough, every value of a column with few
    values is told apart."""
    values: ValueIndex
    allowed: BoolArray
    """Shape (n_points,). Which grid points meet the schema's rules."""
    signature: NDArray[np.int32]
    """Shape (n_trees, n_points). Leaves of each grid point, as rows of A."""
    _log_leaf: Callable[[IntArray], FloatArray]

    @classmethod
    def of(cls, release: Release, schema: Schema, *, drawn: bool = False) -> MissingRow:
        """Enumerate the grid.

        ``drawn``: rows were drawn, and how often is known; what that tells is weighed elsewhere.

        Raises NotCovered if the release's counts are none of which one more row is told, the grid
        has too many points, or there are too many leaves and classes.
        """
        log_leaf = _drawn if drawn else _leaf_log_likelihood(release)
        n_gains = sum(len(t.leaves) for t in release.trees) * release.n_classes**2
        if n_gains > MAX_GAINS:
            raise NotCovered(
                f"what a row of each class changes in each leaf has {short(n_gains)} entries; the "
                f"missing row is looked for with at most {MAX_GAINS:,}"
            )
        n_each = max(len(release.trees), release.n_classes)
        geometry = Geometry.of(release, schema, schema.columns)
        if geometry.n_points * n_each > MAX_ENTRIES:
            geometry = Geometry.of(release, schema)
        if (total := geometry.n_points) * n_each > MAX_ENTRIES:
            raise GridTooLarge(
                f"the grid of thresholds has {short(total)} points in {len(release.trees)} trees; "
                f"the missing row is looked for among at most {MAX_ENTRIES // n_each:,}"
            )
        allowed = np.empty(total, dtype=bool)
        signature = np.empty((len(release.trees), total), dtype=np.int32)
        for begin in range(0, total, _CHUNK):
            points = np.arange(begin, min(begin + _CHUNK, total))
            signature[:, points] = geometry.trace(points).T
            allowed[points] = rules_hold(schema.rules, geometry.parts, geometry.atoms(points))
        return cls(geometry, values_in(geometry), allowed, signature, log_leaf)

    def points_of(self, rows: FloatArray) -> IntArray:
        """Grid point of each row, in the model's columns."""
        parts = self.geometry.parts
        atoms = [p.holding(rows[:, p.columns], self.geometry.release).argmax(axis=1) for p in parts]
        return np.asarray(np.stack(atoms, axis=1) @ self.geometry.stride, dtype=np.int64)

    def held_by(self, points: IntArray, label: IntArray) -> IntArray:
        """Rows of each class in each leaf (rows of A)."""
        n_classes, n_leaves = self.geometry.release.n_classes, int(self.geometry.leaf_start[-1])
        at = self.signature[:, points] * n_classes + label
        return np.bincount(at.ravel(), minlength=n_leaves * n_classes).reshape(n_leaves, n_classes)

    def check(self, held: IntArray) -> None:
        """Raise Mismatch if these rows, taken for all, are not those that the model counted."""
        release = self.geometry.release
        if np.isneginf(self._log_leaf(held)).any():
            raise Mismatch(static_message("these rows cannot give the leaves these values"))
        if not isinstance(release.noise, CountNoise):
            return
        off = np.split(counts_of_leaves(release) - held, self.geometry.leaf_start[1:-1])
        if deviation := noise_misfit(release.noise, off):
            how = {"larger": "more than", "smaller": "far less than"}.get(
                deviation.how, "other than"
            )
            raise Mismatch(
                f"counts differ from those of these rows by {how} the noise explains: "
                f"{deviation.why}. "
                "They are not the training rows, or the noise is not what the release says"
            )

    def log_prior(self, density: Density) -> FloatArray:
        """Log probability of each grid point and class, shape (n_points, n_classes)."""
        points = np.arange(len(self.allowed))
        n_classes = self.geometry.release.n_classes
        out = np.stack([density.log_prior(points, c) for c in range(n_classes)], axis=1)
        out[~self.allowed] = -np.inf
        return np.asarray(out - logsumexp(out))

    def likelihood(self, held: IntArray) -> FloatArray:
        """Log likelihood of each grid point and class, given the known rows of each leaf."""
        gain = self._gain(held)
        likelihood = np.zeros((len(self.allowed), held.shape[1]))
        for leaves in self.signature:
            likelihood += gain.take(leaves, axis=0)
        return likelihood

    def posterior(self, log_prior: FloatArray, likelihood: FloatArray) -> GridLikelihood:
        """Weigh each grid point and class.

        Raises Mismatch if no row explains what the leaves say.
        """
        out = log_prior + likelihood
        best = out.max()
        if np.isneginf(best):
            raise Mismatch(
                static_message(
                    "no row explains the difference between the counts and the known rows. "
                    "They must be all training rows but one; if the counts carry noise, the "
                    "release must say its law"
                )
            )
        n_possible = int(np.isfinite(out).sum())
        np.exp(out - best, out=out)
        total = out.sum()
        out /= total
        information = (
            np.where(out > 0, likelihood, 0.0).ravel() @ out.ravel() - best - np.log(total)
        )
        return GridLikelihood(out, max(0.0, float(information / np.log(2))), n_possible)

    def _gain(self, held: IntArray) -> FloatArray:
        """What one row of a class in a leaf adds to the log likelihood, (n_leaves, n_classes)."""
        before = self._log_leaf(held)
        one = np.eye(held.shape[1], dtype=np.int64)
        after = np.stack(
            [self._log_leaf(held + missing_classes) for missing_classes in one], axis=1
        )
        # What leaves cannot say without the row, the row must be in: one of them in a tree.
        lacking = np.isneginf(before)
        gain = after - np.where(lacking, 0.0, before)[:, None]
        for first, last in zip(
            self.geometry.leaf_start[:-1], self.geometry.leaf_start[1:], strict=True
        ):
            missing_classes = lacking[first:last]
            if missing_classes.any():
                gain[first:last][
                    ~missing_classes if missing_classes.sum() == 1 else slice(None)
                ] = -np.inf
        return gain

    def shares(self, density: Density, posterior: FloatArray) -> FloatArray:
        """Probability of each listed value of each attribute, those of the class at the end."""
        shape = (*self.geometry.radix, posterior.shape[1])
        atom_share = np.concatenate(_marginals(posterior.reshape(shape)))
        values = self.values
        if values.n_values == values.n_atoms:
            return atom_share
        flat = posterior.ravel()
        top = greatest(flat, _LIKELIEST)
        point, label = np.divmod(top, posterior.shape[1])
        atoms = np.column_stack([self.geometry.atoms(point), label]) + values.atom_start[:-1]
        within = density.within(atoms)
        row_atoms = np.zeros((len(top), values.n_atoms), dtype=bool)
        np.put_along_axis(row_atoms, atoms, True, axis=1)
        expected = flat[top] @ (within * row_atoms[:, values.atom_of]) + _FAINT * within.mean(
            axis=0
        )
        total = np.bincount(values.atom_of, expected, minlength=values.n_atoms)
        return np.asarray(atom_share[values.atom_of] * expected / total[values.atom_of])

    def answer(self, share: FloatArray) -> IntArray:
        """Listed value of each attribute, and class, of the valid row of least expected error."""
        values = self.values
        cost = values.expected_cost(share[None])[0]
        # Of an atom, the value that costs least; of the grid, the point.
        order = np.lexsort((cost, values.atom_of))
        best = order[np.searchsorted(values.atom_of[order], np.arange(values.n_atoms))]
        start = values.atom_start
        each = [cost[best[start[a] : start[a + 1]]] for a in range(len(self.geometry.parts))]
        total = reduce(lambda x, y: np.add.outer(x, y).ravel(), each)
        point = np.argmin(np.where(self.allowed, total, np.inf))
        atoms = start[:-2] + self.geometry.atoms(np.array([point]))[0]
        return np.append(best[atoms], values.start[-2] + first_least(-share[values.start[-2] :]))

    def value_by_value(self, share: FloatArray) -> FloatArray:
        """The value of least expected error of each column by itself; these may be no valid row."""
        values = self.values
        cost = values.expected_cost(share[None])[0]
        out = np.empty(self.geometry.release.n_features)
        for a, part in enumerate(values.parts):
            columns = slice(values.start[a], values.start[a + 1])
            table = values.table(a)
            one = isinstance(part.attribute, OneHot)
            out[part.columns] = (
                on_grid(share[columns] @ table) > 0.5 if one else table[cost[columns].argmin()]
            )
        return out

    def sureness(self, share: FloatArray, chosen: IntArray) -> FloatArray:
        """Probability of each column's value in a row of chosen values."""
        values = self.values
        out = np.empty(self.geometry.release.n_features)
        for a, part in enumerate(values.parts):
            columns, table = slice(values.start[a], values.start[a + 1]), values.table(a)
            mine = table[chosen[a] - values.start[a]]
            same = (table == mine) | (np.isnan(table) & np.isnan(mine))
            out[part.columns] = share[columns] @ same
        return np.minimum(out, 1.0)


def _marginals(table: FloatArray) -> list[FloatArray]:
    """Sums of a table over all axes but one, for each."""
    if table.ndim == 1:
        return [table]
    half = table.ndim // 2
    first, last = table.shape[:half], table.shape[half:]
    flat = table.reshape(int(np.prod(first)), -1)
    return [
        *_marginals(flat.sum(axis=1).reshape(first)),
        *_marginals(flat.sum(axis=0).reshape(last)),
    ]


def _leaf_log_likelihood(release: Release) -> Callable[[IntArray], FloatArray]:
    """Log probability of what each leaf says, as a function of its rows of each class."""
    if release.not_covered is not None:
        raise NotCovered(release.not_covered)
    if not isinstance(release.sampling, AllRows):
        why = {
            "disjoint": "which tree each known row reached is not known",
            "bootstrap": "how often each tree drew each known row is not known",
        }.get(release.sampling.kind, "it is not known how rows reached the trees")
        raise NotCovered(
            f"treeleak looks for a missing row if every tree saw every row; here {why}"
        )
    noise = release.noise
    labels = isinstance(noise, LabelNoise)
    if release.counts_are == "none" and release.classes and noise is None:
        totals = at_leaves(release, ROWS)
        if not np.isnan(totals).all():
            return lambda held: np.where(
                np.isnan(totals) | (held.sum(axis=1) == totals), 0.0, -np.inf
            )
    if release.counts_are != ("labels" if labels else "rows"):
        raise NotCovered(
            "treeleak looks for a missing row of a classifier, in counts of rows or in leaves that "
            f"name a class; by class, this model holds {release.counts_are!r}"
        )
    counts = counts_of_leaves(release)
    if isinstance(noise, LabelNoise) and noise.rule == "present":
        raise NotCovered(
            static_message("a missing row, where leaves name all classes that they hold")
        )
    if isinstance(noise, LabelNoise):
        law, named = noise, counts.argmax(axis=1)
        return lambda held: law.log_prob(held)[np.arange(len(held)), named]
    if isinstance(noise, CountNoise):
        added = noise
        return lambda held: np.asarray(added.log_prob(counts - held).sum(axis=1))
    return lambda held: np.where((counts == held).all(axis=1), 0.0, -np.inf)


def _drawn(held: IntArray) -> FloatArray:  # noqa: ARG001
    raise AssertionError("of draws, rows in leaves say nothing")


def counts_of_leaves(release: Release) -> FloatArray:
    """What the leaves say, shape (n_leaves, n_classes)."""
    counts = []
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(f"tree {t} counts no classes")
        counts.append(tree.counts[tree.leaves])
    return np.concatenate(counts)
