"""Rebuilt rows held against the training rows, and against yardsticks: one matching, one test."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.baselines import (
    BaselineComparison,
    BaselineRun,
    compare,
    run_baselines,
)
from treeleak.auditing.assessors.counts import THRESHOLD
from treeleak.auditing.assessors.domains import Domains
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.metrics import Guesses, Individual, Significance, individual_errors, significance
from treeleak.metrics.baseline import bounded_schema
from treeleak.metrics.encoding import encoded_pair, table_columns
from treeleak.metrics.knn_baselines import usual_of_group
from treeleak.metrics.matching import best_matching, paired_distances, right_values
from treeleak.metrics.scores import Scores, paired_t_test, scores_of
from treeleak.release.release import Release
from treeleak.schema import Schema

N_SHUFFLES = 199
_MOST_PEOPLE = 6_000


@dataclass(frozen=True)
class InOrder(Serialisable):
    """Row k held against person k."""

    error: float
    """Mean distance of a value that was not given from that of the person in its place."""
    usual: float
    """The same for the usual values of the person's class: the baseline of an adversary who knows
    the population and the class of each person."""
    others: float
    """The same for the rebuilt rows against other people of the same class."""
    nearer_than_usual: float
    """Probability of so large a margin over the usual values, were there none, over people."""
    nearer_than_others: float
    """(1 + shuffles of the people within their classes that are as near) / (1 + shuffles)."""


def measure_in_order(
    rebuilt: pd.DataFrame,
    true: pd.DataFrame,
    group: IntArray,
    open_: BoolArray,
    schema: Schema,
    seed: int,
) -> InOrder | None:
    """Hold row k of a reconstruction against row k of the training set.

    If the rows told nothing of the person in each place but the class, people of one class could
    change places: the error would be that of any such shuffle. Of more than 6,000 people, some
    chosen at random are shuffled.

    ``rebuilt`` and ``true``: row by row, in the same columns. ``group``, shape (n_rows,): class of
    each person. ``open_``, shape (n_rows, n_columns): which values were not given. Returns None
    where all was given.
    """
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(open_.any(axis=1))
    if not len(rows):
        return None
    rows = np.sort(rng.permutation(rows)[:_MOST_PEOPLE])
    rebuilt, people = (t.iloc[rows].reset_index(drop=True) for t in (rebuilt, true))
    group, open_ = group[rows], open_[rows]
    bounded = bounded_schema(schema, true)
    mine, theirs = encoded_pair(rebuilt, people, bounded)

    def held(order: IntArray) -> FloatArray:
        return _by_row(np.minimum(np.abs(mine - theirs[order]), 1.0), open_)

    distances = held(np.arange(len(rows)))
    usual = _by_row(
        paired_distances(usual_of_group(people, bounded, group), people, bounded), open_
    )
    shuffled = np.array([held(_shuffled(group, rng)).mean() for _ in range(N_SHUFFLES)])
    as_near = int((shuffled <= distances.mean() + 1e-12).sum())
    return InOrder(
        error=float(distances.mean()),
        usual=float(usual.mean()),
        others=float(shuffled.mean()),
        nearer_than_usual=paired_t_test(distances, usual),
        nearer_than_others=(1 + as_near) / (1 + N_SHUFFLES),
    )


def _by_row(distance: FloatArray, open_: BoolArray) -> FloatArray:
    return np.asarray((distance * open_).sum(axis=1) / open_.sum(axis=1))


def _shuffled(group: IntArray, rng: np.random.Generator) -> IntArray:
    """Let people of one class change places."""
    order = np.empty(len(group), dtype=np.int64)
    # Two orders in which the classes follow each other alike, one of them at random within.
    order[np.argsort(group, kind="stable")] = np.lexsort((rng.random(len(group)), group))
    return order


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which rebuilt row stands for which training row, and how far each value is off."""

    rebuilt: IntArray
    """Shape (n_rows,). Numbers of the rebuilt rows that were compared."""
    true: IntArray
    """Shape (n_rows,). Number of the training row matched with each."""
    distance: FloatArray
    """Shape (n_rows, n_columns)."""
    provided: BoolArray
    """Shape (n_rows, n_columns). Which values were given."""
    columns: tuple[str, ...]
    errors: FloatArray
    """Shape (n_rows,). Of each training row, in their order: mean over what was not given, NaN
    where all was."""
    tested: FloatArray
    """Shape (n_rows,). The same, without people who are like nine others or more: none of them is
    told apart."""
    misses: FloatArray
    """Shape (n_rows,). Of each of these: 1 where some value is wrong, numbers by more than 1 % of
    their range."""
    tried: tuple[BaselineRun, ...]
    """Yardsticks, measured; first random guesses; none while they have not been tried."""

    @property
    def random(self) -> Guesses | None:
        """Random guesses."""
        return self.tried[0].guesses if self.tried else None


@dataclass(frozen=True, eq=False)
class Tables:
    """Rebuilt rows, and the training rows that they are held against: as many."""

    rebuilt: pd.DataFrame
    true: pd.DataFrame
    known: pd.DataFrame
    """Like the rebuilt rows: which values were given."""
    control: pd.DataFrame | None
    schema: Schema
    group: IntArray | None
    """Class of each training row, where rebuilt row k stands for training row k; else None."""
    domains: Domains | None = None
    """Of the columns, in which guesses are written, too."""
    left_out: int = 0
    """Columns that no tree tests, if these are without them. The model holds nothing of them, and
    whoever knows the population knows more: beside the others, they hide what it discloses."""

    def tested(self, free: Collection[str]) -> Tables | None:
        """Leave out the attributes that no tree tests; None where there are none, or no others.

        ``free``: columns that no tree tests. A rule between columns holds while all of them stay.
        """
        schema = self.schema.within(lambda a: not set(a.columns) <= set(free))
        columns = list(schema.columns)
        if len(columns) in (0, len(self.schema.columns)) or self.known[columns].to_numpy().all():
            return None
        control = None if self.control is None else self.control[columns]
        tables = self.rebuilt[columns], self.true[columns], self.known[columns]
        left_out = len(self.schema.columns) - len(columns)
        return Tables(*tables, control, schema, self.group, self.domains, left_out)


@dataclass(frozen=True)
class Compared(Serialisable):
    """Rebuilt rows held against the training rows."""

    error: float
    """Mean distance of a value that was not given, under the best matching of rows."""
    scores: Scores | None
    """How far the rebuilt rows are off, categories and numbers apart."""
    individual: Individual
    significance: Significance | None
    in_order: InOrder | None
    yardsticks: tuple[BaselineComparison, ...]
    left_out: int
    """Columns left out because no tree tests them."""
    pairs: Pairs = field(repr=False, compare=False)


def compared(tables: Tables, numbers: IntArray, seed: int) -> Compared:
    """Match rows and measure them, without baselines. ``numbers``: of the rebuilt rows."""
    rebuilt, true, known, schema = tables.rebuilt, tables.true, tables.known, tables.schema
    matching = best_matching(rebuilt, true, schema)
    individual = individual_errors(rebuilt, true, schema, known, seed, matching)
    columns = table_columns(rebuilt, true, schema)
    provided = known[columns].to_numpy()
    wrong = ~right_values(matching.distance * ~provided, columns, schema.attributes).all(axis=1)
    misses = np.empty(len(true))
    misses[matching.true_row] = np.where(provided.all(axis=1), np.nan, wrong)
    group = equal_rows(true)
    counts = np.bincount(group)[group] < THRESHOLD
    errors, misses = (np.where(counts, x, np.nan) for x in (individual.errors, misses))
    return Compared(
        error=float(matching.distance[~provided].mean()),
        scores=scores_of(matching.distance, ~provided, columns, true, bounded_schema(schema, true)),
        individual=individual,
        significance=None,
        in_order=None,
        yardsticks=(),
        left_out=tables.left_out,
        pairs=Pairs(
            numbers, *matching, provided, tuple(columns), individual.errors, errors, misses, ()
        ),
    )  # fmt: skip


def beside_baselines(
    pairs: Pairs, tables: Tables, release: Release, seed: int, before: Pairs | None = None
) -> dict[str, Any]:
    """Hold measured rows against yardsticks and other rows of the population.

    ``before``: of another attack's rows, held against the same training rows: its yardsticks are
    taken, but for those made from the attack. Returns the parts of a comparison that it adds.
    """
    rebuilt, true, known, schema = tables.rebuilt, tables.true, tables.known, tables.schema
    columns, provided, beside = list(pairs.columns), pairs.provided, None
    if provided.any():
        back = np.argsort(pairs.true)
        beside = rebuilt.iloc[back].reset_index(drop=True), known.iloc[back].reset_index(drop=True)
    if before is None or not before.tried:
        domains = tables.domains
        tried = run_baselines(true, schema, release, tables.control, seed, beside, domains)
    else:
        tried = tuple(t for t in before.tried if t.name != "shape")
    nearer = in_order = None
    if tables.control is not None and beside is None:
        nearer = significance(rebuilt, true, tables.control, schema, seed=seed)
    if tables.group is not None:
        in_order = measure_in_order(
            rebuilt[columns], true[columns], tables.group, ~provided, schema, seed
        )
    return {
        "significance": nearer,
        "in_order": in_order,
        "yardsticks": compare(tried, pairs.tested, pairs.misses),
        "pairs": replace(pairs, tried=tried),
    }


def equal_rows(X: pd.DataFrame) -> IntArray:
    """Number the rows so that equal ones have one number."""
    return np.asarray(X.groupby(list(X.columns), dropna=False).ngroup(), dtype=np.int64)
