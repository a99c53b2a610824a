"""Whether rows rebuilt in order disclose the people in their places."""

from __future__ import annotations

import numpy as np
import pandas as pd

from treeleak.auditing.serialisable import Serialisable
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.metrics.baseline import bounded_schema
from treeleak.metrics.encoding import encoded_pair
from treeleak.metrics.knn_baselines import usual_of_group
from treeleak.metrics.matching import paired_distances
from treeleak.metrics.scores import paired_t_test
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
