"""Datasets drawn row by row, from how probable each candidate is and each point within it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from treeleak.attacks.answer import most_worlds
from treeleak.core.arrays import FloatArray, IntArray

_WORLDS = 40


def drawn_worlds(
    share: sparse.csr_array, row: IntArray, owner: IntArray, log_w: FloatArray, atoms: IntArray
) -> IntArray:
    """Draw datasets; rows are drawn apart, as if what one row is told nothing of another.

    ``share``, shape (n_different, n_pairs): probability of each pair. ``row``, shape (n_rows,):
    where in it each row stands. ``owner``, ``log_w``, ``atoms``, shape (n_points, ...): pair,
    ascending, weight and atoms of each point. Returns atoms, shape (n_worlds, n_rows, n_atoms).
    """
    rng = np.random.default_rng(0)
    u = rng.random((2, min(_WORLDS, most_worlds(len(row))), len(row)))
    pair = share.indices[_drawn(share.data, share.indptr.astype(np.int64), row, u[0])]
    highest = np.full(share.shape[1], -np.inf)
    np.maximum.at(highest, owner, log_w)
    start = np.searchsorted(owner, np.arange(share.shape[1] + 1))
    point = _drawn(np.exp(log_w - highest[owner]), start, pair.astype(np.int64), u[1])
    return atoms[point]


def _drawn(weight: FloatArray, start: IntArray, group: IntArray, u: FloatArray) -> IntArray:
    """Draw one entry of each group by its weight; groups lie one after the other."""
    upto = np.concatenate([[0.0], np.cumsum(weight)])
    low, high = upto[start[group]], upto[start[group + 1]]
    found = np.searchsorted(upto, low + u * (high - low), "right") - 1
    return np.asarray(np.clip(found, start[group], start[group + 1] - 1))
