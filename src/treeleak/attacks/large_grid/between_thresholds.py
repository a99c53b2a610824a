"""Datasets that thresholds lie halfway in, once rows are near the counts.

Many datasets meet the counts of a forest, or nearly. But a splitter that looks at all values puts a
threshold in the middle of two of them, and every node says so of its own rows: thousands of
equations, of which rows of other datasets break a third or more. So rows walk on from where they
meet the counts, or miss the fewest, now to where tests are not broken either.

Compiled moves of a whole column: all of its values get other names at once.

A threshold that is the middle of two values says nothing of either alone. Where most rows hold one
value, most thresholds are middles between it and others. If its name is wrong, so are theirs, and
no single row finds the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from treeleak.attacks.large_grid.midpoint_constraints import MidpointConstraints
from treeleak.attacks.large_grid.midpoint_kernels import (
    NOBODY,
    Standing,
    all_tried,
    is_broken,
    walk_between,
)
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.arrays import IntArray
from treeleak.core.clock import Clock
from treeleak.core.compiled import njit, put
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass

_COLD = 0.8
"""Share of a walk after which it cools no more: datasets are noted then."""
_NOTED = 20
"""Datasets of each walk that are noted."""
_AT_ONCE, _NAMES = 20_000, 4
"""Moves of a step, at most; and steps between two looks at the names of values."""
_SHARE = 0.6
"""Of the time that is left for a walk from where rows meet the counts, at most."""
_AS_LONG, _BRIEF = 1.0, 10.0
"""Of the time until every count was met, and seconds: longer, rows that have places hardly walk."""
_MISSED, _TRUSTED = 0.0025, 0.1
"""Shares of all counts that may be missed, and of tests that may be broken, in the end. With more,
the walk is not where the training rows are, or thresholds are no such middles."""


@dataclass(frozen=True)
class _Cooling:
    """How a walk cools down."""

    price: tuple[float, float]
    """Of a missed count, as it begins and when it is cold."""
    breach: tuple[float, float]
    """Of a broken test."""
    steps: float
    """At most."""
    moves: int
    """Of each step, for each row that moves."""


_MET = _Cooling((1.0, 2.5), (0.2, 2.0), 100, 100)
"""More moves break tests at first, and still rows leave the counts by little."""
_IN_PLACE = _Cooling((2.5, 10.0), (0.6, 4.0), 400, 100)
"""Where rows have places, few other datasets are near, and walks end where every count is met."""
_MISSING = _Cooling((0.6, 1.5), (0.3, 1.0), np.inf, 20)
"""From where rows miss counts: warmer or colder, they come less near to the training set."""


def drawn_between(
    constraint: MidpointConstraints,
    walkers: list[Walker],
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> list[IntArray]:
    """Let rows that meet the counts walk to where thresholds lie halfway between their values.

    Returns datasets that walks saw when they were cold, the most likely first: finer atoms,
    numbered over all attributes, the class last. They miss a few counts where rows may change
    places. None where thresholds are no such middles, or the time is too short.
    """
    states, drawn = _standing(constraint, walkers), list[tuple[float, IntArray]]()
    # Where rows have places, they miss no count, and break fewer tests than before.
    cooling, missed, broken = _IN_PLACE, 0.0, float(states[0].total[1] - 1)
    limit = max(_AS_LONG * clock.seconds, _BRIEF)
    if constraints.exchangeable:
        cooling, broken, limit = _MET, _TRUSTED * constraint.tests, np.inf
        missed = _MISSED * constraints.n_rows * len(constraint.splits.root)
    part, due = clock.part(min(_SHARE * clock.left, limit)), _COLD
    for done in _walked(constraint, states, constraints, cooling, part):
        if done > due:
            due += (1 - _COLD) / _NOTED
            near = [s for s in states if constraints.exchangeable or not s.total[0]]
            drawn += [(_energy(s), constraint.places(s)) for s in near]
        clock.report_progress(f"{stage}: placing rows beside the thresholds", 0.7 + 0.2 * done, 0)
    drawn.sort(key=lambda sample: sample[0])
    places = [sample for _, sample in drawn]
    there = any(s.total[0] <= missed and s.total[1] <= broken for s in states)
    return (
        places if there and places and constraint.misfit(places[0], constraints) <= missed else []
    )


def nearer(
    constraint: MidpointConstraints,
    walkers: list[Walker],
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> list[IntArray]:
    """Let rows that miss counts walk on, now to where thresholds lie halfway between their values.

    Returns the rows of each walker, those first that miss least: finer atoms, numbered over all
    attributes, the class last. None where no more tests are met than before.
    """
    restarted = [Walker.started(constraints, k, w.rows.best) for k, w in enumerate(walkers)]
    states = _standing(constraint, restarted)
    before = [int(s.total[1]) for s in states]
    for done in _walked(constraint, states, constraints, _MISSING, clock):
        least = min(int(s.total[0]) for s in states)
        clock.report_progress(
            f"{stage}: placing rows beside the thresholds", 0.7 + 0.2 * done, least
        )
    if any(s.total[1] > total for s, total in zip(states, before, strict=True)):
        return []
    return [constraint.places(s) for s in sorted(states, key=_energy)]


def _energy(s: Standing) -> float:
    """How unlikely rows are for a cold walk, but for what rows are like."""
    return _MET.price[1] * float(s.total[0]) + _MET.breach[1] * float(s.total[1])


def _standing(constraint: MidpointConstraints, walkers: list[Walker]) -> list[Standing]:
    return [constraint.standing(walker, seed) for seed, walker in enumerate(walkers)]


def _walked(
    constraint: MidpointConstraints,
    states: list[Standing],
    constraints: RowConstraints,
    cooling: _Cooling,
    clock: Clock,
) -> Iterator[float]:
    """Let datasets walk while they cool down; say after each step how much is done."""
    rows = np.arange(constraints.n_rows)
    flat = constraint.log_share(states[0], constraints.n_classes)
    clock.untimed(partial(walk_between, constraint.splits, states[0], flat, rows, 0, 1.0, 1.0))
    named = constraint.listed if constraints.exchangeable else constraint.listed[:0]
    if len(named):
        clock.untimed(
            partial(relabel_column_values, constraint.splits, states[0], named[:0], 1.0, 1.0)
        )
    wanted, step = cooling.moves * len(states[0].open), 0
    moves = min(wanted, _AT_ONCE)
    begin, limit, done = clock.seconds, clock.left, 0.0 if moves else 1.0
    while done < 1.0 and not clock.stopped:
        cooled = min(done / _COLD, 1.0)
        law = [a * (b / a) ** cooled for a, b in (cooling.price, cooling.breach)]
        walks = []
        for s in states:
            likes = (constraint.log_share(s, constraints.n_classes), s.label)
            walks.append(partial(walk_between, constraint.splits, s, *likes, moves, *law))
        run_all(walks)
        if len(named) and step % _NAMES == 0:
            run_all(
                [partial(relabel_column_values, constraint.splits, s, named, *law) for s in states]
            )
        yield done
        step += 1
        done = max(step * moves / (cooling.steps * wanted), (clock.seconds - begin) / limit)


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
