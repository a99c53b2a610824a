"""Yardsticks for rebuilt rows: baselines of an adversary who has less than the leaf counts.

In the order of what they know: the schema; the trees without their counts; the people, as a
population, but none of them alone. Only rows clearly nearer than the strongest of them tell of
single people.

The baseline from the shape of the trees alone, without any count, has mild assumptions of its own
(rows resemble each other, flags are more often 0 than 1), so it beats a uniform guess even where
the counts say nothing. That much the model did not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.attacks.posterior.noisy_counts import SILENT
from treeleak.auditing.assessors.domains import Domains
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.clock import Progress
from treeleak.core.errors import NotCovered
from treeleak.core.private import dataclass
from treeleak.formats.literals import Knows
from treeleak.metrics import Guesses, random_guesses, same_size
from treeleak.metrics.baseline import (
    GUESSED_ROWS,
    Maker,
    Tally,
    bounded_schema,
    guessed_rows,
    measured_guesses,
)
from treeleak.metrics.knn_baselines import LIKE, middle_of, mixed_from, nearest_others
from treeleak.metrics.scores import Scores, paired_t_test
from treeleak.reconstruction import Reconstruction
from treeleak.reconstruction.run import reconstruct
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import ROWS, Statistics
from treeleak.schema import Numeric, Ordinal, Schema

N_GUESSES = 12
FEWEST = 3
"""Guesses without which their spread is not known."""
MOST_ROWS = 300
"""Rows of a guess where none were given; more would take long and change little."""
_SHARE = 0.25
"""Share of the time limit that a guess may take: far more than it needs."""


@dataclass(frozen=True)
class Shape(Serialisable):
    """Guesses from the shape of the trees alone, against the training rows.

    Attributes
    ----------
    error, sd : float
        Mean and standard deviation of their errors.
    exact_rows : float
        Mean share of the true rows in which every value is right, numbers within 1 % of their
        range.
    n_guesses : int
    """

    error: float
    sd: float
    exact_rows: float
    n_guesses: int

    @classmethod
    def of(cls, guesses: Guesses) -> Shape:
        """Sum guesses up."""
        errors = guesses.errors
        exact = 1.0 - float(guesses.misses.mean())
        return cls(float(errors.mean()), float(errors.std(ddof=1)), exact, len(errors))


def guesses_from_shape(
    release: Release,
    rebuilt: Reconstruction,
    n_true: int,
    time_limit: float,
    seed: int,
    progress: Callable[[Progress], None] | None,
    side_information: Mapping[str, Any],
) -> tuple[Reconstruction, ...]:
    """Guess rows as the attack would if the counts said nothing, with all else that it was given.

    ``release``: its counts, if it has any without noise, are blotted out. ``rebuilt``: what the
    attack made of the counts; after an interruption nothing is guessed. ``n_true``: training rows.
    ``time_limit``: that of the attack. ``side_information``: what was known beside the model, as
    for :func:`treeleak.reconstruct`.
    """
    parts = rebuilt.given.any()
    n_rows = rebuilt.n_rows if parts else min(n_true, MOST_ROWS)
    wanted = min(N_GUESSES, max(FEWEST, N_GUESSES * MOST_ROWS**2 // max(n_rows, 1) ** 2))
    if release.noise is None:
        release, wanted = _silent(release), FEWEST
    found: list[Reconstruction] = []
    while len(found) < wanted and not rebuilt.interrupted:
        if progress is not None:
            done = len(found) / wanted
            progress(Progress("computing the baseline from the shape of the trees", done))
        try:
            guess = reconstruct(
                release, rebuilt.schema, time_limit=_SHARE * time_limit, seed=seed + len(found),
                method="without-counts", n_rows=n_rows, **side_information,
            )  # fmt: skip
        except NotCovered:
            break
        if guess.interrupted or guess.X is None:
            break
        found.append(guess)
    return tuple(found)


def _silent(release: Release) -> Release:
    """Put noise on the counts that hides all of them."""
    trees = tuple(
        replace(
            tree, statistics=Statistics.counting(ROWS, np.zeros((tree.n_nodes, release.n_classes)))
        )
        for tree in release.trees
    )
    classes = release.classes or ("any",)
    return replace(
        release, trees=trees, classes=classes, sampling=AllRows(), noise=SILENT, n_rows=None
    )


def tried_shape(
    guesses: Sequence[Reconstruction], true: pd.DataFrame, schema: Schema, seed: int
) -> BaselineRun | None:
    """Measure guesses in the schema's columns; where they have fewer rows, against as many of the
    training rows.

    None if they are too few to know how they spread.
    """
    columns = list(schema.columns)
    if len(guesses) < FEWEST:
        return None
    tally, rng, n = Tally(true[columns], schema), np.random.default_rng(seed), len(true)
    for guess in guesses:
        if guess.X is None:
            continue
        rows, known = guess.X[columns], None
        if guess.given.any():
            at = same_size(pd.DataFrame({"row": np.arange(len(rows))}), n, seed)["row"]
            known = pd.DataFrame(guess.given, columns=guess.X.columns)[columns]
            rows, known = (t.iloc[at].reset_index(drop=True) for t in (rows, known))
        chosen = np.arange(n) if len(rows) == n else np.sort(rng.permutation(n)[: len(rows)])
        tally.add(rows, chosen, known)
    return BaselineRun("shape", "model", tally.guesses())


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
