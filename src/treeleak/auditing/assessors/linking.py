"""Linkability: whether rebuilt rows disclose that two records are of one person.

After Giomi and others (2023): two tables have different columns of the same people, and nothing
else shows who is who. An adversary looks for the rebuilt row nearest to each record, and takes two
records for one person's if it is the same row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from treeleak.core.arrays import FloatArray, IntArray
from treeleak.metrics.inference import Rate, Risk, at_most, nearest_rows
from treeleak.reconstruction import Reconstruction
from treeleak.schema import Attribute

if TYPE_CHECKING:
    from collections.abc import Callable

    Known = Callable[[Sequence[Attribute], Sequence[pd.DataFrame], pd.DataFrame], list[FloatArray]]

MOST_PAIRS = 10_000_000
"""Pairs of people and rebuilt rows that are compared."""
FEWEST_PEOPLE = 500
"""People that are tried, however many rebuilt rows there are."""

GIVEN = (
    "Not assessed: parts of the rows were given, and an adversary who has them need not link them."
)
ONE_COLUMN = "Not assessed: to link two tables, each needs a column that trees test."


def linked(
    rebuilt: Reconstruction,
    true: pd.DataFrame,
    tried: pd.DataFrame,
    control: pd.DataFrame | None,
    known: Known,
    rng: np.random.Generator,
) -> Risk | str:
    """Try to link two halves of the columns that trees test, chosen at random.

    ``known`` writes what is known of rows so that sums of differences are distances. Returns why
    nothing was tried, where that is so.
    """
    if rebuilt.X is None or rebuilt.given.any():
        return GIVEN
    free = set(rebuilt.free_columns)
    tested = [a for a in rebuilt.schema.attributes if not set(a.columns) <= free]
    if len(tested) < 2:
        return ONE_COLUMN
    order = rng.permutation(len(tested))
    halves = [[tested[k] for k in sorted(order[side::2])] for side in (0, 1)]
    # The order of rows tells nothing here, nor how many are alike.
    reconstructed = rebuilt.X.drop_duplicates().sort_values(
        list(rebuilt.X.columns), ignore_index=True
    )
    n = max(FEWEST_PEOPLE, MOST_PAIRS // len(reconstructed))
    people = [at_most(X, n, rng) for X in (tried, control) if X is not None]

    def nearest(half: Sequence[Attribute]) -> list[IntArray]:
        rows, *persons = known(half, [reconstructed, *people], true)
        return [nearest_rows(half_rows, rows, rng) for half_rows in persons]

    same = [a == b for a, b in zip(*map(nearest, halves), strict=True)]
    found = [Rate(int(hit.sum()), len(hit)) for hit in same]
    m = len(people[0])
    chance = (
        rng.integers(len(reconstructed), size=m) == rng.integers(len(reconstructed), size=m)
    ).sum()
    return Risk(found[0], Rate(int(chance), m), found[1] if len(found) > 1 else None)
