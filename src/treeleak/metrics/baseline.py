"""Baselines that know the schema, and nothing about the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadInput, BadSchema
from treeleak.core.private import dataclass, shows_no_value
from treeleak.metrics.encoding import Table, column_range, table_columns
from treeleak.metrics.matching import best_matching, right_values
from treeleak.metrics.scores import Scores, mean_scores, scores_of
from treeleak.schema import Attribute, Categorical, Numeric, OneHot, Ordinal, Schema

Maker: TypeAlias = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
"""Makes a guess of as many rows as the true ones that it gets."""

FEWEST_DRAWS = 3
MOST_PAIRS = 10**7
"""Pairs of rows in all guesses: matching ten tables of 1,000 rows takes a few seconds."""
GUESSED_ROWS = 2_000
"""Most true rows that a guess is measured on."""
MOST_TRIES = 1_000


@shows_no_value
class Baseline(NamedTuple):
    """Error of a random baseline: mean and standard deviation over its draws."""

    mean: float
    std: float


@dataclass(frozen=True, eq=False)
class Guesses:
    """Random guesses, measured.

    Attributes
    ----------
    errors : float array, shape (n_guesses,)
    right : float array, shape (n_attributes,)
        Share of the true rows whose value is right (:func:`right_values`), of those of which no
        column was given; NaN where there are none.
    row_errors : float array, shape (n_rows,)
        Mean error of the guesses for each true row; NaN where a sample held it never.
    row_misses : float array, shape (n_rows,)
        Share of the guesses in which some value of the row is wrong; NaN likewise.
    misses : float array, shape (n_guesses,)
        Share of the rows in which some value is wrong.
    scores : Scores
        Mean over the guesses.
    """

    errors: FloatArray
    right: FloatArray
    row_errors: FloatArray
    row_misses: FloatArray
    misses: FloatArray
    scores: Scores

    @property
    def baseline(self) -> Baseline:
        """Mean and standard deviation."""
        return Baseline(float(self.errors.mean()), float(self.errors.std()))


def random_baseline(X_true: Table, schema: Schema, n_draws: int = 100, seed: int = 0) -> Baseline:
    """Measure the error of tables guessed at random within the schema.

    Parameters are those of :func:`random_guesses`.

    Returns
    -------
    Baseline
        ``mean`` and ``std``.
    """
    return random_guesses(X_true, schema, n_draws, seed).baseline


def random_guesses(
    X_true: Table,
    schema: Schema,
    n_draws: int = 100,
    seed: int = 0,
    given: tuple[pd.DataFrame, pd.DataFrame] | None = None,
    write: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
) -> Guesses:
    """Guess tables at random within the schema, and measure them.

    Each guess has as many rows as ``X_true``, made as in :func:`random_rows`, and is measured by
    :func:`reconstruction_error`.

    The work grows with the square of the rows. So from 300 rows on fewer guesses are made than
    asked for, down to three, which costs little: the standard deviation falls as rows grow. Beyond
    2,000 rows each guess is measured on a random sample of 2,000 true rows. In expectation that
    is never less than the error of a guess of full size, since fewer points leave fewer to choose
    from, and hardly more: the value settles long before.

    Parameters
    ----------
    X_true : DataFrame or array, shape (n_rows, n_columns)
        As in :func:`reconstruction_error`.
    schema : Schema
    n_draws : int
        Tables to guess.
    seed : int
    given : (DataFrame, DataFrame of bool), optional
        Rows of which some values are given, and which: they are put into each guess, and do not
        count. There are as many as true rows, and no sample is taken.
    write : callable, optional
        Writes each guess in values that more is known of than the schema says.

    Returns
    -------
    Guesses
    """
    true = _as_frame(X_true, schema)
    # Ranges come from all rows, whatever sample is measured.
    bounded = bounded_schema(schema, true)

    def make(sample: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        rows = guessed_rows(bounded, len(sample), rng)
        return rows if write is None else write(rows)

    return measured_guesses(make, true, schema, n_draws, seed, given)


def measured_guesses(
    make: Maker,
    X_true: Table,
    schema: Schema,
    n_draws: int,
    seed: int = 0,
    given: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> Guesses:
    """Measure guesses of any origin as :func:`random_guesses` does its own.

    ``make``: gets the true rows that one guess is measured against, and a generator; returns as
    many rows. ``X_true``, ``schema``, ``n_draws``, ``seed`` and ``given``: as for
    :func:`random_guesses`.
    """
    true = _as_frame(X_true, schema)
    if n_draws < 1:
        raise BadInput(f"{n_draws} draws: at least one is needed")
    rng = np.random.default_rng(seed)
    n = min(len(true), GUESSED_ROWS) if given is None else len(true)
    tally = Tally(true, schema)
    for _ in range(min(n_draws, max(FEWEST_DRAWS, MOST_PAIRS // max(n, 1) ** 2))):
        chosen = np.arange(n) if n == len(true) else rng.permutation(len(true))[:n]
        guess, known = make(true.iloc[chosen], rng), None
        if given is not None:
            rows, known = given
            guess = guess[rows.columns].mask(known, rows)
        tally.add(guess, chosen, known)
    return tally.guesses()


class Tally:
    """Guesses measured one by one against the same true rows.

    ``true``: DataFrame, shape (n_rows, n_columns). ``schema`` (Schema): numeric columns without
    bounds have the range of all true rows, whatever part is measured.
    """

    def __init__(self, true: pd.DataFrame, schema: Schema) -> None:
        self._true, self._schema = true, bounded_schema(schema, true)
        self._errors: list[float] = []
        self._misses: list[float] = []
        self._scores: list[Scores] = []
        self._right, self._open = (np.zeros(len(schema.attributes)) for _ in range(2))
        self._error, self._values, self._missed, self._times = (
            np.zeros(len(true)) for _ in range(4)
        )

    def __len__(self) -> int:
        """Guesses so far."""
        return len(self._errors)

    def add(self, guess: pd.DataFrame, chosen: IntArray, known: pd.DataFrame | None = None) -> None:
        """Measure a guess against some of the true rows, as many as it has.

        ``chosen``: numbers of the true rows. ``known`` (DataFrame of bool): like ``guess``: which
        values were given, and do not count.
        """
        sample, attributes = self._true.iloc[chosen], self._schema.attributes
        columns = table_columns(guess, sample, self._schema)
        counts = np.ones((len(sample), len(columns)), dtype=bool)
        if known is not None:
            counts = ~known[columns].to_numpy()
        matched, distance = best_matching(guess, sample, self._schema)
        free = right_values(1.0 - counts.astype(float), columns, attributes)
        right = right_values(distance * counts, columns, attributes)
        self._right += (right & free).sum(axis=0)
        self._open += free.sum(axis=0)
        place = chosen[matched]
        rows: BoolArray = np.asarray(counts.any(axis=1))
        wrong: BoolArray = np.asarray(~right.all(axis=1))
        self._error[place] += (distance * counts).sum(axis=1)
        self._values[place] += counts.sum(axis=1)
        self._missed[place] += wrong
        self._times[place] += rows
        self._errors.append(float(distance[counts].mean()))
        self._misses.append(float(wrong[rows].mean()))
        self._scores.append(scores_of(distance, counts, columns, self._true, self._schema))

    def guesses(self) -> Guesses:
        """Sum up."""
        with np.errstate(invalid="ignore"):
            return Guesses(
                np.array(self._errors), self._right / self._open, self._error / self._values,
                self._missed / self._times, np.array(self._misses), mean_scores(self._scores),
            )  # fmt: skip


def random_rows(
    X_true: Table, schema: Schema, n_rows: int | None = None, seed: int = 0
) -> pd.DataFrame:
    """Guess rows at random within the schema.

    Every attribute is guessed by itself and uniformly: a value of a binary, ordinal or categorical
    column, a member of a one-hot group (or none, where that is possible), a number between the
    bounds of a numeric column. Guesses that break a rule are thrown away. Missing values are
    never guessed.

    Parameters
    ----------
    X_true : DataFrame or array
        Taken for its number of rows and for the range of numeric columns without bounds: the
        guess is granted that much.
    schema : Schema
    n_rows : int, optional
        As many as ``X_true`` unless given.
    seed : int

    Returns
    -------
    DataFrame, shape (n_rows, n_columns)

    Raises
    ------
    BadSchema
        If less than one guess in a thousand meets the rules.
    """
    true = _as_frame(X_true, schema)
    n = len(true) if n_rows is None else n_rows
    return guessed_rows(bounded_schema(schema, true), n, np.random.default_rng(seed))


def _as_frame(X: Table, schema: Schema) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        return X.set_axis([str(c) for c in X.columns], axis=1)
    if np.ndim(X) != 2 or np.shape(X)[1] != len(schema.columns):
        raise BadInput(f"shape {np.shape(X)} does not fit {len(schema.columns)} columns")
    return pd.DataFrame(X, columns=list(schema.columns))


def bounded_schema(schema: Schema, true: pd.DataFrame) -> Schema:
    """Replace infinite bounds of numeric columns by the ends of the true values.

    Raises BadInput if a column has neither.
    """
    attributes: list[Attribute] = []
    for a in schema.attributes:
        if isinstance(a, Numeric) and not all(map(math.isfinite, a.bounds)):
            if a.name not in true:
                raise BadInput(f"the true rows lack column {a.name!r}")
            low, high = column_range(a, true[a.name].to_numpy(dtype=float, na_value=np.nan))
            if math.isnan(low) or math.isnan(high):
                raise BadInput(f"column {a.name!r} has neither bounds nor values to guess between")
            attributes.append(Numeric(a.name, low, max(low, high), missing=a.missing))
        else:
            attributes.append(a)
    return Schema(attributes, schema.rules)


def guessed_rows(
    schema: Schema,
    n_rows: int,
    rng: np.random.Generator,
    cuts: Mapping[str, FloatArray] = MappingProxyType({}),
) -> pd.DataFrame:
    """Guess rows as :func:`random_rows` does, under a schema with bounds.

    ``cuts``: thresholds of columns of numbers, sorted. Their values are guessed as thickly as these
    lie: as likely between two neighbours as between any others, and at the ends of the column.
    Raises BadSchema if less than one guess in a thousand meets the rules.
    """
    found: list[FloatArray] = []
    n_found = 0
    for _ in range(MOST_TRIES):
        parts = [_values(a, n_rows, rng, cuts.get(a.name)) for a in schema.attributes]
        block = np.hstack(parts)
        found.append(block[schema.valid(block, schema.columns)])
        n_found += len(found[-1])
        if n_found >= n_rows:
            return pd.DataFrame(np.vstack(found)[:n_rows], columns=list(schema.columns))
    raise BadSchema("the rules of the schema allow less than one random row in a thousand")


def _values(
    attribute: Attribute, n: int, rng: np.random.Generator, cuts: FloatArray | None
) -> FloatArray:
    match attribute:
        case Numeric(low=low, high=high) | Ordinal(low=low, high=high) if cuts is not None:
            ends = np.concatenate([[low], np.clip(cuts, low, high), [high]])
            place = rng.uniform(0, len(ends) - 1, size=(n, 1))
            found = np.asarray(np.interp(place, np.arange(len(ends)), ends))
            return np.rint(found) if isinstance(attribute, Ordinal) else found
        case OneHot(members=members, at_most_one=at_most_one):
            chosen = rng.integers(len(members) + at_most_one, size=n)
            return np.eye(len(members) + 1)[chosen, : len(members)]
        case Categorical(values=values):
            return rng.choice(np.array(values, dtype=float), size=(n, 1))
        case Numeric(low=low, high=high):
            return rng.uniform(low, high, size=(n, 1))
        case Ordinal(low=low, high=high):
            return rng.integers(low, high, size=(n, 1), endpoint=True).astype(float)
        case _:
            return rng.integers(2, size=(n, 1)).astype(float)
