"""Numbers of rows that miss counts, from what is believed of a row and where walks have it.

On average, the median of what may be true is nearest to it. It stands in some leaves, and how
probable these are counts more than how probable the value is: thresholds say later where inside
its leaves a value lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition.value_index import ValueIndex
from treeleak.schema import Numeric, Ordinal


@dataclass(frozen=True, eq=False)
class Medians:
    """Rows whose numbers are medians, and how probable these are."""

    rows: IntArray
    """Shape (n_rows, n_attributes + 1). Atoms numbered over all attributes, the class last. What is
    no number is as in the first walk."""
    sure: FloatArray
    """Shape (n_rows, n_attributes + 1). How probable each value is, as far as that is believed; NaN
    elsewhere."""
    within: FloatArray
    """Shape (n_rows, n_attributes + 1). How probable it is that a value lies where the leaves of
    its row, in the trees that drew it, leave it; 0 where nothing is believed."""


def medians(walks: Sequence[IntArray], constraints: RowConstraints, values: ValueIndex) -> Medians:
    """Put numbers at the median of what is believed of a row and of where walks have it.

    Beliefs count as much as all walks. ``walks``: rows as in :class:`Medians`.
    """
    best, row = walks[0].copy(), np.arange(constraints.n_rows)
    sure, within = np.full(best.shape, np.nan), np.zeros(best.shape)
    believed, start = constraints.probable, values.atom_start
    if believed is None:
        return Medians(best, sure, within)
    free = np.flatnonzero((constraints.held < 0).all(axis=0)).tolist()
    for a in free:
        if isinstance(values.parts[a].attribute, (Numeric, Ordinal)):
            columns = slice(start[a], start[a + 1])
            share = believed[:, columns].copy()
            for walk in walks:
                share[row, walk[:, a] - columns.start] += 1 / len(walks)
            value = values.table(a)[values.first[columns] - values.start[a], 0]
            order = np.argsort(value, kind="stable")
            below = (share[:, order].cumsum(axis=1) < 1.0).sum(axis=1)
            best[:, a] = columns.start + order[np.minimum(below, len(order) - 1)]
    places = (best - start[:-1])[:, :-1].astype(np.int32)
    low, high = constraints.masks.around(places, constraints.draws > 0)
    for a in free:
        share = believed[:, start[a] : start[a + 1]]
        total = np.pad(share.cumsum(axis=1), ((0, 0), (1, 0)))
        sure[:, a] = share[row, places[:, a]]
        within[:, a] = total[row, high[:, a] + 1] - total[row, low[:, a]]
    return Medians(best, sure, within)
