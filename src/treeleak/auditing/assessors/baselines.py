"""Yardsticks for rebuilt rows: baselines of an adversary who has less than the leaf counts.

In the order of what they know: the schema; the trees without their counts; the people, as a
population, but none of them alone. Only rows clearly nearer than the strongest of them tell of
single people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.domains import Domains
from treeleak.auditing.serialisable import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.formats.literals import Knows
from treeleak.metrics import Guesses, random_guesses
from treeleak.metrics.baseline import (
    GUESSED_ROWS,
    Maker,
    bounded_schema,
    guessed_rows,
    measured_guesses,
)
from treeleak.metrics.knn_baselines import LIKE, middle_of, mixed_from, nearest_others
from treeleak.metrics.scores import Scores, paired_t_test
from treeleak.release.release import Release
from treeleak.schema import Numeric, Ordinal, Schema

WORDS: Mapping[str, str] = {
    "random": "a random baseline",
    "thresholds": "a baseline with the distribution of the thresholds",
    "shape": "the attack on the shape of the trees alone",
    "mixed": f"a table that mixes every person with the {LIKE} most like them",
    "middle": f"a table with the usual values of the {LIKE} people most like each person",
    "population": "control rows of the population",
}
"""What each yardstick is, in words."""

ENOUGH = 2
"""Rows of the population for each training row, from which on they can stand for it."""

_MANY, _FEW = 100, 20
"""Random baselines; where some values were given: each must be matched on all columns."""
_DRAWS = 10
"""Draws of every other yardstick: what counts is the spread over people."""


@dataclass(frozen=True, eq=False)
class BaselineRun:
    """A yardstick, held against the true rows."""

    name: str
    """One of :data:`WORDS`."""
    knows: Knows
    guesses: Guesses


@dataclass(frozen=True)
class BaselineComparison(Serialisable):
    """A reconstruction held against a yardstick."""

    name: str
    """One of :data:`WORDS`."""
    knows: Knows
    """What it takes: the people as a population, never one of them alone."""
    scores: Scores
    """Of the yardstick."""
    sd: float
    """Standard deviation of its error from draw to draw."""
    nearer: float
    """Probability of so large a margin in the error, were there none
    (:func:`~treeleak.metrics.scores.paired_t_test`)."""
    more_rows: float
    """The same for the share of rows in which every value is right."""


def run_baselines(
    true: pd.DataFrame,
    schema: Schema,
    release: Release,
    control: pd.DataFrame | None,
    seed: int,
    partly_known: tuple[pd.DataFrame, pd.DataFrame] | None = None,
    domains: Domains | None = None,
) -> tuple[BaselineRun, ...]:
    """Hold every yardstick against the true rows that needs no attack.

    ``release``: taken for its thresholds. ``control``: rows of the same population. Where there are
    enough, they take the place of tables made from the true rows, which know these better than
    anybody could. ``partly_known`` ((DataFrame, DataFrame of bool)): rows, in the order of the
    true ones, of which some values are given, and which. ``domains``: what guesses are written
    in.
    """
    bounded, write = bounded_schema(schema, true), None if domains is None else domains.nearest
    draws = _MANY if partly_known is None else _FEW
    found = [
        BaselineRun(
            "random", "schema", random_guesses(true, schema, draws, seed, partly_known, write)
        )
    ]

    def tried(name: str, knows: Knows, make: Maker, draws: int = _DRAWS) -> None:
        guesses = measured_guesses(make, true, schema, draws, seed, partly_known)
        found.append(BaselineRun(name, knows, guesses))

    def at_cuts(sample: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        rows = guessed_rows(bounded, len(sample), rng, cuts)
        return rows if write is None else write(rows)

    if cuts := _cuts(bounded, release):
        tried("thresholds", "model", at_cuts)
    if control is not None and partly_known is None and len(control) >= ENOUGH * len(true):
        people = control[list(true.columns)]

        def drawn(sample: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
            return people.iloc[rng.permutation(len(people))[: len(sample)]].reset_index(drop=True)

        tried("population", "people", drawn)
    elif len(true) > 1:
        whole = nearest_others(true, bounded) if len(true) <= GUESSED_ROWS else None

        def near(sample: pd.DataFrame) -> IntArray:
            return nearest_others(sample, bounded) if whole is None else whole

        tried("mixed", "people", lambda s, rng: mixed_from(s, bounded, near(s), rng))
        tried("middle", "people", lambda s, _: middle_of(s, bounded, near(s)), 1)
    return tuple(found)


def compare(
    tried: Sequence[BaselineRun], errors: FloatArray, misses: FloatArray
) -> tuple[BaselineComparison, ...]:
    """Hold rebuilt rows against yardsticks, person by person.

    ``errors``, shape (n_rows,): error of each true row's values in the rebuilt rows; NaN for people
    who do not count: all of whose values were given, or who are like so many others that nobody is
    told apart. ``misses``, shape (n_rows,): 1 where some value of the row is wrong, else 0; NaN
    likewise.
    """
    return tuple(_held(t, errors, misses) for t in tried)


def _held(tried: BaselineRun, errors: FloatArray, misses: FloatArray) -> BaselineComparison:
    g, n = tried.guesses, len(tried.guesses.errors)
    # The rows that are tested are one draw; the yardstick's mean is that of several.
    sd, sd_of_misses = (float(x.std(ddof=1)) if n > 1 else 0.0 for x in (g.errors, g.misses))
    more = np.sqrt(1 + 1 / n)
    return BaselineComparison(
        tried.name,
        tried.knows,
        g.scores,
        sd,
        paired_t_test(errors, g.row_errors, more * sd, n),
        paired_t_test(misses, g.row_misses, more * sd_of_misses, n),
    )


def _cuts(schema: Schema, release: Release) -> dict[str, FloatArray]:
    """Thresholds of every test of each column of numbers, sorted, as often as they occur."""
    at = {name: k for k, name in enumerate(release.feature_names)}
    found = {}
    for attribute in schema.attributes:
        if isinstance(attribute, (Numeric, Ordinal)) and attribute.name in at:
            k = at[attribute.name]
            cuts = [t.threshold[(t.feature == k) & ~t.is_leaf] for t in release.trees]
            cuts = [points[~np.isnan(points)] for points in cuts]
            if len(points := np.sort(np.concatenate(cuts))):
                found[attribute.name] = points
    return found
