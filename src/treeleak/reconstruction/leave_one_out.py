"""The informed adversary: all training rows but one are known.

That one row is what differential privacy speaks of. Its posterior is exact: a prior learned from
the known rows, times the likelihood of what the leaves say beyond them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

import numpy as np
import pandas as pd

from treeleak.attacks.posterior.leave_one_out import MissingRow, Told
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Progress
from treeleak.core.errors import BadInput, Mismatch
from treeleak.core.private import dataclass
from treeleak.metrics.individual import Individual, find_outliers
from treeleak.metrics.matching import paired_distances
from treeleak.reconstruction import as_json, versions
from treeleak.release import Release, to_release
from treeleak.release.infer_schema import check_schema, infer_schema
from treeleak.schema import Schema
from treeleak.side_information.population import Density, Population
from treeleak.verification.training_rows import in_model_columns

__all__ = ["INFORMED_VERSION", "InformedAudit", "InformedGuess", "informed", "informed_audit"]


INFORMED_VERSION = 1

_SHOWN = 10
"""Most probable rows that are listed."""
_LEFT_OUT = 20
"""The prior of a target is learned from at least this many rows for each that is left out."""


@dataclass(frozen=True, eq=False)
class InformedGuess:
    """What somebody who knows all training rows but one can say of that one.

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
        What the model told beyond the known rows: the divergence of the posterior from the prior.
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
        out: dict[str, Any] = {
            "version": INFORMED_VERSION,
            "status": self.status,
            "expected_error": self.expected_error,
            "label_confidence": self.label_confidence,
            "bits": self.bits,
            "seed": self.seed,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "versions": dict(self.versions),
        }
        if include_rows:
            out["row"] = _plain(self.row)
            out["label"] = self.label
            out["confidence"] = self.confidence.to_dict()
            out["value_by_value"] = _plain(self.value_by_value)
            out["majority"] = _plain(self.majority)
            out["valid_majority"] = _plain(self.valid_majority)
            out["candidates"] = [
                {"row": _plain(row), "label": label, "probability": probability}
                for (_, row), label, probability in zip(
                    self.candidates.iterrows(), self.candidate_labels, self.probabilities,
                    strict=True,
                )
            ]  # fmt: skip
        return out

    def to_json(self, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON."""
        return as_json(self.to_dict(include_rows))


@dataclass(frozen=True, eq=False)
class InformedAudit:
    """How well each of some training rows is told, if all others are known.

    Attributes
    ----------
    targets : DataFrame
        One line for each, indexed by its position among the training rows:

        - error: share of columns in which the valid row of least expected error is wrong;
        - expected_error: what the attack itself expects;
        - value_by_value: error of the best value of each column by itself;
        - majority, valid_majority: errors of the majority of each column of the training rows, and
          of the best valid row among those that say nothing of the target;
        - probability: of the true row and class in the posterior, before anything was rounded;
        - label_right: whether the most probable class is right;
        - bits: what the model told beyond the known rows;
        - outlier: whether an isolation forest calls the row one.
    n_rows : int
        Training rows.
    seed : int
    seconds : float
    notes : tuple of str
    versions : mapping of str to str
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
        out: dict[str, Any] = {
            "version": INFORMED_VERSION,
            "n_rows": self.n_rows,
            "means": self.means,
            "individual": self.individual.to_dict(),
            "seed": self.seed,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "versions": dict(self.versions),
        }
        if include_rows:
            out["targets"] = self.targets.reset_index(names="row").to_dict("records")
        return out

    def to_json(self, include_rows: bool = False) -> str:
        """Write :meth:`to_dict` as JSON."""
        return as_json(self.to_dict(include_rows))


def informed(
    model: Any,
    X: Any,
    y: Any,
    schema: Schema | None = None,
    seed: int = 0,
    *,
    trust_pickle: bool = False,
) -> InformedGuess:
    """Say what the one training row is that is not known.

    Parameters
    ----------
    model : fitted estimator, path, StoredObject or Release
        Whose trees all saw every row. Its counts may carry noise of a known law.
    X : DataFrame or array, shape (n_rows - 1, n_columns)
        All other training rows, in the model's columns.
    y : sequence
        Their labels.
    schema : Schema, optional
        What a row can be. Without one, what the release itself says.
    seed : int
        Of the fit of the prior.
    trust_pickle : bool
        Also open pickle and joblib files, should ``model`` be a path.

    Returns
    -------
    InformedGuess

    Raises
    ------
    BadInput
        If the model, the file, the schema or the rows cannot be used.
    NotCovered
        If the model does not tell of single rows in a way that is covered.
    """
    started = time.perf_counter()
    asked = _Asked.of(model, X, y, schema, trust_pickle, 1)
    prior = asked.prior(np.arange(len(asked.label)), seed)
    guess = asked.guess(prior, asked.missing.held_by(asked.points, asked.label))
    baseline = asked.baseline(prior.density)
    missing, names = asked.missing, list(asked.release.feature_names)
    row, label = asked.written(guess.chosen)
    candidates, number, probability = asked.likeliest(guess)
    return InformedGuess(
        status="unique" if asked.proves(guess) else "likely",
        row=pd.Series(row, names),
        label=asked.release.classes[label],
        confidence=pd.Series(missing.sureness(guess.share, guess.chosen), names),
        label_confidence=min(1.0, float(guess.share[guess.chosen[-1]])),
        expected_error=guess.expected_error(missing),
        value_by_value=pd.Series(missing.value_by_value(guess.share), names),
        candidates=pd.DataFrame(candidates, columns=names),
        candidate_labels=pd.Series([asked.release.classes[c] for c in number]),
        probabilities=pd.Series(probability),
        bits=guess.told.bits,
        majority=pd.Series(missing.value_by_value(baseline), names),
        valid_majority=pd.Series(asked.written(missing.answer(baseline))[0], names),
        schema=asked.schema,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=asked.notes,
    )


def informed_audit(
    model: Any,
    X: Any,
    y: Any,
    schema: Schema | None = None,
    n_targets: int = 100,
    seed: int = 0,
    *,
    trust_pickle: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> InformedAudit:
    """Take training rows in turn as the missing one, and measure how well each is told.

    The prior of a target is learned from the other rows only: from all but one in twenty, the
    target among these, so that one fit serves several.

    Parameters
    ----------
    model, schema, trust_pickle
        As for :func:`informed`.
    X : DataFrame or array, shape (n_rows, n_columns)
        All training rows.
    y : sequence
        Their labels.
    n_targets : int
        Rows that are taken, at random; all if there are no more.
    seed : int
        Same model, rows and seed: same targets and answers.
    progress : callable, optional
        Receives :class:`~treeleak.core.clock.Progress`.

    Returns
    -------
    InformedAudit

    Raises
    ------
    BadInput, NotCovered
        As for :func:`informed`; Mismatch if the rows are not those that the model counted.
    """
    started = time.perf_counter()
    if n_targets < 1:
        raise BadInput(f"n_targets must be positive, not {n_targets}")
    asked = _Asked.of(model, X, y, schema, trust_pickle, 0)
    missing, n_rows = asked.missing, len(asked.label)
    if n_rows < 2:
        raise BadInput("one training row: there are no others to be known")
    held = missing.held_by(asked.points, asked.label)
    missing.check(held)
    rng = np.random.default_rng(seed)
    targets = rng.choice(n_rows, min(n_targets, n_rows), replace=False)
    lines: list[dict[str, Any]] = []
    answers: dict[str, list[FloatArray]] = {name: [] for name in _ERRORS}
    for part in np.array_split(targets, -(-len(targets) // max(1, n_rows // _LEFT_OUT))):
        prior = asked.prior(np.setdiff1d(np.arange(n_rows), part), seed)
        baseline = asked.baseline(prior.density)
        always = missing.value_by_value(baseline), asked.written(missing.answer(baseline))[0]
        for k in part:
            if progress is not None:
                done = len(lines) / len(targets)
                progress(Progress("taking rows in turn as the missing one", done))
            point, label = asked.points[k], int(asked.label[k])
            guess = asked.guess(prior, held - missing.held_by(point[None], asked.label[[k]]))
            row, found = asked.written(guess.chosen)
            rows = row, missing.value_by_value(guess.share), *always
            for own, answer in zip(answers.values(), rows, strict=True):
                own.append(answer)
            lines.append({
                "expected_error": guess.expected_error(missing),
                "probability": float(guess.told.posterior[point, label]),
                "label_right": found == label,
                "bits": guess.told.bits,
            })  # fmt: skip
    names = list(asked.release.feature_names)
    true = pd.DataFrame(asked.rows[targets], columns=names)
    errors = {
        name: paired_distances(pd.DataFrame(own, columns=names), true, asked.schema).mean(axis=1)
        for name, own in answers.items()
    }
    table = pd.DataFrame(errors).join(pd.DataFrame(lines))
    table["outlier"] = find_outliers(pd.DataFrame(asked.rows), seed)[targets]
    return InformedAudit(
        targets=table.set_axis(targets),
        n_rows=n_rows,
        seed=seed,
        seconds=time.perf_counter() - started,
        notes=asked.notes,
    )


_ERRORS = ("error", "value_by_value", "majority", "valid_majority")


@dataclass(frozen=True, eq=False)
class _Prior:
    density: Density
    log_prior: FloatArray


@dataclass(frozen=True, eq=False)
class _Guess:
    """What is told, shares of values, and the values of the answer."""

    told: Told
    share: FloatArray
    chosen: IntArray

    def expected_error(self, missing: MissingRow) -> float:
        cost = missing.values.expected_cost(self.share[None])[0]
        return float(cost[self.chosen[:-1]].sum() / missing.geometry.release.n_features)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The known rows, held against the model and the schema."""

    release: Release
    schema: Schema
    missing: MissingRow
    rows: FloatArray
    label: IntArray
    points: IntArray
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, schema: Schema | None, trust_pickle: bool, lacking: int
    ) -> _Asked:
        release = to_release(model, trust_pickle)
        notes: tuple[str, ...] = ("no schema given: taken from the model alone",)
        if schema is None:
            schema = infer_schema(release)
        else:
            notes = tuple(check_schema(schema, release))
        missing = MissingRow.of(release, schema)
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
        return cls(release, schema, missing, rows, label, points, (*notes, *more))

    def prior(self, known: IntArray, seed: int) -> _Prior:
        """Learn the prior from some of the rows."""
        population = Population(self.rows[known], self.label[known], {})
        density = population.fitted(self.missing.geometry, seed)
        return _Prior(density, self.missing.log_prior(density))

    def guess(self, prior: _Prior, held: IntArray) -> _Guess:
        """Answer, given the known rows in each leaf."""
        told = self.missing.posterior(prior.log_prior, held)
        share = self.missing.shares(prior.density, told.posterior)
        return _Guess(told, share, self.missing.answer(share))

    def baseline(self, density: Density) -> FloatArray:
        """Shares of values among the rows."""
        seen = np.zeros((len(self.missing.allowed), self.release.n_classes))
        np.add.at(seen, (self.points, self.label), 1.0 / len(self.points))
        return self.missing.shares(density, seen)

    def likeliest(self, guess: _Guess) -> tuple[FloatArray, IntArray, FloatArray]:
        """The most probable rows, the numbers of their classes, and their probabilities."""
        flat, values = guess.told.posterior.ravel(), self.missing.values
        top = np.argsort(-flat, kind="stable")[: min(_SHOWN, guess.told.n_possible)]
        point, label = np.divmod(top, self.release.n_classes)
        atoms = self.missing.geometry.atoms(point) + values.atom_start[:-2]
        # Of an atom, the most probable value.
        order = np.lexsort((-guess.share, values.atom_of))
        best = order[np.searchsorted(values.atom_of[order], atoms)]
        return values.rows(best, self.release.n_features), label, flat[top]

    def proves(self, guess: _Guess) -> bool:
        """Whether no other row is possible."""
        settled = self.missing.values.settled
        chosen_atoms = self.missing.values.atom_of[guess.chosen]
        return guess.told.n_possible == 1 and bool(settled[chosen_atoms].all())

    def written(self, chosen: IntArray) -> tuple[FloatArray, int]:
        """Row in the model's columns, and number of the class."""
        values = self.missing.values
        row = values.rows(chosen[None], self.release.n_features)[0]
        return row, int(chosen[-1] - values.start[-2])


def _plain(row: pd.Series[Any]) -> dict[str, Any]:
    return {str(k): None if pd.isna(v) else v for k, v in row.items()}
