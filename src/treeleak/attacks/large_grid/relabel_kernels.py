"""Compiled moves of a whole column: all of its values get other names at once.

A threshold that is the middle of two values says nothing of either alone. Where most rows hold one
value, most thresholds are middles between it and others. If its name is wrong, so are theirs, and
no single row finds the way back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treeleak.attacks.large_grid.midpoint_kernels import NOBODY, all_tried, is_broken
from treeleak.core.compiled import njit, put

_HUBS, _REACH = 3, 4
"""Values of a column, those at most tests, that are tried with other names; and how far these lie.
"""
_MOST_VALUES = 64
"""Where rows hold more, no single one is in most tests, and all take long to follow."""


@njit()
def relabel_column_values(splits: Any, s: Any, columns: Any, price: float, breach: float) -> None:
    """Give all values of columns other names, where rows are then more likely.

    Each of the values at most tests is tried with names near by, and the others follow, in their
    order. What rows of a class are like has no say: they are as they were, under other names.
    """
    for a in columns:
        new = _better_names(splits, s, a)
        all_tried(splits, s, a, new[s.rank[:, a]], price, breach, 0.0)


@njit()
def _better_names(splits: Any, s: Any, a: int) -> Any:
    """Find the names, one for each rank, under which most tests are met."""
    radix = splits.radix[a]
    nodes, n = np.empty(len(splits.left), np.int64), 0
    often, present = np.zeros(radix, np.int64), np.zeros(radix, np.bool_)
    for v in range(len(splits.left)):
        tested = splits.left[v] >= 0 and splits.attribute[v] == a
        if tested and s.greatest[v] >= 0 and s.least[v] < NOBODY:
            nodes[n] = v
            n += 1
            often[s.greatest[v]] += 1
            often[s.least[v]] += 1
    for k in range(len(s.rank)):
        present[s.rank[k, a]] = True
    values = np.flatnonzero(present)
    new, best = np.arange(radix), np.arange(radix)
    least = _unmet(splits, s, nodes[:n], new)
    if len(values) > _MOST_VALUES or not least:
        return best
    for _ in range(min(_HUBS, len(values))):
        hub = int(np.argmax(often))
        often[hub] = -1
        at = int(np.searchsorted(values, hub))
        for name in range(max(hub - _REACH, at), min(hub + _REACH, radix - len(values) + at) + 1):
            if name == hub or not present[hub]:
                continue
            _follow(splits, s, nodes[:n], values, at, name, new)
            unmet = _unmet(splits, s, nodes[:n], new)
            if unmet < least:
                least = unmet
                put(best, new)
    return best


@njit()
def _unmet(splits: Any, s: Any, nodes: Any, new: Any) -> int:
    """Count the tests that would be broken under other names."""
    n = 0
    for v in nodes:
        n += is_broken(splits, v, new[s.greatest[v]], new[s.least[v]])
    return n


@njit()
def _follow(splits: Any, s: Any, nodes: Any, values: Any, at: int, name: int, new: Any) -> None:
    """Give one value a name, then all others: first those that meet named ones at most tests."""
    n, radix = len(values), len(new)
    for r in range(radix):
        new[r] = r
    place = np.full(radix, -1)
    place[values] = np.arange(n)
    named, met = np.zeros(n, np.bool_), np.zeros(n, np.int64)
    j, new[values[at]] = at, name
    for turn in range(2 * n - 1):
        named[j] = True
        if turn < n - 1:
            for v in nodes:
                most, least = place[s.greatest[v]], place[s.least[v]]
                if most == j:
                    met[least] += 1
                elif least == j:
                    met[most] += 1
            j = int(np.argmax(np.where(named, -1, met)))
        else:
            j = turn - (n - 1)  # Once more, now that all have names.
            if j == at:
                continue
        _name(splits, s, nodes, values, named, place, j, new)


@njit()
def _name(
    splits: Any, s: Any, nodes: Any, values: Any, named: Any, place: Any, j: int, new: Any
) -> None:
    """Give a value the name between those of its neighbours that meets most tests with others."""
    n, q, below, above = len(values), values[j], j - 1, j + 1
    while below >= 0 and not named[below]:
        below -= 1
    while above < n and not named[above]:
        above += 1
    low = new[values[below]] + j - below if below >= 0 else j
    high = new[values[above]] - (above - j) if above < n else len(new) - n + j
    chosen, fewest = min(max(q, low), high), NOBODY
    for other in range(max(low, q - _REACH), min(high, q + _REACH) + 1):
        new[q], unmet = other, 0
        for v in nodes:
            most, least = s.greatest[v], s.least[v]
            if (most == q and named[place[least]]) or (least == q and named[place[most]]):
                unmet += is_broken(splits, v, new[most], new[least])
        nearer = abs(other - q) < abs(chosen - q)
        if unmet < fewest or (unmet == fewest and nearer):
            chosen, fewest = other, unmet
    new[q] = chosen
