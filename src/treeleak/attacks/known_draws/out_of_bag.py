"""Out-of-bag predictions as constraints on each row: sums over the trees that did not draw it.

The row's leaf in each of these trees has a value, and the values add up to what the file says of
the row. What no choice of the other leaves can make up for is ruled out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.compiled import lowest_bit, njit
from treeleak.core.private import shows_no_value
from treeleak.evidence import KnownDraws

_AT_ONCE = 2**24
"""Predictions that are held at once."""


@shows_no_value
class RowSums(NamedTuple):
    """What leaf values add up to, over the trees that did not draw a row; several sums each."""

    value: FloatArray
    """Shape (n_leaves, n_sums). Of each leaf (row of A)."""
    about: BoolArray
    """Shape (n_sums, n_trees). Over which trees each sum goes, if they did not draw the row."""
    total: FloatArray
    """Shape (n_rows, n_sums). NaN where nothing is known."""
    off: FloatArray
    """Shape (n_sums,). By how much a sum may be off."""
    beside: BoolArray
    """Shape (n_trees, n_rows). Trees that did not draw a row, and over which its sums go."""

    @classmethod
    def of(cls, evidence: KnownDraws) -> RowSums | None:
        """Turn means into sums; None where the evidence has none."""
        trees, n_rows = evidence.geometry.release.trees, evidence.n_rows
        start = evidence.geometry.leaf_start
        out = evidence.draws == 0
        values, about, totals, offs = [], [], [], []
        for means in evidence.out_of_bag:
            n = len(means.values)
            told = means.first + n <= len(evidence.draws) and len(means.mean) == n_rows
            part = trees[means.first : means.first + n]
            same = [len(v) == tree.n_nodes for v, tree in zip(means.values, part, strict=False)]
            if not told or not all(same):
                continue
            # The shares of all classes add up to one: the first says nothing new.
            some = slice(min(1, means.mean.shape[1] - 1), None)
            mine = np.zeros(len(trees), dtype=bool)
            mine[means.first : means.first + n] = True
            leaf_values = [v[tree.leaves, some] for v, tree in zip(means.values, part, strict=True)]
            held = np.zeros((int(start[-1]), means.mean[:, some].shape[1]))
            held[start[means.first] : start[means.first + n]] = np.concatenate(leaf_values)
            n_out = out[mine[: len(out)]].sum(axis=0)[:, None]
            values.append(held)
            about.append(np.tile(mine, (held.shape[1], 1)))
            totals.append(np.where(n_out > 0, means.mean[:, some] * n_out, np.nan))
            offs.append(n * means.off()[some])
        if not values:
            return None
        total = np.concatenate(totals, axis=1)
        total[~evidence.drawn] = np.nan
        known = np.concatenate(about).T @ ~np.isnan(total).T
        beside = np.zeros((len(trees), n_rows), dtype=bool)
        beside[: len(out)] = out & known[: len(out)]
        value = np.concatenate(values, axis=1)
        return cls(value, np.concatenate(about), total, np.concatenate(offs), beside)

    def met(
        self, row: IntArray, place: NDArray[np.integer[Any]], leaf: NDArray[np.integer[Any]]
    ) -> BoolArray:
        """Say of some rows, each in a leaf (row of A) of every tree, whether they meet their sums.

        ``row`` and ``place``, shape (n_lines,): a row, and which line of ``leaf``, shape
        (n_places, n_trees), has its leaves.
        """
        out = np.ones(len(row), dtype=bool)
        step = max(_AT_ONCE // max(leaf.shape[1], 1), 1)
        for begin in range(0, len(row), step):
            some = slice(begin, begin + step)
            beside = self.beside.T[row[some]]
            for j, trees in enumerate(self.about):
                total = self.total[row[some], j]
                values = self.value[leaf[place[some]][:, trees], j]
                added = np.where(beside[:, trees], values, 0.0)
                near = np.abs(added.sum(axis=1) - total) <= self.off[j]
                out[some] &= near | np.isnan(total)
        return out


@njit()
def narrow_sums(
    rows: Any, domain: Any, sums: Any, leaf_start: Any, word_start: Any, changed: Any
) -> None:
    """Rule out leaves of some rows with which their sums cannot be met, in place.

    ``changed`` is set for rows of which leaves went. Of a class for which a sum cannot be met,
    nothing is left.
    """
    none, one = np.uint64(0), np.uint64(1)
    value, about, total, off, beside = sums.value, sums.about, sums.total, sums.off, sums.beside
    n_trees = len(leaf_start) - 1
    low, high = np.empty(n_trees), np.empty(n_trees)
    for k in rows:
        for c in range(domain.shape[1]):
            d = domain[k, c]
            moved = False
            for word in d:
                moved |= word != none
            while moved:
                moved = False
                for j in range(total.shape[1]):
                    if np.isnan(total[k, j]):
                        continue
                    least, most, possible = 0.0, 0.0, True
                    for t in range(n_trees):
                        if not (about[j, t] and beside[t, k]):
                            continue
                        low[t], high[t] = np.inf, -np.inf
                        for w in range(word_start[t], word_start[t + 1]):
                            word = d[w]
                            while word:
                                e = leaf_start[t] + 64 * (w - word_start[t]) + lowest_bit(word)
                                word &= word - one
                                low[t] = min(low[t], value[e, j])
                                high[t] = max(high[t], value[e, j])
                        possible &= low[t] <= high[t]
                        least, most = least + low[t], most + high[t]
                    possible &= least <= total[k, j] + off[j] and most >= total[k, j] - off[j]
                    if not possible:
                        d[:] = none
                        changed[k], moved = True, False
                        break
                    for t in range(n_trees):
                        if not (about[j, t] and beside[t, k]):
                            continue
                        up = total[k, j] + off[j] - (least - low[t])
                        down = total[k, j] - off[j] - (most - high[t])
                        if low[t] >= down and high[t] <= up:
                            continue
                        for w in range(word_start[t], word_start[t + 1]):
                            word = d[w]
                            while word:
                                bit = word & (~word + one)
                                e = leaf_start[t] + 64 * (w - word_start[t]) + lowest_bit(word)
                                word &= word - one
                                if value[e, j] > up or value[e, j] < down:
                                    d[w] &= ~bit
                                    changed[k] = moved = True
