"""The attack where the grid of thresholds is too large to list.

Rows walk over the grid until they meet every count; the cells that they step into are all that is
ever looked at. Many datasets meet the counts, and which one is handed over decides the error. So
the walk goes on, now under what rows were found to be like, and draws more of them; the answer is
the dataset nearest to the middle of these that meets every count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.consensus import aligned_shares, cheapest, confidence
from treeleak.attacks.large_grid.learned_prior import learned, near
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.row_program import RowProgram
from treeleak.attacks.large_grid.walk_kernels import WalkSettings
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.core.arrays import BoolArray, FloatArray, IntArray
from treeleak.core.clock import Clock, OutOfTime
from treeleak.core.errors import NotCovered
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.side_information.given import Given

__all__ = ["by_walking", "refuse_unlisted"]


_WALKERS = 2
_PRICES = (
    ((0.0, 0.1), (0.12, 0.3), (0.85, 1.0), (1.0, 2.5)),
    ((0.0, 0.3), (0.7, 1.2), (1.0, 2.5)),
)
"""Share of the sweeps done, and price of a missed count there: in even attempts, which suit rows
that resemble each other, and in odd ones."""
_SWEEPS, _PER_ROW = 400, 8
"""Sweeps of the first attempt, at least, and for each row."""
_STEPS = 20
"""Least number of prices in an attempt."""
_HEARD = 40
"""Datasets of both walkers from which is learned, each time, what rows are like."""
_PROGRESS = 0.1
"""Share of the rows not agreed on that an attempt must settle, or the next one takes longer."""
_AT_ONCE = 10.0
"""Work for the integer solver before any walk, about seconds, where the program is small."""
_SOLVE = 3e-6
"""Work for the integer solver after an attempt, about seconds, for each move: about as long."""
_DOUBTED, _DOUBT_SHARE = 2, 0.2
"""Attempts after which it is asked whether the counts can be met at all, and its share of the time.
"""
_SEEN, _VISITS = 0.7, 24
"""Price from which on it is noted where rows are, and how often at most."""
_ALIKE = (0.85, 0.95, 1.0)
"""Least shares of their leaves that rows have in common for them to be looked for only there."""
_SLICE = 20_000
"""Moves between two looks at the clock: about 50 ms."""
_PULL, _LEAST_PULL = 80.0, 0.03
"""What a count that stays missed by one is pulled at by the end of an attempt, as a price, and the
least that a sweep adds to it."""
_SEARCH = WalkSettings(0.1, 0.15, 0.0, 0, False, True, True)
_SAMPLE = WalkSettings(2.2, 0.0, 0.0, 4, False, False, False)
_NEAR = WalkSettings(2.5, 0.0, 0.4, 4, False, False, True)
"""How rows walk until they meet the counts, where they meet them, and from the middle of many to
where they do."""
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


Doubt = Callable[[Clock], Contradiction | None]


class _Contradicted(Exception):
    """The counts were proved to contradict each other."""

    def __init__(self, clash: Contradiction) -> None:
        super().__init__(str(clash))
        self.clash = clash


@dataclass(frozen=True, eq=False)
class _Found:
    """Rows that a walk ended with.

    Attributes
    ----------
    walkers : list of Walker
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

    @classmethod
    def of(cls, walkers: list[Walker], best: Walker, sweeps: int) -> _Found:
        """Note the best rows so far of one of the walkers."""
        rows = best.rows.best.copy()
        atoms = np.ascontiguousarray(rows[:, :-1])
        return cls(walkers, atoms, rows[:, -1].astype(np.int64), best.misfit, sweeps)


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


def by_walking(
    constraints: RowConstraints,
    values: Values,
    clock: Clock,
    seed: int,
    why: str,
    doubt: Doubt = lambda _: None,
) -> Answer:
    """Rebuild rows without a list of the cells.

    Parameters
    ----------
    constraints : RowConstraints
    values : Values
    clock : Clock
    seed : int
    why : str
        Why cells are not enumerated.
    doubt : callable
        Looks for a proof that the counts contradict each other; asked once, when two attempts have
        failed.

    Returns
    -------
    Answer
        "feasible" where every count is met, "infeasible" with the place of the contradiction,
        "unknown" with the best rows so far when the time was up. No row is proved: of cells that
        no row stepped into nothing is known.
    """
    stage = "rebuilding the rows"
    _compiled(constraints, clock)
    cells = f"generated: {why}"
    try:
        found = _walked_until_met(constraints, values, clock, stage, seed, doubt)
    except _Contradicted as proof:
        return Answer("infeasible", values, contradiction=proof.clash, cells=cells)
    rows = _settled(found, values, constraints, clock, stage)
    clock.tell(stage, 1.0, rows.misfit)
    numbers = {
        "grid_points": constraints.geometry.n_points,
        "equations": int((constraints.target > 0).sum()),
        "sweeps": found.sweeps,
    }
    return Answer(
        "unknown" if rows.misfit else "feasible",
        values,
        (rows,),
        numbers=numbers,
        ordered=not constraints.exchangeable,
        cells=cells,
    )


def _compiled(constraints: RowConstraints, clock: Clock) -> None:
    """Compile what walks, which is done once for all, and not held against the time."""
    begin = clock.seconds
    Walker.started(constraints, 0).walked(0, _SEARCH)
    clock.forgive(clock.seconds - begin)


def _walked_until_met(
    constraints: RowConstraints, values: Values, clock: Clock, stage: str, seed: int, doubt: Doubt
) -> _Found:
    """Let rows walk until they meet every count, or until the clock stops.

    Two walkers that started apart are hardly ever wrong about a row in the same way: those on which
    they agree stay where they are when the others start again.
    """
    fixed, begin = np.zeros(constraints.n_rows, dtype=bool), None
    best: _Found | None = None
    length, attempt, done = max(_SWEEPS, _PER_ROW * constraints.n_rows), 0, 0
    program = None if constraints.exchangeable else RowProgram(constraints, values)
    apart = not (constraints.exchangeable or (constraints.held >= 0).any())
    if program is not None and not constraints.open_label.any() and program.small:
        clock.tell(f"{stage}: solving for all at once", 0.0)
        if (solved := _solved_at_once(program, clock, seed)) is not None:
            seeds = np.random.SeedSequence(seed).generate_state(_WALKERS)
            walkers = [Walker.started(constraints, int(s), solved) for s in seeds]
            clock.record(walkers[0].misfit)
            return _Found.of(walkers, walkers[0], 0)
    while True:
        seeds = np.random.SeedSequence([seed, attempt]).generate_state(_WALKERS)
        walkers = [Walker.started(constraints, int(s), begin, fixed) for s in seeds]
        recent = _Recent(attempt % 2 == 0, [], [], [])
        prices, n_open = _PRICES[attempt % 2], int((~fixed).sum())
        search = _SEARCH._replace(pull=max(_PULL / length, _LEAST_PULL), trades=apart)
        for sweeps, price in _schedule(prices, length, constraints, n_open):
            _all_walked(walkers, sweeps, search._replace(price=price))
            done += sweeps
            first = min(walkers, key=lambda w: w.misfit)
            if best is None or first.misfit < best.misfit:
                best = _Found.of(walkers, first, done)
                clock.record(best.misfit)
            clock.tell(stage, 0.7 * done / (done + length), best.misfit)
            if best.misfit == 0 or clock.stopped:
                return best
            recent.note(walkers, constraints, price)
        attempt += 1
        if attempt == _DOUBTED:
            clash = doubt(clock.part(_DOUBT_SHARE * clock.left))
            if clash is not None:
                raise _Contradicted(clash)
        none = False
        if program is not None:
            # Counted in moves, not in seconds: the same on any machine.
            limit = _SOLVE * length * n_open * constraints.n_lively
            solved, none = _solved(program, walkers, recent, limit, clock, stage, seed + attempt)
            if solved is not None:
                walkers[0] = Walker.started(constraints, seed, solved)
                return _Found.of(walkers, walkers[0], done)
        fixed, begin, before = _agreed(walkers, constraints), walkers[0].places, fixed
        if none or fixed.sum() <= before.sum() + _PROGRESS * (~before).sum():
            # Nothing more is learned at this pace; what was agreed on may have been wrong, too.
            length, fixed = 2 * length, np.zeros_like(fixed)


@dataclass(frozen=True, eq=False)
class _Recent:
    """Where rows were of late.

    Attributes
    ----------
    taught : bool
        Whether walkers are told what rows are like. Where there is nothing to be learned, that
        leads astray: every other attempt does without.
    atoms : list of int32 array, shape (n_rows, n_attributes)
    labels : list of int array, shape (n_rows,)
    leaves : list of int32 array, shape (n_rows, n_trees)
        While missed counts were dear.
    """

    taught: bool
    atoms: list[NDArray[np.int32]]
    labels: list[IntArray]
    leaves: list[NDArray[np.int32]]

    def note(self, walkers: list[Walker], constraints: RowConstraints, price: float) -> None:
        """Note where rows are, and tell them now and then what rows are like."""
        if price > _SEEN and not constraints.exchangeable:
            self.leaves.extend(w.rows.leaves.copy() for w in walkers)
        if not self.taught:
            return
        self.atoms.extend(w.atoms.copy() for w in walkers)
        self.labels.extend(w.rows.label.astype(np.int64) for w in walkers)
        if len(self.atoms) >= _HEARD:
            likes = learned(constraints, self.atoms, self.labels)
            for walker in walkers:
                walker.likes = likes._replace(line=walker.rows.label)
            self.atoms.clear()
            self.labels.clear()


def _solved_at_once(program: RowProgram, clock: Clock, seed: int) -> NDArray[np.int32] | None:
    """Ask the integer solver for all rows, wherever they may be."""
    n_rows = program.constraints.n_rows
    nowhere = np.zeros((0, n_rows, program.constraints.draws.shape[1]), dtype=np.int32)
    free = np.ones(n_rows, dtype=bool)
    try:
        return program.solve(program.constraints.label, nowhere, free, _AT_ONCE, clock, seed)[0]
    except OutOfTime:
        return None


def _solved(
    program: RowProgram,
    walkers: list[Walker],
    recent: _Recent,
    limit: float,
    clock: Clock,
    stage: str,
    seed: int,
) -> tuple[NDArray[np.int32] | None, bool]:
    """Let the integer solver place rows, those that walkers agree on only where they were seen."""
    constraints, label = program.constraints, walkers[0].rows.label.astype(np.int64)
    drawn = constraints.draws > 0
    leaves = [w.rows.leaves for w in walkers]
    alike = ((leaves[0] == leaves[1]) | ~drawn).mean(axis=1)
    thinned = recent.leaves[:: max(-(-len(recent.leaves) // _VISITS), 1)]
    seen = constraints.masks.row[np.stack(thinned + leaves)]
    none = False
    for least in _ALIKE:
        clock.tell(f"{stage}: solving for those still open", 0.7)
        try:
            solved, none = program.solve(label, seen, alike < least, limit, clock, seed)
        except OutOfTime:
            return None, False
        if not none:
            return solved, False
    return None, none


def _schedule(
    prices: Sequence[tuple[float, float]], length: int, constraints: RowConstraints, n_open: int
) -> Iterator[tuple[int, float]]:
    """Sweeps between two looks at the clock, and the price of a missed count in them."""
    moves = max(n_open * constraints.n_lively, 1)
    shares, price = np.array(prices).T
    at_once = max(min(_SLICE // moves, length // _STEPS), 1)
    for step in range(0, length, at_once):
        yield at_once, float(np.exp(np.interp(step / length, shares, np.log(price))))


def _all_walked(walkers: list[Walker], sweeps: int, settings: WalkSettings) -> None:
    """Move all walkers on together, so that no answer depends on which is faster."""
    run_all([partial(walker.walked, sweeps, settings) for walker in walkers])


def _agreed(walkers: list[Walker], constraints: RowConstraints) -> BoolArray:
    """Rows of the first walker that stand in the same leaves with all others."""
    drawn = constraints.draws > 0
    places = [np.column_stack([np.where(drawn, w.rows.leaves, -1), w.rows.label]) for w in walkers]
    if not constraints.exchangeable:
        same = [(p == places[0]).all(axis=1) for p in places]
        return np.asarray(np.logical_and.reduce(same))
    agreed = np.ones(constraints.n_rows, dtype=bool)
    for other in places[1:]:
        left = Counter(row.tobytes() for row in other)
        for k, row in enumerate(places[0]):
            left[row.tobytes()] -= 1
            agreed[k] &= left[row.tobytes()] >= 0
    return agreed


def _settled(
    found: _Found,
    values: Values,
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> Rows:
    """Choose among the datasets that meet the counts: the nearest to the middle of many."""
    atoms = np.column_stack([found.atoms, found.label]) + values.atom_start[:-1]
    samples = [atoms]
    widest = int(np.diff(values.start).max(initial=1))
    if max(constraints.n_rows * values.n_values, widest**2) > _MOST_SHARES:
        return _unweighed(atoms, found.misfit, values)
    if not found.misfit and constraints.n_rows:
        samples += _drawn(found, constraints, values, clock, stage)
    marginal = np.bincount(np.concatenate(samples).ravel(), minlength=values.n_atoms)
    prior = values.prior(marginal / len(samples))
    group = found.label if constraints.exchangeable else np.arange(constraints.n_rows)
    share, aligned = aligned_shares(
        values, samples, prior, group, stopped=lambda: clock.stopped
    )  # fmt: skip
    atoms, cost = aligned[0], values.expected_cost(share)
    if len(samples) > 1:
        atoms = _nearest(atoms, cost, values, constraints, clock, stage)
    chosen = values.cheapest(atoms, cost)
    likely = np.take_along_axis(share, chosen, axis=1)
    # An interval is listed as one value and holds many: it is never certain.
    sure = confidence(likely, len(samples), _DOUBT, np.maximum(np.diff(values.start), 2))
    return Rows(chosen, sure, np.zeros(len(chosen), dtype=bool), False, found.misfit)


def _drawn(
    found: _Found, constraints: RowConstraints, values: Values, clock: Clock, stage: str
) -> list[IntArray]:
    """Let the rows walk on under what they are found to be like, and note where they are."""
    walkers = found.walkers
    for walker in walkers:
        walker.forget()
    labels = [w.rows.label.astype(np.int64) for w in walkers]
    drawn: list[NDArray[np.int32]] = []
    for k in range(_FITS + _SAMPLES):
        if clock.stopped:
            break
        fitting = k < _FITS
        if k and k <= _FITS:
            likes = learned(constraints, drawn, labels * (len(drawn) // len(walkers)))
            for walker in walkers:
                walker.likes = likes._replace(line=walker.rows.label)
            drawn = []
        for _ in range(_PER_FIT if fitting else 1):
            sweeps = _BETWEEN if fitting else _APART
            _all_walked(walkers, sweeps, _SAMPLE)
            drawn += [w.atoms.copy() for w in walkers]
        clock.tell(f"{stage}: drawing datasets", 0.7 + 0.2 * k / (_FITS + _SAMPLES), 0)
    both = [np.column_stack(pair) for pair in zip(drawn, labels * len(drawn), strict=False)]
    return [b.astype(np.int64) + values.atom_start[:-1] for b in both]


def _nearest(
    atoms: IntArray,
    cost: FloatArray,
    values: Values,
    constraints: RowConstraints,
    clock: Clock,
    stage: str,
) -> IntArray:
    """Go from the middle to a dataset that meets the counts, if that is near; else as it was."""
    atom_cost = np.minimum.reduceat(cost, values.first, axis=1)
    n_atoms = values.atom_start[-2]
    middle = cheapest(atom_cost[:, :n_atoms], values.atom_start[:-1]) - values.atom_start[:-2]
    middle = np.where(constraints.held < 0, middle, constraints.held)
    label = atoms[:, -1:] - values.atom_start[-2]
    walker = Walker.started(constraints, 0, np.hstack([middle, label]).astype(np.int32))
    walker.likes = near(constraints, atom_cost[:, :n_atoms], _STRENGTH)
    done = 0
    while walker.misfit and done < _NEAREST and not clock.stopped:
        done += walker.walked(_NEAREST // 20, _NEAR)
        clock.tell(f"{stage}: settling on one", 0.9 + 0.1 * done / _NEAREST, 0)
    if walker.misfit:
        return atoms
    there = walker.rows.best.astype(np.int64) + values.atom_start[:-1]
    ways = [float(np.take_along_axis(atom_cost, a, axis=1).sum()) for a in (atoms, there)]
    return there if ways[1] < ways[0] else atoms


def _unweighed(atoms: IntArray, misfit: int, values: Values) -> Rows:
    """Rows where there are too many values to weigh them against each other."""
    chosen = values.first[atoms]
    proved = np.zeros(len(atoms), dtype=bool)
    return Rows(chosen, np.full(chosen.shape, _UNWEIGHED), proved, False, misfit)
