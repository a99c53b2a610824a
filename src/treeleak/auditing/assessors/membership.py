"""Membership: whether the model discloses who is in the training set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeleak.auditing.assessors.comparison import THE_SAME, too_like
from treeleak.auditing.record import Serialisable
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.metrics.inference import distances
from treeleak.metrics.membership import (
    FALSE_POSITIVES,
    Bounded,
    Calibration,
    Caught,
    advantage,
    auc,
    calibration,
    caught,
)
from treeleak.reconstruction import Reconstruction
from treeleak.release import Release
from treeleak.verification.columns import in_model_columns

if TYPE_CHECKING:
    from treeleak.auditing.case import Case

FEWEST = 20
"""Members, and other people, without which no score tells anything."""
MOST_MEMBERS, MOST_OTHERS = 10_000, 30_000
"""People that are scored; of more, a random part."""
MOST_WORK = 1_000_000_000
"""Leaves that are compared to find the nearest rebuilt rows."""

NO_ROWS = static_message("no rows were rebuilt", "membership_no_rows")
TOO_FEW = MessageTemplate(
    "membership_too_few",
    "it needs {fewest:number} training rows and control rows or more, not {rows:people}",
)
GIVEN = static_message(
    "parts of the training rows were given, so a comparison with other people would not be fair",
    "membership_given",
)
POPULATION_THE_SAME = static_message(
    "the rows of the population are too similar to the training rows to be other samples of it (by "
    "chance less than once in a thousand times): do they contain training rows?",
    "membership_population_the_same",
)
REASONS = (NO_ROWS, THE_SAME, POPULATION_THE_SAME, TOO_FEW, GIVEN)
"""Why membership may be left open."""
POSTERIOR = "the probability that the person is in the table, over all tables that fit the model"
CELLS = (
    "how many rebuilt rows reach the same leaves in all trees, over how many other people do; "
    "where none does, in how many trees the nearest rebuilt row reaches the same leaf"
)

CONTROL, SAMPLE = "control rows", "rows of the population, which this attack did not have"


@dataclass(frozen=True)
class Membership(Serialisable):
    """How well scores of rows, from the rebuilt table, tell training rows from control rows.

    Attributes
    ----------
    score : str
        What the score of a row is.
    against : str
        Who the other people are.
    n_members, n_others : int
        Training rows and other people that were scored.
    auc : Bounded
        How often a training row has the higher score: 0.5 by chance.
    advantage : Bounded
        Share of training rows less share of control rows above a threshold chosen on others.
    at : tuple of Caught
        Training rows told where few control rows are.
    calibration : Calibration or None
        Of the probabilities that people are members, if half of those asked are; None where there
        are no probabilities.
    """

    score: str
    against: str
    n_members: int
    n_others: int
    auc: Bounded
    advantage: Bounded
    at: tuple[Caught, ...]
    calibration: Calibration | None


def assess(case: Case) -> Case:
    """Score training rows and other people, as a part of an audit.

    Without control rows, these are the rows of the population, if such were given: then the attack
    that did not have them is the one that scores.
    """
    request, rebuilt, others, against = case.request, case.rebuilt, case.others, CONTROL
    if request.control is None:
        if rebuilt.without_population is None:
            return case.without("membership", NO_ROWS)
        others = in_model_columns(case.release, request.other_people, what="the population")[0]
        against = SAMPLE
        rebuilt = rebuilt.without_population
        if too_like(case.truth.X, others, request.seed):
            return case.without("membership", POPULATION_THE_SAME)
    if others is None:
        return case.without("membership", THE_SAME)
    if rebuilt.X is None or rebuilt.X.empty:
        return case.without("membership", NO_ROWS)
    if rebuilt.given.any() or request.parts_provided:
        return case.without("membership", GIVEN)
    if (n := min(len(case.truth.X), len(others))) < FEWEST:
        return case.without("membership", TOO_FEW(fewest=FEWEST, rows=n))
    found = membership_of(rebuilt, rebuilt.X, case.release, case.truth.X, others, request.seed)
    return case.plus(membership=replace(found, against=against))


def membership_of(
    rebuilt: Reconstruction,
    rows: pd.DataFrame,
    release: Release,
    true: pd.DataFrame,
    others: pd.DataFrame,
    seed: int,
) -> Membership:
    """Score members and other people by the same rule, which never looks at labels."""
    rng = np.random.default_rng(seed)
    columns = list(release.feature_names)
    members, others = (
        X[columns].iloc[rng.permutation(len(X))[:most]].reset_index(drop=True)
        for X, most in ((true, MOST_MEMBERS), (others, MOST_OTHERS))
    )
    right = None
    if rebuilt.posterior is not None:
        inside, outside = (
            np.asarray(rebuilt.membership(X, 0.5), dtype=np.float64) for X in (members, others)
        )
        right, description = calibration(inside, outside), POSTERIOR
    if rebuilt.posterior is None or not rebuilt.posterior.by_chains:
        leaves, *tables = (release.leaves(X) for X in (rows, members, others))
        inside, outside = _by_cells(leaves, tables[0], tables[1], _weights(rebuilt), rng)
        description = CELLS
    return Membership(
        score=description,
        against=CONTROL,
        n_members=len(members),
        n_others=len(others),
        auc=auc(inside, outside),
        advantage=advantage(inside, outside, rng),
        at=tuple(caught(inside, outside, share) for share in FALSE_POSITIVES),
        calibration=right,
    )


def _by_cells(
    leaves_of_rebuilt: IntArray,
    members: IntArray,
    others: IntArray,
    weights: FloatArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Score rows by the rebuilt rows in their cell, beside the other people there.

    ``leaves_of_rebuilt``, ``members``, ``others``: leaf of each row in each tree. ``weights``: how
    sure each rebuilt row is.
    """
    tables = (leaves_of_rebuilt, members, others)
    cell = np.unique(np.vstack(tables), axis=0, return_inverse=True)[1].ravel()
    n_cells = int(cell.max()) + 1
    ends = np.cumsum([len(t) for t in tables])
    of_rebuilt, of_members, of_others = np.split(cell, ends[:-1])
    here = np.bincount(of_rebuilt, weights=weights, minlength=n_cells)
    # Everybody is held against as many others, never against themselves: else they would differ.
    there = np.bincount(of_others, minlength=n_cells)
    left_out = of_others[rng.integers(len(of_others), size=len(of_members))]
    beside = [there[of_members] - (left_out == of_members), there[of_others] - 1]
    scores = []
    for at, leaves, n in zip((of_members, of_others), tables[1:], beside, strict=True):
        score = here[at] / (n + 1.0)
        none = here[at] == 0
        if none.any():
            score[none] = -_off(leaves[none], leaves_of_rebuilt)
        scores.append(score)
    return scores[0], scores[1]


def _weights(rebuilt: Reconstruction) -> FloatArray:
    """How sure each rebuilt row is: its least confidence in what trees test."""
    if rebuilt.confidence is None:
        return np.ones(rebuilt.n_rows)
    tested = ~rebuilt.confidence.columns.isin(rebuilt.free_columns)
    least: FloatArray = rebuilt.confidence.to_numpy()[:, tested].min(axis=1, initial=1.0)
    # Of rows that are not known to be sure, all are alike.
    return np.maximum(np.nan_to_num(least), 1e-6)


def _off(leaves: IntArray, rebuilt: IntArray) -> FloatArray:
    """Share of the trees in which the nearest rebuilt row reaches another leaf."""
    points = np.unique(rebuilt, axis=0)
    trees = max(1, min(rebuilt.shape[1], MOST_WORK // (len(leaves) * len(points))))
    chosen = np.linspace(0, rebuilt.shape[1] - 1, trees).round().astype(int)
    found = np.empty(len(leaves))
    for part, off in distances(leaves[:, chosen], points[:, chosen], "hamming"):
        found[part] = off.min(axis=1)
    return found
