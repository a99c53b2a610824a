"""The attack where the grid of thresholds is too large to list.

Rows walk over the grid until they meet every count; the cells that they step into are all that is
ever looked at. Many datasets meet the counts, and which one is handed over decides the error. So
the walk goes on, now under what rows were found to be like, and draws more of them; the answer is
the dataset nearest to the middle of these that meets every count.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks._heat_kernels import Bath
from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.consensus import aligned_shares, cheapest
from treeleak.attacks.likeness import learned, near
from treeleak.attacks.space import Values
from treeleak.attacks.statement import Statement
from treeleak.attacks.walkers import Walker
from treeleak.clock import Clock
from treeleak.errors import NotCovered
from treeleak.given import Given
from treeleak.partition import Geometry

__all__ = ["by_walking", "refuse_unlisted"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WALKERS = 2
_LOW, _HIGH = 0.2, 2.5
"""Price of a missed count, first and last."""
_SWEEPS, _PATIENCE = 400, 1
"""Sweeps of the first cooling, and how much longer rows walk in the cold before all begins anew."""
_SLICE = 20_000
"""Moves between two looks at the clock: about 50 ms."""
_SEARCH = Bath(_LOW, 0.2, 0.0, 0.3, 0, 0.0, True)
_SAMPLE = Bath(2.2, 0.0, 0.0, 0.4, 0, 0.0, False)
_CLASSES = 0.05
"""Share of moves that draw the class of a row, where it is not proved."""
_FITS, _PER_FIT, _BETWEEN = 5, 6, 5
"""How often what rows are like is fitted, datasets for each fit, and sweeps before each."""
_SAMPLES, _APART = 40, 6
"""Datasets drawn by each walker after that, and sweeps between them."""
_STRENGTH = 6.0
"""Log prior per column's worth of expected distance, when the middle is approached."""
_NEAREST = 400
"""Sweeps in which a dataset near the middle must meet the counts."""
_UNWEIGHED = 0.5
"""What is said of values where nothing was weighed."""
_DOUBT = 1.0
"""Samples' worth of doubt in every share."""
_MOST_SHARES = 2**27
"""Most (row, value) pairs, and most pairs of values of one attribute: 1 GiB."""


@dataclass(frozen=True, eq=False)
class _Found:
    """Rows that a walk ended with.

    Attributes
    ----------
    walkers : list of Walker
        The one with the least misfit first.
    atoms : int32 array, shape (n_rows, n_attributes)
    label : int array, shape (n_rows,)
    misfit : int
    sweeps : int
        Sweeps of each walker.
    """

    walkers: list[Walker]
    atoms: NDArray[np.int32]
    label: IntArray
    misfit: int
    sweeps: int


def refuse_unlisted(geometry: Geometry, given: Given) -> None:
    """Raise NotCovered if something is given that takes a list of all grid points."""
    if geometry.schema.rules:
        raise NotCovered(
            f"rules between columns on a grid of {geometry.n_points:.3g} points: too many to list"
        )
    if given.population is not None:
        raise NotCovered(
            f"a population on a grid of {geometry.n_points:.3g} points: too many to list"
        )


def by_walking(statement: Statement, values: Values, clock: Clock, seed: int, why: str) -> Answer:
    """Rebuild rows without a list of the cells.

    Parameters
    ----------
    statement : Statement
    values : Values
    clock : Clock
    seed : int
    why : str
        Why cells are not enumerated.

    Returns
    -------
    Answer
        "feasible" where every count is met, else "unknown" with the best rows so far. Nothing is
        proved: of cells that no row stepped into nothing is known.
    """
    stage = "rebuilding the rows"
    _compiled(statement, clock)
    found = _walked_until_met(statement, clock, stage, seed)
    rows = _settled(found, values, statement, clock, stage)
    clock.tell(stage, 1.0, rows.misfit)
    numbers = {
        "grid_points": statement.geometry.n_points,
        "equations": int((statement.target > 0).sum()),
        "sweeps": found.sweeps,
    }
    return Answer(
        "unknown" if rows.misfit else "feasible",
        values,
        (rows,),
        numbers=numbers,
        ordered=not statement.exchangeable,
        cells=f"generated: {why}",
    )


def _compiled(statement: Statement, clock: Clock) -> None:
    """Compile what walks, which is done once for all, and not held against the time."""
    begin = clock.seconds
    Walker.started(statement, 0).walked(0, _SEARCH)
    clock.forgive(clock.seconds - begin)


def _walked_until_met(statement: Statement, clock: Clock, stage: str, seed: int) -> _Found:
    """Let rows walk until they meet every count, or until the clock stops."""
    each = max(statement.n_rows * max(len(statement.trees.lively), 1), 1)
    at_once = max(_SLICE // each, 1)
    search = _SEARCH._replace(classes=_CLASSES if statement.open_label.any() else 0.0)
    best: tuple[int, NDArray[np.int32]] | None = None
    done, length, attempt = 0, _SWEEPS, 0
    with ThreadPoolExecutor(_WALKERS) as pool:
        while True:
            walkers = [
                Walker.started(statement, seed + 7919 * attempt + i) for i in range(_WALKERS)
            ]
            step = 0
            while step < length * (1 + _PATIENCE):
                way = min(step / length, 1.0)
                bath = search._replace(price=_LOW * (_HIGH / _LOW) ** way)
                # Together step by step, so that the answer does not depend on which is faster.
                list(pool.map(partial(Walker.walked, sweeps=at_once, bath=bath), walkers))
                step += at_once
                done += at_once
                first = min(walkers, key=lambda w: w.misfit)
                if best is None or first.misfit < best[0]:
                    best = first.misfit, first.rows.best.copy()
                    clock.record(best[0])
                clock.tell(stage, 0.7 * min(1.0, done / (done + length)), best[0])
                if best[0] == 0 or clock.stopped:
                    walkers.sort(key=lambda w: w.misfit)
                    atoms = np.ascontiguousarray(best[1][:, :-1])
                    return _Found(walkers, atoms, best[1][:, -1].astype(np.int64), best[0], done)
            attempt, length = attempt + 1, 2 * length


def _settled(
    found: _Found,
    values: Values,
    statement: Statement,
    clock: Clock,
    stage: str,
) -> Rows:
    """Choose among the datasets that meet the counts: the nearest to the middle of many."""
    atoms = np.column_stack([found.atoms, found.label]) + values.atom_start[:-1]
    samples = [atoms]
    widest = int(np.diff(values.start).max(initial=1))
    if max(statement.n_rows * values.n_values, widest**2) > _MOST_SHARES:
        return _unweighed(atoms, found.misfit, values)
    if not found.misfit:
        samples += _drawn(found, statement, values, clock, stage)
    marginal = np.bincount(np.concatenate(samples).ravel(), minlength=values.n_atoms)
    prior = values.prior(marginal / len(samples))
    group = found.label if statement.exchangeable else np.arange(statement.n_rows)
    share, aligned = aligned_shares(
        values, samples, prior, group, stopped=lambda: clock.stopped
    )  # fmt: skip
    atoms, cost = aligned[0], values.expected_cost(share)
    if len(samples) > 1:
        atoms = _nearest(atoms, cost, values, statement, clock, stage)
    chosen = _cheapest_within(atoms, cost, values)
    n_values = np.diff(values.start)
    likely = np.take_along_axis(share, chosen, axis=1)
    # An interval is listed as one value and holds many: it is never certain.
    sure = (len(samples) * likely + _DOUBT / np.maximum(n_values, 2)) / (len(samples) + _DOUBT)
    return Rows(chosen, sure, np.zeros(len(chosen), dtype=bool), False, found.misfit)


def _drawn(
    found: _Found, statement: Statement, values: Values, clock: Clock, stage: str
) -> list[IntArray]:
    """Let the rows walk on under what they are found to be like, and note where they are."""
    walkers = found.walkers
    for walker in walkers:
        walker.forget()
    labels = [w.rows.label.astype(np.int64) for w in walkers]
    drawn: list[NDArray[np.int32]] = []
    with ThreadPoolExecutor(len(walkers)) as pool:
        for k in range(_FITS + _SAMPLES):
            if clock.stopped:
                break
            fitting = k < _FITS
            if k and k <= _FITS:
                likes = learned(statement, drawn, labels * (len(drawn) // len(walkers)))
                for walker in walkers:
                    walker.likes = likes._replace(line=walker.rows.label)
                drawn = []
            for _ in range(_PER_FIT if fitting else 1):
                sweeps = _BETWEEN if fitting else _APART
                list(pool.map(partial(Walker.walked, sweeps=sweeps, bath=_SAMPLE), walkers))
                drawn += [w.atoms.copy() for w in walkers]
            clock.tell(f"{stage}: drawing datasets", 0.7 + 0.2 * k / (_FITS + _SAMPLES), 0)
    both = [np.column_stack(pair) for pair in zip(drawn, labels * len(drawn), strict=False)]
    return [b.astype(np.int64) + values.atom_start[:-1] for b in both]


def _nearest(
    atoms: IntArray,
    cost: FloatArray,
    values: Values,
    statement: Statement,
    clock: Clock,
    stage: str,
) -> IntArray:
    """Go from the middle to a dataset that meets the counts, if that is near; else as it was."""
    first = np.searchsorted(values.atom_of, np.arange(values.n_atoms))
    atom_cost = np.minimum.reduceat(cost, first, axis=1)
    n_atoms = values.atom_start[-2]
    middle = cheapest(atom_cost[:, :n_atoms], values.atom_start[:-1]) - values.atom_start[:-2]
    middle = np.where(statement.held < 0, middle, statement.held)
    same = replace(statement, label=atoms[:, -1] - values.atom_start[-2])
    walker = Walker.started(same, 0, middle.astype(np.int32))
    walker.likes = near(same, atom_cost[:, :n_atoms], _STRENGTH)
    done = 0
    while walker.misfit and done < _NEAREST and not clock.stopped:
        done += walker.walked(_NEAREST // 20, _SEARCH._replace(price=_HIGH))
        clock.tell(f"{stage}: settling on one", 0.9 + 0.1 * done / _NEAREST, 0)
    if walker.misfit:
        return atoms
    there = walker.rows.best.astype(np.int64) + values.atom_start[:-1]
    ways = [float(np.take_along_axis(atom_cost, a, axis=1).sum()) for a in (atoms, there)]
    return there if ways[1] < ways[0] else atoms


def _cheapest_within(atoms: IntArray, cost: FloatArray, values: Values) -> IntArray:
    """Value of least cost of each atom."""
    allowed = np.zeros((len(atoms), values.n_atoms), dtype=bool)
    np.put_along_axis(allowed, atoms, values=True, axis=1)
    return cheapest(np.where(allowed[:, values.atom_of], cost, np.inf), values.start)


def _unweighed(atoms: IntArray, misfit: int, values: Values) -> Rows:
    """Rows where there are too many values to weigh them against each other."""
    chosen = np.searchsorted(values.atom_of, atoms)
    proved = np.zeros(len(atoms), dtype=bool)
    return Rows(chosen, np.full(chosen.shape, _UNWEIGHED), proved, False, misfit)
