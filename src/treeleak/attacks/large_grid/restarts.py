"""Attempts at rows that meet every count: within what rows walk, how long, and from where.

Two walkers that started apart are hardly ever wrong about a row in the same way: those on which
they agree stay where they are when the others start again. Before that, leaves that neither left
are taken for right: what would follow from them is where rows walk next, as long as that leaves
less room. It is no proof, and so the walls are taken down again where this leads no further.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from treeleak.attacks.large_grid.learned_prior import learned
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.schedule import SCHEDULE
from treeleak.attacks.large_grid.walk_kernels import WalkSettings
from treeleak.attacks.large_grid.walkers import Walker, WalkResult, all_walked, taught
from treeleak.core.arrays import BoolArray, IntArray
from treeleak.core.clock import Clock
from treeleak.core.private import dataclass

_STAYED = 0.4
"""Price from which on a row must have stayed in a leaf for it to be taken for right. Where missed
counts are dear, rows stay in wrong leaves, too."""
SEARCH = WalkSettings(0.1, 0.15, 0.0, 0, False, True, True)
"""How rows walk until they meet the counts."""


def walkers_at(
    constraints: RowConstraints, seeds: int | Sequence[int], begin: NDArray[np.int32] | None,
    fixed: BoolArray | None = None,
) -> list[Walker]:  # fmt: skip
    """Let walkers begin somewhere, or anywhere."""
    walker_seeds = np.random.SeedSequence(seeds).generate_state(SCHEDULE.walkers)
    return [Walker.started(constraints, int(seed), begin, fixed) for seed in walker_seeds]


def _length(constraints: RowConstraints) -> int:
    """Sweeps of the first attempt, if rows begin anywhere."""
    per_row = (
        SCHEDULE.sweeps_per_row if constraints.closed is None else SCHEDULE.sweeps_per_walled_row
    )
    return max(SCHEDULE.least_sweeps, per_row * constraints.n_rows)


@dataclass(eq=False)
class WalkHistory:
    """Where rows were of late."""

    taught: bool
    """Whether walkers are told what rows are like. Where there is nothing to be learned, that leads
    astray: every other attempt does without."""
    atoms: list[NDArray[np.int32]]
    """Shape (n_rows, n_attributes)."""
    labels: list[IntArray]
    """Shape (n_rows,)."""
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
        if price > _STAYED and not constraints.exchangeable:
            for w in walkers:
                if self.stayed is None:
                    self.stayed = w.rows.leaves.copy()
                self.stayed[self.stayed != w.rows.leaves] = -1
        if not self.taught:
            return walkers
        self.atoms.extend(w.atoms for w in walkers)
        self.labels.extend(w.rows.label.astype(np.int64) for w in walkers)
        if len(self.atoms) >= SCHEDULE.learned_datasets:
            walkers = taught(walkers, learned(constraints, self.atoms, self.labels))
            self.atoms.clear()
            self.labels.clear()
        return walkers


@dataclass(eq=False)
class Attempt:
    """How rows walk next."""

    constraints: RowConstraints
    """What holds for sure."""
    within: RowConstraints
    """What rows are held to."""
    length: int
    """Sweeps."""
    fixed: BoolArray
    """Shape (n_rows,). Rows that stay where they begin."""
    begin: NDArray[np.int32] | None = None
    number: int = 0
    style: int = 0
    """Attempts before, and those of them after which walls did not close in."""
    done: int = 0
    """Sweeps before."""

    @classmethod
    def first(cls, constraints: RowConstraints) -> Attempt:
        """Begin anywhere."""
        none = np.zeros(constraints.n_rows, dtype=bool)
        return cls(constraints, constraints, _length(constraints), none)

    @property
    def n_open(self) -> int:
        """Rows that move."""
        return int((~self.fixed).sum())

    @property
    def _search(self) -> WalkSettings:
        pull = max(SCHEDULE.pull_price / self.length, SCHEDULE.pull_step)
        held = self.constraints.closed is not None or (self.constraints.held >= 0).any()
        return SEARCH._replace(
            pull=pull,
            trades=not (held or self.constraints.exchangeable),
        )

    def walked(
        self, clock: Clock, stage: str, seed: int, bests: list[WalkResult]
    ) -> tuple[list[Walker], WalkHistory]:
        """Walk until every count is met, the prices are through, or the clock stops.

        ``bests``: holds the best rows so far.
        """
        walkers = walkers_at(self.within, [seed, self.number], self.begin, self.fixed)
        recent = WalkHistory(self.style % 2 == 0, [], [])
        for sweeps, price in self._schedule(SCHEDULE.prices[0 if recent.taught else 1], clock):
            walkers = all_walked(walkers, sweeps, self._search._replace(price=price))
            self.done += sweeps
            first = min(walkers, key=lambda w: w.misfit)
            if not bests or first.misfit < bests[-1].misfit:
                bests[:] = [WalkResult.of(walkers, first, self.done)]
                clock.record(bests[-1].misfit)
            clock.report_progress(
                stage, 0.7 * self.done / (self.done + self.length), bests[-1].misfit
            )
            if bests[-1].misfit == 0 or clock.stopped:
                break
            walkers = recent.note(walkers, self.constraints, price)
        return walkers, recent

    def _schedule(
        self, prices: Sequence[tuple[float, float]], clock: Clock
    ) -> Iterator[tuple[int, float]]:
        """Sweeps between two looks at the clock, and the price of a missed count in them.

        Where the time is too short for all sweeps, prices rise as it runs out: rows that are
        stopped while missed counts are cheap miss most of them.
        """
        moves = max(self.n_open * self.constraints.n_lively, 1)
        shares, price = np.array(prices).T
        at_once = max(min(SCHEDULE.moves_at_once // moves, self.length // SCHEDULE.price_steps), 1)
        begin, left = clock.seconds, max(clock.left, SCHEDULE.least_seconds)
        for step in range(0, self.length, at_once):
            done = max(step / self.length, (clock.seconds - begin) / left - SCHEDULE.late_share)
            yield at_once, float(np.exp(np.interp(done, shares, np.log(price))))

    def closed_in(self, narrowed: RowConstraints | None) -> bool:
        """Hold rows to what follows next time, or to nothing more; say if that leaves less room."""
        before, self.within = self.within, narrowed or self.constraints
        if narrowed is None or _room(narrowed) > (1 - SCHEDULE.least_progress) * _room(before):
            return False
        # The same again, in less room. What two walkers agree on is less sure than walls.
        self.fixed, self.begin = np.zeros_like(self.fixed), None
        return True

    def finish(self, walkers: list[Walker]) -> None:
        """Hold the rows on which walkers agree."""
        self.style += 1
        held, self.fixed = self.fixed, _agreed(walkers, self.constraints)
        self.begin = walkers[0].places
        if self.fixed.sum() <= held.sum() + SCHEDULE.least_progress * (~held).sum():
            # Nothing more is learned at this pace; what was agreed on may have been wrong, too.
            self.length, self.fixed = 2 * self.length, np.zeros_like(held)


def _room(constraints: RowConstraints) -> int:
    """Leaves that are open to rows."""
    return 0 if constraints.closed is None else int((constraints.closed == 0).sum())


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
