"""The attack where the grid of thresholds is too large to list.

Rows walk over the grid until they meet every count; the cells that they step into are all that is
ever looked at. Many datasets meet the counts, and which one is handed over decides the error. So
the walk goes on, now under what rows were found to be like, and draws more of them; the answer is
the dataset nearest to their Bayes estimate that meets every count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.answer import Answer
from treeleak.attacks.large_grid.learned_prior import learned
from treeleak.attacks.large_grid.middles import say_more
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.row_program import RowProgram
from treeleak.attacks.large_grid.settling import settled, unweighed
from treeleak.attacks.large_grid.walk_kernels import WalkSettings
from treeleak.attacks.large_grid.walkers import Found, Walker, all_walked, taught
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import GRACE, Clock, OutOfTime
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.private import dataclass
from treeleak.evidence import Contradiction
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.side_information.given import Given

_WALKERS = 2
_PRICES = (
    ((0.0, 0.1), (0.12, 0.3), (0.85, 1.0), (1.0, 2.5)),
    ((0.0, 0.3), (0.7, 1.2), (1.0, 2.5)),
)
"""Share of the sweeps done, and price of a missed count there: in even attempts, which suit rows
that resemble each other, and in odd ones, or where rows begin at places that are probable."""
_SWEEPS, _PER_ROW, _PER_WALLED_ROW = 400, 8, 4
"""Sweeps of the first attempt: at least, for each row, and where it is known of many leaves that
rows do not lie there."""
_LONG = 15_000_000
"""Moves, about 40 s, beyond which an attempt takes long."""
_LED, _LED_PULL = 150, 0.1
"""Sweeps of the first attempt where rows begin at places that are probable, and the most that a
sweep then adds to what missed counts are pulled at: more leads them away from there."""
_STEPS = 20
"""Least number of prices in an attempt."""
_HEARD = 40
"""Datasets of both walkers from which is learned, each time, what rows are like."""
_PROGRESS = 0.1
"""Share of the rows not agreed on that an attempt must settle, or the next one takes longer; and of
the leaves open to rows that must go, or other means are tried."""
_AT_ONCE = 10.0
"""Work for the integer solver before any walk, about seconds, where the program is small."""
_SOLVE = 3e-6
"""Work for the integer solver after an attempt, about seconds, for each move: about as long."""
_DOUBTED, _DOUBT_SHARE = 2, 0.2
"""Attempts after which it is asked whether the counts can be met at all, and its share of the time.
"""
_SEEN, _VISITS = 0.7, 24
"""Price from which on it is noted where rows are, and how often at most."""
_STAYED = 0.4
"""Price from which on a row must have stayed in a leaf for it to be taken for right. Where missed
counts are dear, rows stay in wrong leaves, too."""
_ALIKE = (0.85, 0.95, 1.0)
"""Least shares of their leaves that rows have in common for them to be looked for only there."""
_NARROW = 0.1
"""Share of the time that is left for what follows from the leaves that walkers never left."""
_BESIDE = 0.3
"""Share of the time in which rows that miss counts are placed by thresholds, too."""
_SLICE = 20_000
"""Moves between two looks at the clock: about 50 ms."""
_LATE, _LEAST = 0.05, 1e-3
"""Share of the time that an attempt may be behind before it hurries, and least seconds that are
taken to be left."""
_PULL, _LEAST_PULL = 80.0, 0.03
"""What a count that stays missed by one is pulled at by the end of an attempt, as a price, and the
least that a sweep adds to it."""
_SEARCH = WalkSettings(0.1, 0.15, 0.0, 0, False, True, True)
"""How rows walk until they meet the counts."""


Doubt = Callable[[Clock], Contradiction | None]


Narrow = Callable[[RowConstraints, IntArray, Clock], RowConstraints | None]
"""From leaves (rows of A) in which rows are taken to be, shape (n_rows, n_trees), -1 where no leaf
is, to constraints that hold rows to what follows; None if that contradicts itself."""


def unchanged(constraints: RowConstraints, leaves: IntArray, clock: Clock) -> None:
    """Say that nothing follows."""


class _Contradicted(Exception):
    """The counts were proved to contradict each other."""

    def __init__(self, clash: Contradiction) -> None:
        super().__init__(str(clash))
        self.clash = clash


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
    narrow: Narrow = unchanged,
) -> Answer:
    """Rebuild rows without a list of the cells.

    ``why``: why cells are not enumerated. ``doubt``: looks for a proof that the counts contradict
    each other; asked once, when two attempts have failed. ``narrow``: what follows from leaves that
    rows never left; asked after each attempt. Returns "feasible" where every count is
    met, "likely" where rows that miss a few suit the thresholds better (the likeliest dataset meets
    all), "infeasible" with the place of the contradiction, "unknown" with the best rows so far when
    the time was up. No row is proved: of cells that no row stepped into nothing is known.
    """
    stage = "rebuilding the rows"
    clock.once(lambda: Walker.started(constraints, 0).walked(0, _SEARCH))
    cells = f"generated: {why}"
    seen: list[Found] = []
    walking = clock
    if (constraints.exchangeable or constraints.probable is not None) and say_more(constraints):
        walking = clock.part((1 - _BESIDE) * clock.left)
    try:
        with clock.cut_short():
            seen.append(
                _walked_until_met(constraints, values, walking, stage, seed, doubt, narrow, seen)
            )
    except _Contradicted as proof:
        return Answer("infeasible", values, contradiction=proof.clash, cells=cells)
    if not seen:
        raise TimeUp(clock.said)
    found = seen[-1]
    likeliest = np.column_stack([found.atoms, found.label]) + values.atom_start[:-1]
    rows, far = unweighed(likeliest, found.misfit, values), None
    with clock.cut_short(GRACE):
        rows, far = settled(found, values, constraints, clock, stage)
    clock.tell(stage, 1.0, rows.misfit)
    numbers = {
        "grid_points": constraints.geometry.n_points,
        "equations": int((constraints.target > 0).sum()),
        "sweeps": found.sweeps,
    }
    if rows.misfit:
        numbers["missed_by_walk"] = found.misfit
    beside = rows.misfit > 0 and not found.misfit
    return Answer(
        "likely" if beside else "unknown" if rows.misfit else "feasible",
        values,
        (rows,),
        numbers=numbers,
        likeliest=likeliest if beside else None,
        ordered=not constraints.exchangeable,
        expected_distance=far,
        cells=cells,
    )


def _walked_until_met(
    constraints: RowConstraints, values: Values, clock: Clock, stage: str, seed: int, doubt: Doubt,
    narrow: Narrow, bests: list[Found],
) -> Found:  # fmt: skip
    """Let rows walk until they meet every count, or until the clock stops.

    ``bests``: holds the best answer so far.

    Two walkers that started apart are hardly ever wrong about a row in the same way: those on which
    they agree stay where they are when the others start again. Before that, leaves that neither
    left are taken for right: what would follow from them is where rows walk next, as long as that
    leaves less room. It is no proof, and so the walls are taken down again where this leads no
    further.
    """
    least = np.inf
    fixed, begin = np.zeros(constraints.n_rows, dtype=bool), None
    led = constraints.probable is not None
    length, attempt, style, done = _LED if led else _length(constraints), 0, 0, 0
    program = None if constraints.exchangeable else RowProgram(constraints, values)
    walled, walled_in = constraints.closed is not None, constraints
    apart = not (walled or constraints.exchangeable or (constraints.held >= 0).any())
    if program is not None and not constraints.open_label.any() and program.small:
        clock.tell(f"{stage}: solving for all at once", 0.0)
        if (solved := _solved_at_once(program, clock, seed)) is not None:
            seeds = np.random.SeedSequence(seed).generate_state(_WALKERS)
            walkers = [Walker.started(constraints, int(s), solved) for s in seeds]
            clock.record(walkers[0].misfit)
            return Found.of(walkers, walkers[0], 0)
    while True:
        seeds = np.random.SeedSequence([seed, attempt]).generate_state(_WALKERS)
        walkers = [Walker.started(walled_in, int(s), begin, fixed) for s in seeds]
        taught = style % 2 == 0 and not led
        recent = _Recent(taught, [], [], [])
        prices, n_open = _PRICES[0 if taught else 1], int((~fixed).sum())
        pull = max(_PULL / length, _LEAST_PULL)
        pull = min(pull, _LED_PULL) if led else pull
        search = _SEARCH._replace(pull=pull, trades=apart)
        for sweeps, price in _schedule(prices, length, constraints, n_open, clock):
            walkers = all_walked(walkers, sweeps, search._replace(price=price))
            done += sweeps
            first = min(walkers, key=lambda w: w.misfit)
            if not bests or first.misfit < bests[-1].misfit:
                bests[:] = [Found.of(walkers, first, done)]
                clock.record(bests[-1].misfit)
            best = bests[-1]
            clock.tell(stage, 0.7 * done / (done + length), best.misfit)
            if best.misfit == 0 or clock.stopped:
                return best
            walkers = recent.note(walkers, constraints, price)
        attempt += 1
        if attempt == _DOUBTED:
            clash = doubt(clock.part(_DOUBT_SHARE * clock.left))
            if clash is not None:
                raise _Contradicted(clash)
        narrowed = None
        if walled and (reached := min(w.misfit for w in walkers)) < least:
            least = reached
            stayed, part = recent.never_left(constraints), clock.part(_NARROW * clock.left)
            narrowed = narrow(constraints, stayed, part)
        before, walled_in = walled_in, narrowed or constraints
        if narrowed is not None and _room(narrowed) <= (1 - _PROGRESS) * _room(before):
            # The same again, in less room. What two walkers agree on is less sure than walls.
            fixed, begin = np.zeros_like(fixed), None
            length = 2 * length if led else length
            continue
        none = False
        if program is not None:
            # Counted in moves, not in seconds: the same on any machine.
            limit = _SOLVE * length * n_open * constraints.n_lively
            solved, none = _solved(program, walkers, recent, limit, clock, stage, seed + attempt)
            if solved is not None:
                walkers[0] = Walker.started(constraints, seed, solved)
                clock.record(walkers[0].misfit)
                return Found.of(walkers, walkers[0], done)
        style += 1
        fixed, begin, held = _agreed(walkers, constraints), walkers[0].places, fixed
        if none or fixed.sum() <= held.sum() + _PROGRESS * (~held).sum():
            # Nothing more is learned at this pace; what was agreed on may have been wrong, too.
            length, fixed = 2 * length, np.zeros_like(fixed)


def takes_long(constraints: RowConstraints) -> bool:
    """Whether one attempt from anywhere takes so long that it pays to ask first where rows lie."""
    return _length(constraints) * constraints.n_rows * constraints.n_lively > _LONG


def _length(constraints: RowConstraints) -> int:
    """Sweeps of the first attempt, if rows begin anywhere."""
    per_row = _PER_ROW if constraints.closed is None else _PER_WALLED_ROW
    return max(_SWEEPS, per_row * constraints.n_rows)


def _room(constraints: RowConstraints) -> int:
    """Leaves that are open to rows."""
    return 0 if constraints.closed is None else int((constraints.closed == 0).sum())


@dataclass(eq=False)
class _Recent:
    """Where rows were of late."""

    taught: bool
    """Whether walkers are told what rows are like. Where there is nothing to be learned, that leads
    astray: every other attempt does without."""
    atoms: list[NDArray[np.int32]]
    """Shape (n_rows, n_attributes)."""
    labels: list[IntArray]
    """Shape (n_rows,)."""
    leaves: list[NDArray[np.int32]]
    """Shape (n_rows, n_trees). While missed counts were dear."""
    stayed: NDArray[np.int32] | None = None
    """Shape (n_rows, n_trees). The leaf that a row never left since missed counts had a price; -1
    where it did."""

    def never_left(self, constraints: RowConstraints) -> IntArray:
        """The leaf (row of A) in which a row was all the time in a tree that drew it; else -1."""
        out = np.full(constraints.draws.shape, -1)
        if self.stayed is not None:
            stayed = (self.stayed >= 0) & (constraints.draws > 0)
            out[stayed] = constraints.masks.row[self.stayed[stayed]]
        return out

    def note(
        self, walkers: list[Walker], constraints: RowConstraints, price: float
    ) -> list[Walker]:
        """Note where rows are, and tell them now and then what rows are like."""
        if price > _SEEN and not constraints.exchangeable:
            self.leaves.extend(w.rows.leaves for w in walkers)
        if price > _STAYED and not constraints.exchangeable:
            for w in walkers:
                if self.stayed is None:
                    self.stayed = w.rows.leaves.copy()
                self.stayed[self.stayed != w.rows.leaves] = -1
        if not self.taught:
            return walkers
        self.atoms.extend(w.atoms for w in walkers)
        self.labels.extend(w.rows.label.astype(np.int64) for w in walkers)
        if len(self.atoms) >= _HEARD:
            walkers = taught(walkers, learned(constraints, self.atoms, self.labels))
            self.atoms.clear()
            self.labels.clear()
        return walkers


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
    prices: Sequence[tuple[float, float]],
    length: int,
    constraints: RowConstraints,
    n_open: int,
    clock: Clock,
) -> Iterator[tuple[int, float]]:
    """Sweeps between two looks at the clock, and the price of a missed count in them.

    Where the time is too short for all sweeps, prices rise as it runs out: rows that are stopped
    while missed counts are cheap miss most of them.
    """
    moves = max(n_open * constraints.n_lively, 1)
    shares, price = np.array(prices).T
    at_once = max(min(_SLICE // moves, length // _STEPS), 1)
    begin, left = clock.seconds, max(clock.left, _LEAST)
    for step in range(0, length, at_once):
        done = max(step / length, (clock.seconds - begin) / left - _LATE)
        yield at_once, float(np.exp(np.interp(done, shares, np.log(price))))


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
