"""The informed adversary: all training rows but one are known, each in turn the missing one.

That one row is what differential privacy speaks of. Its posterior is exact: a prior learned from
other rows, times the likelihood of what the leaves say beyond the known ones. Whether it lies in a
leaf changes only what that leaf says, so the likelihood of a grid point and class is a sum over its
leaves of entries of one table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import reduce
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, Labels, Place, Rows
from treeleak.core.clock import Progress
from treeleak.core.declared import plain
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.metrics.individual import Individual, find_outliers
from treeleak.metrics.matching import paired_distances
from treeleak.partition import Geometry, GridTooLarge
from treeleak.partition.atoms import rules_hold
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.reconstruction import versions, written
from treeleak.release import Model, Release, to_release
from treeleak.release.check_schema import check_schema
from treeleak.release.infer_schema import infer_schema
from treeleak.release.noise.goodness_of_fit import noise_misfit
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.sampling import AllRows
from treeleak.schema import Schema
from treeleak.side_information.density import Density
from treeleak.side_information.population import Population
from treeleak.verification.columns import in_model_columns

INFORMED_VERSION: Literal[2] = 2

MAX_ENTRIES, MAX_GAINS = 2**26, 2**26
"""Most (grid point, tree or class) pairs, and (leaf, class, class) triples, that are held."""
_CHUNK = 2**18
_LEFT_OUT = 20
"""The prior of a target is learned from at least this many rows for each that is left out."""


@dataclass(frozen=True, eq=False)
class InformedAudit:
    """How well a model discloses each of some training rows to an adversary who knows all others.

    Attributes
    ----------
    targets : DataFrame
        One line for each, indexed by its position among the training rows:

        - probability: of the true row and class in the posterior: how sure the adversary is;
        - bits: what the model discloses beyond the known rows, the divergence of the posterior
          from the prior;
        - error: share of columns in which the valid row of least expected error is wrong;
        - majority: error of the most common value of each column, which needs no model;
        - outlier: whether an isolation forest calls the row one.
    n_rows : int
        Training rows.
    seed, seconds, notes, versions
    """

    targets: pd.DataFrame
    n_rows: int
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions)

    @property
    def individual(self) -> Individual:
        """Errors of the targets, for all of them, inliers and outliers."""
        return Individual(self.targets["error"].to_numpy(), self.targets["outlier"].to_numpy())

    @property
    def means(self) -> dict[str, float]:
        """Mean of each column of :attr:`targets`."""
        return {str(name): float(self.targets[name].mean()) for name in self.targets}

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the audit; single targets only if asked for (formats/informed.schema.json)."""
        shown = ("n_rows", "means", "seed", "seconds", "notes", "versions")
        described: dict[str, Any] = {name: getattr(self, name) for name in shown}
        described |= {"version": INFORMED_VERSION, "individual": self.individual.to_dict()}
        if include_rows:
            described["targets"] = self.targets.reset_index(names="row").to_dict("records")
        return dict(plain(described))

    def to_json(self, path: Place | None = None, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named."""
        return written(self.to_dict, path, include_rows)


def informed_audit(
    model: Model,
    X: Rows,
    y: Labels,
    schema: Schema | Place | None = None,
    n_targets: int = 100,
    seed: int = 0,
    *,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> InformedAudit:
    """Take training rows in turn as the missing one, and measure how well the model discloses each.

    The prior of a target comes from other rows only. Each fit leaves out one row in twenty, the
    target among these, and serves several targets.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
        Its trees all saw every row. The counts may carry noise of a known law.
    X : DataFrame or array, shape (n_rows, n_columns)
        All training rows, in the model's columns.
    y : sequence
        Their labels.
    schema : Schema or path, optional
        What a row can be. Without one, the limits of the model itself.
    n_targets : int
        Number of rows to take, at random; all if there are no more.
    seed : int
        Same model, rows and seed: same targets and answers.
    trust_pickle : bool
        Also open pickle and joblib files, if ``model`` is a path.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.

    Returns
    -------
    InformedAudit

    Raises
    ------
    BadInput
        If the model, the file, the schema or the rows cannot be used; Mismatch if the rows are not
        those that the model counted.
    NotCovered
        If treeleak does not cover single rows of such a model.
    """
    started = time.perf_counter()
    if n_targets < 1:
        raise BadInput(f"n_targets must be positive, not {n_targets}")
    release, schema = to_release(model, trust_pickle), Schema.from_argument(schema)
    notes: tuple[str, ...] = ("no schema given: taken from the model alone",)
    if schema is None:
        schema = infer_schema(release)
    else:
        notes = tuple(check_schema(schema, release))
    missing = MissingRow.of(release, schema)
    table, label, more = in_model_columns(release, X, y)
    n_rows, rows = len(table), table.to_numpy()
    if n_rows < 2:
        raise BadInput("a missing row needs others to learn from: give two training rows or more")
    if release.n_rows not in (None, n_rows):
        raise Mismatch(f"the model was trained on {release.n_rows} rows, these are {n_rows}")
    valid = schema.valid(rows, release.feature_names)
    if not valid.all():
        raise BadInput(f"the schema does not allow row {valid.argmin()} of the training rows")
    points = missing.points_of(rows)
    missing.check(points, label)
    targets = np.random.default_rng(seed).choice(n_rows, min(n_targets, n_rows), replace=False)
    lines: list[dict[str, float]] = []
    answers = np.empty((len(targets), release.n_features))
    for part in np.array_split(targets, -(-len(targets) // max(1, n_rows // _LEFT_OUT))):
        others = np.setdiff1d(np.arange(n_rows), part)
        density = Population(rows[others], label[others], {}).fitted(missing.geometry, seed)
        prior = missing.log_prior(density)
        for k in part:
            if progress is not None:
                done = len(lines) / len(targets)
                progress(Progress("taking rows in turn as the missing one", done))
            likelihood = missing.likelihood(np.delete(points, k), np.delete(label, k))
            posterior, bits = missing.posterior(prior, likelihood)
            answers[len(lines)] = missing.answer(missing.shares(posterior))
            true = float(posterior[points[k], label[k]])
            lines.append({"probability": true, "bits": bits})
    truth = pd.DataFrame(rows[targets], columns=table.columns)
    usual = np.tile(table.mode().iloc[0].to_numpy(dtype=float), (len(targets), 1))
    found = pd.DataFrame(lines)
    for name, answer in (("error", answers), ("majority", usual)):
        distances = paired_distances(pd.DataFrame(answer, columns=table.columns), truth, schema)
        found[name] = distances.mean(axis=1)
    found["outlier"] = find_outliers(pd.DataFrame(rows), seed)[targets]
    return InformedAudit(
        targets=found.set_axis(targets),
        n_rows=n_rows,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=(*notes, *more),
    )


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
    def of(cls, release: Release, schema: Schema) -> MissingRow:
        """Enumerate the grid.

        Raises NotCovered if the release's counts are none of which one more row is told, the grid
        has too many points, or there are too many leaves and classes.
        """
        log_leaf = _leaf_log_likelihood(release)
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

    def check(self, points: IntArray, label: IntArray) -> None:
        """Raise Mismatch if these rows are not those that the model counted."""
        release, held = self.geometry.release, self.held_by(points, label)
        if np.isneginf(self._log_leaf(held)).any():
            raise Mismatch("these rows cannot give the leaves these values")
        if not isinstance(release.noise, CountNoise):
            return
        off = np.split(counts_of_leaves(release) - held, self.geometry.leaf_start[1:-1])
        if deviation := noise_misfit(release.noise, off):
            raise Mismatch(
                "the noise does not explain how counts differ from those of these rows: "
                f"{deviation.why}. "
                "They are not the training rows, or the noise is not what the release says"
            )

    def log_prior(self, density: Density) -> FloatArray:
        """Log probability of each grid point and class, shape (n_points, n_classes)."""
        points = np.arange(len(self.allowed))
        classes = range(self.geometry.release.n_classes)
        out = np.stack([density.log_prior(points, c) for c in classes], axis=1)
        out[~self.allowed] = -np.inf
        return np.asarray(out - logsumexp(out))

    def likelihood(self, points: IntArray, label: IntArray) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but one."""
        held = self.held_by(points, label)
        gain = self._gain(held)
        likelihood = np.zeros((len(self.allowed), held.shape[1]))
        for leaves in self.signature:
            likelihood += gain.take(leaves, axis=0)
        return likelihood

    def posterior(self, log_prior: FloatArray, likelihood: FloatArray) -> tuple[FloatArray, float]:
        """Weigh each grid point and class; and say how many bits that is from the prior.

        Raises Mismatch if no row explains what the leaves say.
        """
        out = log_prior + likelihood
        best = out.max()
        if np.isneginf(best):
            raise Mismatch(
                "no row explains the difference between the counts and the known rows. If the "
                "counts carry noise, the release must say its law"
            )
        np.exp(out - best, out=out)
        total = out.sum()
        out /= total
        told = np.where(out > 0, likelihood, 0.0).ravel() @ out.ravel() - best - np.log(total)
        return out, max(0.0, float(told / np.log(2)))

    def _gain(self, held: IntArray) -> FloatArray:
        """What one row of a class in a leaf adds to the log likelihood, (n_leaves, n_classes)."""
        before = self._log_leaf(held)
        one = np.eye(held.shape[1], dtype=np.int64)
        after = np.stack([self._log_leaf(held + of_class) for of_class in one], axis=1)
        # What leaves cannot say without the row, the row must be in: one of them in a tree.
        lacking = np.isneginf(before)
        gain = after - np.where(lacking, 0.0, before)[:, None]
        start = self.geometry.leaf_start
        for leaves in map(slice, start[:-1], start[1:]):
            if (of_tree := lacking[leaves]).any():
                gain[leaves][~of_tree if of_tree.sum() == 1 else slice(None)] = -np.inf
        return gain

    def shares(self, posterior: FloatArray) -> FloatArray:
        """Probability of each listed value of each attribute, those of the class at the end."""
        shape = (*self.geometry.radix, posterior.shape[1])
        atom_share = np.concatenate(_marginals(posterior.reshape(shape)))
        return np.asarray(atom_share[self.values.atom_of] * self.values.prior(atom_share))

    def answer(self, share: FloatArray) -> FloatArray:
        """The valid row of least expected error, in the model's columns."""
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
        chosen = np.append(best[atoms], values.start[-2])
        return np.asarray(values.rows(chosen[None], self.geometry.release.n_features)[0])


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
            "bootstrap": "each tree drew rows",
        }.get(release.sampling.kind, "it is not known how rows reached the trees")
        raise NotCovered(
            f"treeleak looks for a missing row if every tree saw every row; here {why}. "
            "treeleak audit says what rows follow from the file"
        )
    noise = release.noise
    if release.counts_are != ("labels" if isinstance(noise, LabelNoise) else "rows"):
        raise NotCovered(
            "treeleak looks for a missing row of a classifier, in counts of rows or named classes; "
            f"this model holds {release.counts_are!r}. treeleak audit says what rows follow"
        )
    counts = counts_of_leaves(release)
    if isinstance(noise, LabelNoise):
        if noise.rule == "present":
            raise NotCovered("a missing row, where leaves name all classes that they hold")
        law, named = noise, counts.argmax(axis=1)
        return lambda held: law.log_prob(held)[np.arange(len(held)), named]
    if isinstance(noise, CountNoise):
        added = noise
        return lambda held: np.asarray(added.log_prob(counts - held).sum(axis=1))
    return lambda held: np.where((counts == held).all(axis=1), 0.0, -np.inf)


def counts_of_leaves(release: Release) -> FloatArray:
    """What the leaves say, shape (n_leaves, n_classes)."""
    counts = []
    for t, tree in enumerate(release.trees):
        if tree.counts is None:
            raise NotCovered(f"tree {t} counts no classes")
        counts.append(tree.counts[tree.leaves])
    return np.concatenate(counts)
