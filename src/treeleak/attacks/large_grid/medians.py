"""Numbers of rows that miss counts, from what is believed of a row and where walks have it.

On average, the median of what may be true is nearest to it. It stands in some leaves, and how
probable these are counts more than how probable the value is: thresholds say later where inside
its leaves a value lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.core.private import dataclass
from treeleak.partition.values import Values
from treeleak.schema import Numeric, Ordinal

_BELIEVED = 0.7
"""Share of beliefs in how probable a number is said to be; the rest is that of walks which hold it,
for they may be led astray alike."""


@dataclass(frozen=True, eq=False)
class Medians:
    """Rows whose numbers are medians, and how probable these are."""

    rows: IntArray
    """Shape (n_rows, n_attributes + 1). Atoms numbered over all attributes, the class last. What is
    no number is as in the first walk."""
    sure: FloatArray
    """Shape (n_rows, n_attributes + 1). How probable each number is; NaN where nothing is believed.
    """
    within: FloatArray
    """Shape (n_rows, n_attributes + 1). How probable it is that a number lies where the leaves of
    its row, in the trees that drew it, leave it; 0 where nothing is believed."""


def medians(walks: Sequence[IntArray], constraints: RowConstraints, values: Values) -> Medians:
    """Put numbers at the median of what is believed of a row and of where walks have it.

    Both count the same. ``walks``: rows as in :class:`Medians`.
    """
    best, masks, row = walks[0].copy(), constraints.masks, np.arange(constraints.n_rows)
    sure, within = np.full(best.shape, np.nan), np.zeros(best.shape)
    if constraints.probable is None:
        return Medians(best, sure, within)
    start, known = values.atom_start, np.asarray((constraints.held >= 0).any(axis=0))
    numbers = [
        a
        for a, part in enumerate(values.parts)
        if isinstance(part.attribute, (Numeric, Ordinal)) and not known[a]
    ]
    for a in numbers:
        first = values.first[start[a] : start[a + 1]] - values.start[a]
        order = np.argsort(values.table(a)[first, 0], kind="stable")
        below = _shares(a, walks, constraints.probable, start, 0.5)[:, order].cumsum(axis=1) < 0.5
        best[:, a] = start[a] + order[np.minimum(below.sum(axis=1), len(order) - 1)]
    places = (best - start[:-1])[:, :-1].astype(np.int32)
    leaf, drawn = masks.trace(places), constraints.draws > 0
    for a in numbers:
        share = _shares(a, walks, constraints.probable, start, _BELIEVED)
        sure[:, a] = share[row, places[:, a]]
        total = np.pad(share.cumsum(axis=1), ((0, 0), (1, 0)))
        low, high = masks.around(a, places[:, a], leaf, drawn)
        within[:, a] = total[row, high + 1] - total[row, low]
    return Medians(best, sure, within)


def _shares(
    a: int, walks: Sequence[IntArray], probable: NDArray[np.float32], start: IntArray, heeded: float
) -> FloatArray:
    """How probable the atoms of an attribute are; ``heeded``: share of what is believed in that."""
    out = probable[:, start[a] : start[a + 1]].astype(float)
    out *= heeded / out.sum(axis=1, keepdims=True)
    for walk in walks:
        out[np.arange(len(out)), walk[:, a] - start[a]] += (1 - heeded) / len(walks)
    return out
