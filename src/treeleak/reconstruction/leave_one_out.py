"""The informed adversary: all training rows but one are known.

That one row is what differential privacy speaks of. Its posterior is exact: a prior learned from
the known rows, times the likelihood of what the leaves say beyond them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from treeleak.attacks.posterior.leave_one_out import GridLikelihood, MissingRow, counts_of_leaves
from treeleak.attacks.posterior.missing_draw import MissingDraw
from treeleak.core.arrays import FloatArray, IntArray, Labels, Place, Rows
from treeleak.core.decisions import falling, rounded
from treeleak.core.declared import plain
from treeleak.core.errors import BadInput, Mismatch, NotCovered
from treeleak.core.message import MessageTemplate, message_of
from treeleak.core.private import dataclass
from treeleak.reconstruction import versions, written
from treeleak.release import Model, Release, to_release
from treeleak.release.check_schema import check_schema
from treeleak.release.draws.recompute import Draws
from treeleak.release.draws.seeds import known_draws
from treeleak.release.infer_schema import infer_schema
from treeleak.release.sampling import Bootstrap
from treeleak.schema import Schema
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

_SHOWN = 10
"""Most probable rows that are listed."""


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
    value_by_value : Series
        The best value of each column by itself: they may not go together in a valid row.
    candidates : DataFrame
        The most probable rows. A column that no tree tests may hold one value for several.
    candidate_labels, probabilities : Series
        Their classes and probabilities.
    bits : float
        What the model discloses beyond the known rows: the divergence of the posterior from the
        prior.
    majority : Series
        What the known rows alone suggest: the majority of each column.
    valid_majority : Series
        The same among valid rows.
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
    value_by_value: pd.Series[float]
    candidates: pd.DataFrame
    candidate_labels: pd.Series[Any]
    probabilities: pd.Series[float]
    bits: float
    majority: pd.Series[float]
    valid_majority: pd.Series[float]
    schema: Schema
    seed: int
    seconds: float
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=versions)

    def to_dict(self, include_rows: bool = False) -> dict[str, Any]:
        """Describe the guess; rows only where asked for (formats/informed.schema.json)."""
        rows = {
            "row": _plain(self.row),
            "label": self.label,
            "confidence": self.confidence.to_dict(),
            "value_by_value": _plain(self.value_by_value),
            "majority": _plain(self.majority),
            "valid_majority": _plain(self.valid_majority),
            "candidates": tuple(
                {"row": _plain(row), "label": label, "probability": probability}
                for (_, row), label, probability in zip(
                    self.candidates.iterrows(), self.candidate_labels, self.probabilities,
                    strict=True,
                )
            ),
        }  # fmt: skip
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
    guess = request.guess(prior, request.likelihood(position))
    baseline = request.baseline(prior.density)
    missing, names = request.missing, list(request.release.feature_names)
    row, label = request.written(guess.chosen)
    candidates, number, probability = request.likeliest(guess)
    return InformedGuess(
        status="unique" if request.proves(guess) else "likely",
        row=pd.Series(row, names),
        label=request.release.classes[label],
        confidence=pd.Series(missing.sureness(guess.share, guess.chosen), names),
        label_confidence=min(1.0, float(guess.share[guess.chosen[-1]])),
        expected_error=guess.expected_error(missing),
        value_by_value=pd.Series(missing.value_by_value(guess.share), names),
        candidates=pd.DataFrame(candidates, columns=names),
        candidate_labels=pd.Series([request.release.classes[c] for c in number]),
        probabilities=pd.Series(probability),
        bits=guess.likelihood.bits,
        majority=pd.Series(missing.value_by_value(baseline), names),
        valid_majority=pd.Series(request.written(missing.answer(baseline))[0], names),
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
    """What is told, shares of values, and the values of the answer."""

    likelihood: GridLikelihood
    share: FloatArray
    chosen: IntArray

    def expected_error(self, missing: MissingRow) -> float:
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
    drawn: MissingDraw | None = None
    """What is told where rows were drawn."""

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
        if draws is None:
            return cls(release, schema, missing, rows, label, points, (*notes, *more))
        leaf_counts = counts_of_leaves(release).astype(np.int64)
        drawn = MissingDraw(missing, leaf_counts, draws.counts)
        notes = (*notes, *more, DRAWN(origin=draws.origin))
        return cls(release, schema, missing, rows, label, points, notes, drawn)

    def prior(self, known: IntArray, seed: int) -> Prior:
        """Learn the prior from some of the rows."""
        population = Population(self.rows[known], self.label[known], {})
        density = population.fitted(self.missing.geometry, seed)
        return Prior(density, self.missing.log_prior(density))

    def likelihood(self, position: int | None) -> FloatArray:
        """Log likelihood of each grid point and class, all rows being known but one."""
        if self.drawn is not None:
            return self.drawn.of_known(self.points, self.label, position)
        return self.missing.likelihood(self._held)

    def check(self) -> None:
        """Raise Mismatch if these are all rows, and not those that the model counted."""
        if self.drawn is not None:
            self.drawn.check(self.points, self.label)
        else:
            self.missing.check(self._held)

    @cached_property
    def _held(self) -> IntArray:
        return self.missing.held_by(self.points, self.label)

    def likelihood_without(self, k: int) -> FloatArray:
        """Log likelihood of each grid point and class, where these are all rows, and one is not
        known.
        """
        if self.drawn is not None:
            return self.drawn.of_row(int(self.points[k]), int(self.label[k]), k)
        held_by_row = self.missing.held_by(self.points[[k]], self.label[[k]])
        return self.missing.likelihood(self._held - held_by_row)

    def guess(self, prior: Prior, likelihood: FloatArray) -> Guess:
        """Answer, given the log likelihood of each grid point and class."""
        result = self.missing.posterior(prior.log_prior, likelihood)
        share = self.missing.shares(prior.density, result.posterior)
        return Guess(result, share, self.missing.answer(share))

    def baseline(self, density: Density) -> FloatArray:
        """Shares of values among the rows."""
        seen = np.zeros((len(self.missing.allowed), self.release.n_classes))
        np.add.at(seen, (self.points, self.label), 1.0 / len(self.points))
        return self.missing.shares(density, seen)

    def likeliest(self, guess: Guess) -> tuple[FloatArray, IntArray, FloatArray]:
        """The most probable rows, the numbers of their classes, and their probabilities."""
        flat, values = guess.likelihood.posterior.ravel(), self.missing.values
        top = falling(flat)[: min(_SHOWN, guess.likelihood.n_possible)]
        point, label = np.divmod(top, self.release.n_classes)
        atoms = self.missing.geometry.atoms(point) + values.atom_start[:-2]
        # Of an atom, the most probable value.
        order = np.lexsort((-rounded(guess.share), values.atom_of))
        best = order[np.searchsorted(values.atom_of[order], atoms)]
        return values.rows(best, self.release.n_features), label, flat[top]

    def proves(self, guess: Guess) -> bool:
        """Whether no other row is possible."""
        single_valued = self.missing.values.single_valued
        chosen_atoms = self.missing.values.atom_of[guess.chosen]
        return guess.likelihood.n_possible == 1 and bool(single_valued[chosen_atoms].all())

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


def _plain(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(k): None if pd.isna(v) else v for k, v in row.items()}
