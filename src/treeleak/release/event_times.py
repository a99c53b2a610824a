"""Times of events, and who had one, from the curves in the nodes of survival trees.

A node holds the Nelson-Aalen estimate of its rows, a sum over times: where d rows have an event
while n are at risk, it grows by d / n. Rows count as often as they were drawn. So the curve of a
root says how often rows with an event at each time were drawn, and how many rows left between two
events without one: n falls by both. Whoever knows the draws knows who they are: few rows were drawn
as often as that in every tree. In leaves, steps say in which one a row with an event lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.errors import BadModel
from treeleak.core.private import dataclass
from treeleak.release.row_facts import NOT_TOLD, RowFacts
from treeleak.release.tree import Tree

MOST_WORK = 2**32
"""Rows times strata times trees, up to which rows are held against draws, some 4 s for a sweep."""
MOST_ENTRIES = 2**27
"""Rows times strata, each a byte."""
MOST_STEPS = 2**20
"""Steps of all roots, each of which is written as a fraction in some 10 microseconds."""
MOST_OPEN = 8
"""Rows that may lie in a set, for each tree. Of 800 rows, the draws of 100 trees determine which
16 lie in a set, but not which 32; of 200, which 48 (random sets, five each)."""
MOST_PIVOTS = 2**36
"""Entries of equations, times their rows and columns, in all linear programs of a file: simplex
methods take about as many steps as there are rows and columns, each over all entries."""
_STEPS = 20
"""Times the rows and columns of a linear program, beyond which it is given up."""
_ROUNDED = 1e-11
"""What rounding makes of a step."""
_SWEEPS, _ROUNDS = 50, 10


@dataclass(frozen=True, eq=False)
class Curves:
    """Estimates in the nodes of survival trees.

    Raises
    ------
    BadModel
        On arrays that do not fit, and on curves that no rows make.
    """

    times: FloatArray
    """Shape (n_times,). Every time at which something happened to a row, ascending."""
    is_event: BoolArray
    """Shape (n_times,). Whether some row had an event then; the others left without one."""
    hazard: tuple[FloatArray, ...]
    """Of each tree, cumulative hazards, shape (n_nodes, n_times)."""

    def __post_init__(self) -> None:
        n = len(self.times)
        if self.times.ndim != 1 or not n or self.is_event.shape != (n,):
            raise BadModel("times of events that are no list, or flags of others")
        if not np.isfinite(self.times).all() or (np.diff(self.times) <= 0).any():
            raise BadModel("times of events that do not ascend")
        for t, hazard in enumerate(self.hazard):
            if hazard.ndim != 2 or hazard.shape[1] != n:
                raise BadModel(f"tree {t}: curves of other than {n} times")
            steps = np.diff(hazard, axis=1, prepend=0.0)
            bad = (~((steps >= 0) & (steps <= 1 + _ROUNDED))).any(axis=1)
            if bad.any():
                raise BadModel(f"tree {t}, node {bad.argmax()}: a hazard that falls or jumps")
            if (steps[:, ~self.is_event] > 0).any():
                raise BadModel(f"tree {t}: events at times that are said to have none")

    @property
    def event_times(self) -> FloatArray:
        """Times of events."""
        return self.times[self.is_event]

    def steps(self, t: int) -> FloatArray:
        """Say by how much hazards of tree ``t`` grow, shape (n_nodes, n_event_times)."""
        return np.asarray(np.diff(self.hazard[t], axis=1, prepend=0.0)[:, self.is_event])


@dataclass(frozen=True, eq=False)
class _Groups:
    """What one tree says of how often rows were drawn, by what happened to them.

    Strata: first rows that left, before the first event, after it, and so on; then rows with an
    event, at each of its times.
    """

    start: IntArray
    """Shape (n_groups,). Strata follow each other in groups: where each begins."""
    low: IntArray
    high: IntArray
    """Shape (n_groups,). Between which ends the draws of its rows lie."""


def _of_root(
    steps: FloatArray, total: int, events: IntArray | None = None, leave: IntArray | None = None
) -> _Groups | None:
    """Read the curve of a root, whose rows were drawn ``total`` times; None if it is of no rows.

    ``events``, shape (n_event_times,): draws of the rows with an event then, -1 where not known.
    ``leave``, shape (n_event_times + 1,): how many left at least before the first event, after it,
    and so on; of a root with a step at every event.
    """
    at = np.flatnonzero(steps > 0)
    given = np.full(len(steps), -1) if events is None else events
    left_by: list[int] = [0] * (len(at) + 1) if leave is None else leave.tolist()
    parts = [Fraction(float(steps[j])).limit_denominator(total) for j in at]
    if any(abs(float(part) - steps[j]) > _ROUNDED for j, part in zip(at, parts, strict=True)):
        return None
    # Rows at risk, from above and from below: multiples of what makes the events whole.
    most, least, left, needed = list[int](), list[int](), total, left_by[-1]
    for i, (j, part) in enumerate(zip(at, parts, strict=True)):
        times = max(left - left_by[i], 0) // part.denominator
        most.append(part.denominator * _times(part, times, int(given[j]), min))
        left = most[-1] - most[-1] // part.denominator * part.numerator
    for i, (j, part) in reversed(list(enumerate(zip(at, parts, strict=True)))):
        stay = part.denominator - part.numerator
        if stay < 0 or (needed and not stay):
            return None
        times = max(1, -(-needed // stay) if stay else 1)
        least.append(part.denominator * _times(part, times, int(given[j]), max))
        needed = least[-1] + left_by[i]
    least.reverse()
    if any(a > b for a, b in zip(least, most, strict=True)):
        return None
    pairs = list(zip(least, most, parts, strict=True))
    stay_low = [total, *(a - _events(a, part) for a, _, part in pairs)]
    stay_high = [total, *(b - _events(b, part) for _, b, part in pairs)]
    n_left = len(at) + 1
    low, high = np.zeros(n_left + len(steps), np.int64), np.zeros(n_left + len(steps), np.int64)
    low[:n_left] = [max(0, s - b) for s, b in zip(stay_low, [*most, 0], strict=True)]
    high[:n_left] = [s - a for s, a in zip(stay_high, [*least, 0], strict=True)]
    low[n_left + at] = [_events(a, part) for a, _, part in pairs]
    high[n_left + at] = [_events(b, part) for _, b, part in pairs]
    start = np.concatenate([[0], at + 1, len(steps) + 1 + np.arange(len(steps))])
    return _Groups(start.astype(np.int64), low, high)


def _events(at_risk: int, part: Fraction) -> int:
    """Count the events of which a step says what part of the rows at risk they are."""
    return at_risk // part.denominator * part.numerator


def _times(part: Fraction, bound: int, events: int, choose: Callable[[int, int], int]) -> int:
    """Say how many times the least rows at risk there are, where the events may be known."""
    return bound if events <= 0 else choose(bound, events // part.numerator)


def _narrowed(may: BoolArray, groups: Sequence[_Groups], draws: NDArray[np.integer]) -> bool:
    """Rule out strata of rows, in place; False if no rows have such draws."""
    for _ in range(_SWEEPS):
        before = int(may.sum())
        for one, b in zip(groups, draws, strict=True):
            can = np.logical_or.reduceat(may, one.start, axis=1)
            must = can & (can.sum(axis=1) == 1)[:, None]
            times = b.astype(np.int64)
            held, most = times @ must, times @ can
            if (held > one.high).any() or (most < one.low).any():
                return False
            shut = can & ~must & (times[:, None] > one.high - held)
            # Where the others do not suffice, a row lies there.
            only = can & ~shut & (times[:, None] > most - one.low) & (times > 0)[:, None]
            shut |= only.any(axis=1)[:, None] & ~only
            if shut.any():
                may &= ~np.repeat(shut, np.diff([*one.start, may.shape[1]]), axis=1)
                if not may.any(axis=1).all():
                    return False
        if int(may.sum()) == before:
            break
    return True


def told_in_time(curves: Curves, n_trees: int, n_rows: int) -> bool:
    """Say whether so many rows can be held against so many trees."""
    n_events = int(curves.is_event.sum())
    entries = n_rows * (2 * n_events + 1)
    few = entries <= MOST_ENTRIES and entries * n_trees <= MOST_WORK
    return few and n_trees * n_events <= MOST_STEPS


def trees_rows(trees: Sequence[Tree], draws: NDArray[np.integer] | None) -> int:
    """Count the rows that trees drew from, or all saw; 0 where they do not say."""
    totals = trees[0].totals if trees else None
    if draws is not None:
        return int(draws.shape[1])
    return 0 if totals is None else int(totals[0])


def _solved(
    may: BoolArray,
    groups: Sequence[_Groups],
    draws: NDArray[np.integer],
    few: bool,
    left: list[int],
) -> bool:
    """Ask of some sets of strata which rows lie there, in place; False if no rows do.

    Every tree that says how often the rows of a set were drawn gives an equation. Where only one
    choice of the rows that may lie on both sides meets all of them, the answer is exact. ``few``:
    whether to look for such a choice also with fewer equations than rows, which takes longer.
    ``left``: what is left of ``MOST_PIVOTS``, from which this takes its share, in place.
    """
    n_events = may.shape[1] // 2
    sets = [(s, s + 1) for s in range(n_events + 1, may.shape[1])]
    sets += [(s, n_events + 1) for s in range(1, n_events + 1)]
    times = draws.astype(np.int64)
    for begin, end in sets:
        inside, outside = may[:, begin:end].any(axis=1), may.any(axis=1)
        outside &= may[:, :begin].any(axis=1) | may[:, end:].any(axis=1)
        open_ = np.flatnonzero(inside & outside)
        if not 0 < len(open_) <= len(groups) * (MOST_OPEN if few else 1):
            continue
        right, told = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=bool)
        for t, one in enumerate(groups):
            first, last = np.searchsorted(one.start, (begin, end))
            held = slice(first, last)
            told[t] = one.start[first] == begin and (one.low[held] == one.high[held]).all()
            right[t] = one.low[held].sum()
        right -= times[: len(groups)] @ (inside & ~outside)
        A = times[: len(groups)][told][:, open_]
        if len(open_) > len(A) * (MOST_OPEN if few else 1):
            continue
        pivots = A.size * sum(A.shape)
        if pivots > left[0]:
            continue
        left[0] -= pivots
        x = _only(A.astype(float), right[told].astype(float), few)
        if x is None:
            continue
        there = np.rint(x).astype(np.int64)
        if not np.isin(there, (0, 1)).all() or (A @ there != right[told]).any():
            return False
        may[open_[there == 1], :begin] = may[open_[there == 1], end:] = False
        may[open_[there == 0], begin:end] = False
    return True


def _only(A: FloatArray, right: FloatArray, few: bool) -> FloatArray | None:
    """Find the only numbers from 0 to 1 with ``A x = right``; None where there may be others.

    Fewer equations than numbers are enough where nearly all are 0. The proof are weights ``y`` of
    the equations: if ``y A`` is above 0 wherever x is 0, and below 0 wherever it is 1, every other
    choice changes ``y A x``.
    """
    from scipy.optimize import linprog  # Takes long to load.

    n = A.shape[1]
    if n <= len(A):
        solved, _, rank, _ = np.linalg.lstsq(A, right, rcond=None)
        if rank == n:
            return np.asarray(solved, dtype=float)
    if not few:
        return None
    most = _STEPS * sum(A.shape)
    found = linprog(np.zeros(n), A_eq=A, b_eq=right, bounds=(0, 1), options={"maxiter": most})
    if found.status:
        return None
    x = np.rint(np.asarray(found.x, dtype=float))
    signs = 1.0 - 2.0 * x
    if (A @ x != right).any():
        return None
    sides = -signs[:, None] * A.T, -np.ones(n)
    proof = linprog(np.zeros(len(A)), *sides, bounds=(None, None), options={"maxiter": most})
    if proof.status:
        return None
    apart = signs * (A.T @ np.asarray(proof.x, dtype=float))
    return x if (apart > 0.5).all() else None


def outcomes_of_rows(
    curves: Curves, trees: Sequence[Tree], draws: NDArray[np.integer] | None
) -> RowFacts | None:
    """Say of rows what happened to them, and when, and in which leaf of each tree they lie.

    ``draws``, shape (n_trees, n_rows): how often each tree drew each row; None where every tree
    drew each once: then rows are numbered by what happened to them. Returns None where curves and
    draws do not tell, or do not fit.
    """
    n_trees, n_events = len(trees), int(curves.is_event.sum())
    if not n_trees or not told_in_time(curves, n_trees, trees_rows(trees, draws)):
        return None
    roots = [curves.steps(t)[0] for t in range(n_trees)]
    if draws is None:
        return _every_row(curves, trees, roots[0])
    n_rows, n_strata, left = draws.shape[1], 2 * n_events + 1, [MOST_PIVOTS]
    # Versions that do not heed weights of rows count each row once.
    for counted in (draws.astype(np.int64), (draws > 0).astype(np.int64)):
        may, events = np.ones((n_rows, n_strata), dtype=bool), None
        once, few = _once(curves, n_rows), False
        numbers = np.concatenate([counted, np.ones((1, n_rows), dtype=np.int64)])
        for _ in range(_ROUNDS):
            found = [
                _of_root(r, int(b.sum()), None if events is None else events[t])
                for t, (r, b) in enumerate(zip(roots, counted, strict=True))
            ]
            groups = [one for one in found if one is not None]
            before = int(may.sum())
            fits = len(groups) == n_trees and _narrowed(may, [*groups, once], numbers)
            if not (fits and _solved(may, groups, numbers, few, left)):
                break
            settled = int(may.sum()) == n_rows
            if settled or (few and int(may.sum()) == before):
                return _facts(curves, trees, may, draws)
            few = int(may.sum()) == before
            # With the rows of an event known, so are those at risk.
            last = may[:, n_events + 1 :]
            known = (last & (may.sum(axis=1) > 1)[:, None]).sum(axis=0) == 0
            events = np.where(known, counted @ last, -1)
        else:
            return _facts(curves, trees, may, draws)
    return None


def _once(curves: Curves, n_rows: int) -> _Groups:
    """Each time of an event is that of a row, and so is each time at which one left."""
    n_events = int(curves.is_event.sum())
    gap = np.cumsum(curves.is_event)[~curves.is_event]
    low = np.concatenate([np.bincount(gap, minlength=n_events + 1), np.ones(n_events, np.int64)])
    return _Groups(np.arange(len(low)), low, np.full(len(low), n_rows))


def _every_row(curves: Curves, trees: Sequence[Tree], root: FloatArray) -> RowFacts | None:
    """Number the rows of trees that saw all of them, by what happened to them."""
    n_rows, n_events = trees_rows(trees, None), len(root)
    if not n_rows or not (root > 0).all():
        return None
    once = _once(curves, n_rows).low
    found = _of_root(root, n_rows, leave=once[: n_events + 1])
    if found is None or found.low.sum() > n_rows:
        return None
    # So many there are at least; of the others, nothing is told.
    stratum = np.repeat(np.arange(len(found.low)), np.maximum(found.low, once))
    if len(stratum) > n_rows:
        return None
    may = np.ones((n_rows, len(found.low)), dtype=bool)
    may[: len(stratum)] = stratum[:, None] == np.arange(len(found.low))
    return _facts(curves, trees, may, None)


def _facts(
    curves: Curves, trees: Sequence[Tree], may: BoolArray, draws: NDArray[np.integer] | None
) -> RowFacts:
    """Write down what strata tell of rows."""
    n_rows, n_events = len(may), int(curves.is_event.sum())
    stratum = np.where(may.sum(axis=1) == 1, may.argmax(axis=1), -1)
    leaves = np.full((len(trees), n_rows), NOT_TOLD, dtype=np.int32)
    had = np.flatnonzero(stratum > n_events)
    event = stratum[had] - n_events - 1
    for t, tree in enumerate(trees):
        grows = curves.steps(t)[tree.leaves] > 0
        only = grows.sum(axis=0) == 1
        node = tree.leaves[grows.argmax(axis=0)]
        told = only[event] & (True if draws is None else draws[t, had] > 0)
        leaves[t, had[told]] = node[event[told]]
    times, low, sure = np.full(n_rows, np.nan), np.full(n_rows, np.nan), np.zeros(n_rows)
    high = np.full(n_rows, np.inf)
    times[had] = low[had] = high[had] = curves.event_times[event]
    sure[had] = 1.0
    # Rows that left, though it may be open between which events: when they may have.
    gap = np.cumsum(curves.is_event)[~curves.is_event]
    own, begins = curves.times[~curves.is_event], np.concatenate([[0.0], curves.event_times])
    left = ~may[:, n_events + 1 :].any(axis=1)
    strata, group = np.unique(may[left, : n_events + 1], axis=0, return_inverse=True)
    for g, stratum_of in enumerate(strata):
        rows = np.flatnonzero(left)[group.ravel() == g]
        values = own[stratum_of[gap]]
        one = stratum_of.sum() == 1
        if not one or len(rows) > len(values):
            # Else there are as many rows as times; some may have left at the time of an event.
            values = np.sort(np.concatenate([values, begins[1:][stratum_of[1:]]]))
        if len(values):
            times[rows], low[rows] = values[len(values) // 2], values[0]
            sure[rows] = len(values) == 1
    low = np.where(np.isnan(low), 0.0, low)
    return RowFacts(leaves, times, low, high, sure, in_order=draws is not None)
