"""The informed adversary: all training rows but one are known.

That one row is what differential privacy speaks of. Its posterior is exact: a prior learned from
the known rows, times the likelihood of what the leaves say beyond them. Whether it lies in a leaf
changes only what that leaf says, so the likelihood of a grid point and class is a sum over its
leaves of entries of one table.

Of a bootstrap, what the leaves count, less the draws of the known rows, are the draws of one row:
in each tree that drew it, all in one leaf and class. Which draws are those of the known rows
depends on where the missing one stood, for it shifts the numbers of all that follow.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logsumexp

from treeleak.core.arrays import BoolArray, FloatArray, IntArray, Labels, Place, Rows
from treeleak.core.decisions import first_least, greatest, on_grid
from treeleak.core.declared import plain
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.core.message import MessageTemplate, message_of, static_message
from treeleak.core.private import dataclass
from treeleak.core.text import short
from treeleak.evidence.predictions import at_leaves
from treeleak.partition import Geometry, GridTooLarge
from treeleak.partition.atoms import rules_hold
from treeleak.partition.value_index import ValueIndex, values_in
from treeleak.reconstruction import versions, written
from treeleak.release import Model, Release, to_release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema
from treeleak.release.noise.goodness_of_fit import noise_misfit
from treeleak.release.noise.laws import CountNoise, LabelNoise
from treeleak.release.sampling import AllRows, Bootstrap
from treeleak.release.statistics import ROWS
from treeleak.schema import OneHot, Schema
from treeleak.side_information.density import Density
from treeleak.side_information.population import Population
from treeleak.verification.columns import in_model_columns

__all__ = ["INFORMED_VERSION", "InformedGuess", "InformedRequest", "informed"]


INFORMED_VERSION: Literal[1] = 1

DRAWN = MessageTemplate("informed_drawn", "The bootstrap samples are known from {origin:foreign}.")
UNKNOWN_DRAWS = MessageTemplate(
    "informed_draws_unknown",
    "treeleak looks for a missing row if every tree saw every row, or if its draws are "
    "known; here the draws are not known: {why:foreign}",
)


@dataclass(frozen=True, eq=False)
class InformedGuess:
    """What an adversary who knows all training rows but one can infer about that one.

    Attributes
    ----------
    status : {"unique", "likely"}
        unique: proved, no other row makes the known ones up to the counts.
    row : Series
        The valid row of least expected error, in the model's columns.
    label : object
        Its most probable class.
    confidence : Series
        Probability of each of its values (of the interval, for a numeric column).
    label_confidence : float
    expected_error : float
        Share of columns in which the row is expected to be wrong.
    bits : float
        What the model discloses beyond the known rows: the divergence of the posterior from the
        prior.
    schema : Schema
    seed : int
    seconds : float
    notes : tuple of str
    versions : mapping of str to str
    """

    status: Literal["unique", "likely"]
    row: pd.Series[float]
    label: Any
    confidence: pd.Series[float]
    label_confidence: float
    expected_error: float
    bits: float
    schema: Schema
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the guess; rows only where asked for (formats/informed.schema.json)."""
        rows = {
            "row": {str(k): None if pd.isna(v) else v for k, v in self.row.items()},
            "label": self.label,
            "confidence": self.confidence.to_dict(),
        }
        described: dict[str, Any] = plain(
            {
                "version": INFORMED_VERSION,
                "status": self.status,
                "expected_error": self.expected_error,
                "label_confidence": self.label_confidence,
                "bits": self.bits,
                "seed": self.seed,
                "seconds": self.seconds,
                "notes": self.notes,
                "versions": self.versions,
                **(rows if include_rows else {}),
            }
        )
        return described

    def to_json(self, path: Place | None = None, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON, to a file too where one is named."""
        return written(self.to_dict, path, include_rows)


def informed(
    model: Model,
    X: Rows,
    y: Labels,
    schema: Schema | Place | None = None,
    seed: int = 0,
    *,
    position: int | None = None,
    seed_search: int = 1_000_000,
    trust_pickle: bool = False,
) -> InformedGuess:
    """Rebuild the one training row that the adversary does not know.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
        Its trees all saw every row, or drew rows by a bootstrap with known seeds. If they saw every
        row, the counts may carry noise of a known law.
    X : DataFrame or array, shape (n_rows - 1, n_columns)
        All other training rows, in the model's columns. For a bootstrap, in the order of training.
    y : sequence
        Their labels.
    schema : Schema or path, optional
        What a row can be. Without one, the limits of the model itself.
    seed : int
        Of the fit of the prior.
    position : int, optional
        For a bootstrap: the place of the missing row among the training rows, from 0. By default,
        treeleak tries all places, and all places where some row fits are equally probable.
    seed_search : int
        For a bootstrap without seeds in its file: forest seeds to try.
    trust_pickle : bool
        Also open pickle and joblib files, if ``model`` is a path.

    Returns
    -------
    InformedGuess

    Raises
    ------
    BadInput
        If the model, the file, the schema or the rows cannot be used.
    NotCovered
        If treeleak does not cover single rows of such a model.
    """
    started = time.perf_counter()
    request = InformedRequest.of(model, X, y, schema, trust_pickle, 1, seed_search)
    n_rows = len(request.label) + 1
    if position is not None and not 0 <= position < n_rows:
        raise BadInput(f"position must be from 0 to {n_rows - 1}, not {position}")
    prior = request.prior(np.arange(len(request.label)), seed)
    missing, names = request.missing, list(request.release.feature_names)
    guess = request.guess(prior, request.leaves.of_known(request.points, request.label, position))
    row, label = request.written(guess.chosen)
    values = missing.values
    alone = guess.n_possible == 1 and values.single_valued[values.atom_of[guess.chosen]].all()
    return InformedGuess(
        status="unique" if alone else "likely",
        row=pd.Series(row, names),
        label=request.release.classes[label],
        confidence=pd.Series(missing.sureness(guess.share, guess.chosen), names),
        label_confidence=min(1.0, float(guess.share[guess.chosen[-1]])),
        expected_error=guess.expected_error(missing),
        bits=guess.bits,
        schema=request.schema,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=request.notes,
    )


@dataclass(frozen=True, eq=False)
class Prior:
    density: Density
    log_prior: FloatArray


@dataclass(frozen=True, eq=False)
class Guess:
    """What the leaves tell of the missing row."""

    posterior: FloatArray
    """Shape (n_points, n_classes). Probability of each grid point and class."""
    bits: float
    """Its divergence from the prior."""
    n_possible: int
    """Grid points and classes that are not impossible, however improbable."""
    share: FloatArray
    """Probability of each listed value."""
    chosen: IntArray
    """The values of the answer; the class is last."""

    def expected_error(self, missing: MissingRow) -> float:
        """Share of columns in which the answer is expected to be wrong."""
        cost = missing.values.expected_cost(self.share[None])[0]
        return float(cost[self.chosen[:-1]].sum() / missing.geometry.release.n_features)


@dataclass(frozen=True, eq=False)
class InformedRequest:
    """The known rows, held against the model and the schema."""

    release: Release
    schema: Schema
    missing: MissingRow
    rows: FloatArray
    label: IntArray
    points: IntArray
    notes: tuple[str, ...]
    leaves: MissingRow | MissingDraw
    """What tells of the missing row."""

    @classmethod
    def of(
        cls,
        model: Model,
        X: Rows,
        y: Labels,
        schema: Schema | Place | None,
        trust_pickle: bool,
        lacking: int,
        seed_search: int,
    ) -> InformedRequest:
        """Read model and rows, of which as many are lacking as are asked for."""
        release, schema = to_release(model, trust_pickle), Schema.from_argument(schema)
        notes: tuple[str, ...] = ("no schema given: taken from the model alone",)
        if schema is None:
            schema = infer_schema(release)
        else:
            notes = tuple(check_schema(schema, release))
        draws = _draws(release, len(X) + lacking, seed_search)
        missing = MissingRow.of(release, schema, drawn=draws is not None)
        table, label, more = in_model_columns(release, X, y)
        rows = table.to_numpy()
        if not len(rows):
            raise BadInput("no row is known: there is nothing to learn from")
        if release.n_rows is not None and len(rows) != release.n_rows - lacking:
            raise Mismatch(
                f"the model was trained on {release.n_rows} rows; {release.n_rows - lacking} of "
                f"them are asked for, these are {len(rows)}"
            )
        valid = schema.valid(rows, release.feature_names)
        if not valid.all():
            raise BadInput(f"the schema does not allow row {valid.argmin()} of the training rows")
        points = missing.points_of(rows)
        leaves: MissingRow | MissingDraw = missing
        notes = (*notes, *more)
        if draws is not None:
            leaf_counts = counts_of_leaves(release).astype(np.int64)
            leaves = MissingDraw(missing, leaf_counts, draws.counts)
            notes = (*notes, DRAWN(origin=draws.origin))
        return cls(release, schema, missing, rows, label, points, notes, leaves)

    def prior(self, known: IntArray, seed: int) -> Prior:
        """Learn the prior from some of the rows."""
        population = Population(self.rows[known], self.label[known], {})
        density = population.fitted(self.missing.geometry, seed)
        return Prior(density, self.missing.log_prior(density))

    def guess(self, prior: Prior, likelihood: FloatArray) -> Guess:
        """Answer, given the log likelihood of each grid point and class."""
        posterior, bits, n_possible = self.missing.posterior(prior.log_prior, likelihood)
        share = self.missing.shares(prior.density, posterior)
        return Guess(posterior, bits, n_possible, share, self.missing.answer(share))

    def baseline(self, density: Density) -> FloatArray:
        """Shares of values among the rows."""
        seen = np.zeros((len(self.missing.allowed), self.release.n_classes))
        np.add.at(seen, (self.points, self.label), 1.0 / len(self.points))
        return self.missing.shares(density, seen)

    def written(self, chosen: IntArray) -> tuple[FloatArray, int]:
        """Row in the model's columns, and number of the class."""
        values = self.missing.values
        row = values.rows(chosen[None], self.release.n_features)[0]
        return row, int(chosen[-1] - values.start[-2])


def _draws(release: Release, n_rows: int, seed_search: int) -> Draws | None:
    """Find the draws of a bootstrap; None where nothing was drawn, or more stands in the way."""
    drawn = isinstance(release.sampling, Bootstrap) and release.noise is None
    if not drawn or release.not_covered or release.counts_are != "draws":
        return None
    if release.n_rows not in (None, n_rows):
        return None
    try:
        draws = known_draws(replace(release, n_rows=n_rows), seed_search=seed_search)
    except NotCovered as error:
        raise NotCovered(UNKNOWN_DRAWS(why=message_of(error))) from error
    return draws


MAX_ENTRIES = 2**26
"""Most (grid point, tree or class) pairs that are held."""
MAX_GAINS = 2**26
"""Most (leaf, class, class) triples that are held."""
_CHUNK = 2**18
_LIKELIEST = 4096
"""Points of which it is asked which of the values that no tree tells apart go with them."""
_FAINT = 1e-9
"""Weight of what the population says of these values at all other points."""


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

    def check(self, points: IntArray, label: IntArray) -> None:
        """Raise Mismatch if these rows, taken for all, are not those that the model counted."""
        release, held = self.geometry.release, self.held_by(points, label)
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

    def of_row(self, points: IntArray, label: IntArray, place: int) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but the one at a place."""
        return self.of_known(np.delete(points, place), np.delete(label, place), None)

    def of_known(
        self,
        points: IntArray,
        label: IntArray,
        place: int | None,  # noqa: ARG002
    ) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but one."""
        held = self.held_by(points, label)
        gain = self._gain(held)
        likelihood = np.zeros((len(self.allowed), held.shape[1]))
        for leaves in self.signature:
            likelihood += gain.take(leaves, axis=0)
        return likelihood

    def posterior(
        self, log_prior: FloatArray, likelihood: FloatArray
    ) -> tuple[FloatArray, float, int]:
        """Weigh each grid point and class: the first three fields of :class:`Guess`.

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
        return out, max(0.0, float(information / np.log(2))), n_possible

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


MAX_WORK = 2**34
"""Most (place, tree, grid point) triples that are looked at."""
_NONE = -1

NO_PLACE = static_message(
    "no row explains the difference between the draws and the known rows, at any place. "
    "They must be all training rows but one, in the order of training"
)
OTHERS = static_message(
    "the leaves count other draws than these rows have. They must be all training rows, in the "
    "order of training"
)


@dataclass(frozen=True, eq=False)
class MissingDraw:
    """What a row of known draws can be."""

    missing: MissingRow
    leaf_counts: IntArray
    """Shape (n_leaves, n_classes). Draws of each class in each leaf."""
    draws: NDArray[np.unsignedinteger[Any]]
    """Shape (n_trees, n_rows)."""

    def check(self, points: IntArray, label: IntArray) -> None:
        """Raise Mismatch if these rows, taken for all, are not those that the trees drew."""
        if self._left(self._cells(points, label), np.arange(self.draws.shape[1])).any():
            raise Mismatch(OTHERS)

    def of_row(self, points: IntArray, label: IntArray, place: int) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but the one at a place.

        Of what that row is, the trees that drew it tell.
        """
        cell = self._cells(points[[place]], label[[place]])[:, 0]
        return self._log({tuple(np.where(self.draws[:, place] > 0, cell, _NONE).tolist()): 1})

    def of_known(self, points: IntArray, label: IntArray, place: int | None) -> FloatArray:
        """Log likelihood of each grid point and class, given all rows but one, in order.

        ``place``: where that one stood; else all places are taken to be equally probable.

        Raises
        ------
        Mismatch
            If no row at such a place explains the draws.
        NotCovered
            If there are too many places and grid points.
        """
        n_trees, n_rows = self.draws.shape
        cells = self._cells(points, label)
        first = 0 if place is None else place
        order = np.arange(n_rows - 1)
        left = self._left(cells, order + (order >= first))
        n_leaves = np.diff(self.missing.geometry.leaf_start)
        tree = np.repeat(np.arange(n_trees), n_leaves * self.leaf_counts.shape[1])
        wrong = np.bincount(tree, left != 0, minlength=n_trees).astype(np.int64)
        drawn = self.draws > 0
        fits: Counter[tuple[int, ...]] = Counter()
        for p in range(first, n_rows if place is None else first + 1):
            # One entry for each tree that drew the row: as sums of draws agree, it is its draws.
            if np.array_equal(wrong, drawn[:, p]):
                found = np.full(n_trees, _NONE)
                at = np.flatnonzero(left)
                found[tree[at]] = at
                if (left[at] == self.draws[tree[at], p]).all():
                    fits[tuple(found.tolist())] += 1
            if p < n_rows - 1 and place is None:
                # The known row behind the gap moves into it.
                cell = cells[:, p]
                wrong -= left[cell] != 0
                left[cell] += self.draws[:, p + 1].astype(np.int64) - self.draws[:, p]
                wrong += left[cell] != 0
        if len(fits) * self.missing.signature.size > MAX_WORK:
            raise NotCovered(f"the missing row could stand at {fits.total():,} places")
        out = self._log(fits)
        if np.isneginf(out).all():
            raise Mismatch(NO_PLACE)
        return out

    def _cells(self, points: IntArray, label: IntArray) -> IntArray:
        """Leaf and class of each row in each tree, shape (n_trees, n_rows)."""
        at = self.missing.signature[:, points].astype(np.int64)
        return np.asarray(at * self.leaf_counts.shape[1] + label)

    def _left(self, cells: IntArray, places: IntArray) -> IntArray:
        """Draws that rows at such places do not explain, by leaf and class."""
        held = np.bincount(
            cells.ravel(), self.draws[:, places].ravel(), minlength=self.leaf_counts.size
        ).astype(np.int64)
        return np.asarray(self.leaf_counts.ravel() - held)

    def _log(self, fits: Mapping[tuple[int, ...], int]) -> FloatArray:
        """Log of at how many of the places a row of each grid point and class can stand."""
        n_classes = self.leaf_counts.shape[1]
        number = np.zeros((len(self.missing.allowed), n_classes))
        for cells, times in fits.items():
            drew = np.flatnonzero(np.array(cells) != _NONE)
            leaf, label = np.divmod(np.array(cells)[drew], n_classes)
            if len(set(label.tolist())) > 1:
                continue
            inside: BoolArray = (self.missing.signature[drew] == leaf[:, None]).all(axis=0)
            class_slice = slice(None) if not len(label) else label[:1]
            number[np.ix_(inside, np.arange(n_classes)[class_slice])] += times
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(number))
