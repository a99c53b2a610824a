"""Several worlds of one system, and the dataset in their middle.

Which points of a cell are likely, learned from the rows of all cells.

Trees do not tell the points of a cell apart. But they do in other cells, and columns depend on each
other: a government job rules out a private one wherever a row says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.answer import Rows, most_worlds
from treeleak.attacks.consensus import MAX_ALIGNED, aligned_shares, confidence
from treeleak.attacks.exact.maximum_entropy import maximum_entropy
from treeleak.attacks.exact.schedule import SCHEDULE
from treeleak.attacks.exact.search_space import SearchSpace
from treeleak.attacks.kernels import pair_costs
from treeleak.attacks.solvers.integer import Bounds
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.arrays import BoolArray, FloatArray, IntArray, copies_before
from treeleak.core.clock import Clock
from treeleak.core.decisions import MOST_SURE, on_grid
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.evidence import CountSystem
from treeleak.partition import Geometry
from treeleak.partition.value_index import ValueIndex
from treeleak.side_information.density import Density


@dataclass(frozen=True, eq=False)
class SolutionSampler:
    """The part of a system that is still open, ready to be searched.

    Rows that every solution holds at one point are *settled* if the point is a single row of the
    schema, else *anchored*: the counts fix their atoms, and only values within atoms are open.
    """

    system: CountSystem
    values: ValueIndex
    atoms: IntArray
    """Shape (n_live, n_attributes + 1). Atoms of the live points, numbered over all attributes; the
    last is the class."""
    live: IntArray
    """Shape (n_live,). The system's points that a row may take."""
    fixed_points: IntArray
    anchored: IntArray
    """Shapes (n_fixed,), (n_anchored,). Live points of these rows, one entry per row."""
    space: SearchSpace
    """Over the live points that open rows may take."""
    live_of: IntArray
    """Live point of each point of the space."""
    w: FloatArray
    tilt: FloatArray
    value_prior: FloatArray
    """Expected open rows per point of the space, and what the counts add to the log prior of a row
    there; probability of each value given its atom."""
    population: Density | None
    """Where it is known, what the values within atoms are drawn from instead."""
    learned: bool = False
    """Whether the histogram is known, and its rows say which points of a cell are likely."""

    @classmethod
    def of(
        cls,
        system: CountSystem,
        known: Bounds,
        geometry: Geometry,
        values: ValueIndex,
        population: Density | None = None,
        *,
        learns: bool = False,
    ) -> SolutionSampler:
        """Set up the search of what the bounds leave open.

        ``learns``: whether the rows of all cells say which points of a cell are likely, if they
        are known and no population is.
        """
        live = np.flatnonzero(known.upper[system.cell] > 0)
        cell = system.cell[live]
        atoms = np.column_stack([geometry.atoms(system.points[live]), system.label[live]])
        single = np.bincount(system.cell, minlength=len(system.signature))[cell] == 1
        certain = np.where(single, known.lower[cell], 0)
        fixed = np.repeat(np.arange(len(live)), certain)
        m = np.bincount(cell[fixed], minlength=len(system.signature))
        target = -system.residual(m)
        movable = np.flatnonzero(~single | (known.upper[cell] > known.lower[cell]))
        strides = np.append(geometry.stride, geometry.n_points)
        n_open = system.n_rows - len(fixed)
        space = SearchSpace.of(
            atoms[movable], strides, cell[movable], system.signature, target, n_open
        )
        numbered = atoms + values.atom_start[:-1]
        fixed_atoms = np.bincount(numbered[fixed].ravel(), minlength=values.n_atoms).astype(float)
        space_atoms = numbered[movable[space.origin]]
        w, tilt = np.zeros((2, len(space.code)))
        learned = likely = None
        if space.n_rows:
            at = live[movable[space.origin]]
            if population is not None:
                likely = population.log_prior(system.points[at], system.label[at])
            elif learns and known.determined:
                learned = likely_points(numbered, cell, known.lower, values)
                likely = None if learned is None else learned[movable[space.origin]]
            fitted = maximum_entropy(
                space_atoms,
                values.atom_sizes,
                space.cell.astype(np.int64),
                space.signature,
                space.target,
                fixed_counts=fixed_atoms,
                binaries=values.binaries,
                log_population=likely,
                known_binaries=values.known_binaries,
                rounds=SCHEDULE.entropy_rounds
                if space.signature.size <= SCHEDULE.large_system
                else SCHEDULE.few_entropy_rounds,
            )
            w, tilt = fitted.w, fitted.tilt
        marginal = fixed_atoms.copy()
        for a in range(space_atoms.shape[1]):
            marginal += np.bincount(space_atoms[:, a], w, minlength=values.n_atoms)
        whole = values.single_valued[numbered[fixed]].all(axis=1)
        return cls(
            system=system,
            values=values,
            atoms=numbered,
            live=live,
            fixed_points=fixed[whole],
            anchored=fixed[~whole],
            space=space,
            live_of=movable[space.origin],
            w=w,
            tilt=tilt,
            value_prior=values.prior(marginal),
            population=population,
            learned=learned is not None,
        )

    def bayes_estimate(self, worlds: Sequence[Solution], clock: Clock, seed: int) -> Solution:
        """Find the dataset that meets the counts and lies closest to all worlds."""
        least = min(w.misfit for w in worlds)
        best = [w for w in worlds if w.misfit == least]
        if self.learned:
            m = np.bincount(self.space.cell[worlds[0].points])
            points = most_in_common(self.space.cell.astype(np.int64), self.w, m)
            best = [self.world_at(points, np.random.default_rng(seed))]
        if not 0 < len(worlds[0].values) <= MAX_ALIGNED or len(worlds) < 2:
            return best[0]
        # Aligned with all of them: one that lies apart would put others in wrong places.
        cost = self.values.expected_cost(self._shares(worlds, stopped=lambda: clock.stopped))
        return self.nearest(cost, [w.points for w in best], clock, seed)

    def _shares(
        self,
        worlds: Sequence[Solution],
        final: Solution | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> FloatArray:
        """Share of the worlds in which rows have each value; in the order of one, if any."""
        values, n_anchored = self.values.listed, len(self.anchored)
        group = np.repeat([0, 1], [n_anchored, len(worlds[0].values) - n_anchored])
        start, turns = (None, 4) if final is None else (final.values, 1)
        others, certain = [w.values for w in worlds], np.ones(values.n_values)
        return aligned_shares(values, others, certain, group, turns, stopped, start)[0]

    def nearest(
        self, cost: FloatArray, starts: Sequence[IntArray], clock: Clock, seed: int
    ) -> Solution:
        """Find rows that cost little, and meet the counts as well as those from which to begin.

        ``cost``, shape (n_anchored + n_open, n_values). ``starts``: points of open rows.
        """
        atom_cost = self.atom_cost(cost[len(self.anchored) :])

        def paid(points: IntArray) -> float:
            atoms = self.space.value[points].astype(np.int64)
            return float(np.take_along_axis(atom_cost, atoms, axis=1).sum())

        def matched(points: IntArray) -> IntArray:
            atoms, rows = self.space.value[points].astype(np.int64), np.arange(len(points))
            _, j = linear_sum_assignment(pair_costs(atom_cost, rows, atoms, rows))
            return points[j]

        near = sorted(map(matched, starts), key=paid)[: SCHEDULE.nearest_starts]
        if self.can_move and not self.learned:
            steps, settle = (
                self.space.default_steps() // SCHEDULE.nearest_run_factor,
                self.space.near_rows,
            )
            jobs = [
                partial(settle, p, atom_cost, steps, seed + i, clock) for i, p in enumerate(near)
            ]
            near = sorted((c.points for c in run_all(jobs)), key=paid)
            near.sort(key=self.space.misfit)
        points = near[0]
        chosen = self.values.cheapest(self.atoms[self.live_points(points)], cost)
        return Solution(points, chosen, self.space.misfit(points))

    def rows(
        self,
        final: Solution,
        worlds: Sequence[Solution],
        known: Bounds,
        open_sure: FloatArray | None = None,
    ) -> Rows:
        """Put settled and open rows together, each value with its probability.

        ``open_sure``, of the shape of the values of ``final``: their probabilities; without them,
        the worlds tell.
        """
        live, cell = self._live_of(final), self.cells(final)
        fixed_values = self.values.first[self.atoms[self.fixed_points]]
        values = np.concatenate([fixed_values, final.values])
        sure = np.ones(values.shape)
        if len(final.values):
            if open_sure is None:
                open_sure = self._confidence(final, worlds)
            # Worlds may agree on what is not proved.
            sure[len(self.fixed_points) :] = np.minimum(open_sure, MOST_SURE)
        proved = copies_before(cell) < known.lower[cell]
        sure[certain(self.atoms, self.system.cell[self.live], live, cell, proved, self.values)] = (
            1.0
        )
        unique = bool(np.array_equal(known.lower, known.upper)) and final.misfit == 0
        fixed = np.arange(len(values)) < len(self.fixed_points) + len(self.anchored)
        several = worlds or [final]
        thinned = several[:: -(-len(several) // most_worlds(len(values)))]
        datasets = np.stack([np.concatenate([fixed_values, w.values]) for w in thinned])
        worlds_of = self.values.atom_of[datasets]
        return Rows(values, sure, proved, unique, final.misfit, worlds_of, fixed)

    def histogram(self, world: Solution) -> IntArray:
        """Rows in each of the system's cells."""
        return np.bincount(self.cells(world), minlength=len(self.system.signature))

    def cells(self, world: Solution) -> IntArray:
        """The system's cell of each row, in the order of :meth:`rows`."""
        return self.system.cell[self.live[self._live_of(world)]]

    def _live_of(self, world: Solution) -> IntArray:
        return np.concatenate([self.fixed_points, self.live_points(world.points)])

    @property
    def can_move(self) -> bool:
        """See :attr:`.SearchSpace.can_move`."""
        return self.space.can_move

    def live_points(self, points: IntArray) -> IntArray:
        """Live points of the anchored and the open rows."""
        return np.concatenate([self.anchored, self.live_of[points]])

    def world_at(self, points: IntArray, rng: np.random.Generator) -> Solution:
        """Draw a value for every atom of rows at points of the space."""
        atoms = self.atoms[self.live_points(points)]
        if self.population is None:
            # By chance, rows of two worlds would be matched by what nobody knows.
            prior = self.values.guessed(self.value_prior)
        else:
            prior = self.population.within(atoms)
        values = self.values.draw(atoms, np.atleast_2d(prior), rng)
        return Solution(points, values, self.space.misfit(points))

    def draw_points(self, m: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw points of the space for a histogram over the system's cells, settled rows apart."""
        cell = self.system.cell[self.live]
        fixed = np.concatenate([self.fixed_points, self.anchored])
        left = m - np.bincount(cell[fixed], minlength=len(m))
        cell_of_point = cell[self.live_of]
        order = np.argsort(cell_of_point, kind="stable")
        edge = np.cumsum(self.w[order] + 1e-12)
        begin = np.searchsorted(cell_of_point[order], np.arange(len(m)))
        end = np.searchsorted(cell_of_point[order], np.arange(len(m)), side="right")
        where = np.repeat(np.flatnonzero(left > 0), left[left > 0])
        low = np.where(begin[where] > 0, edge[begin[where] - 1], 0.0)
        u = low + rng.random(len(where)) * (edge[end[where] - 1] - low)
        return order[np.clip(np.searchsorted(edge, u), begin[where], end[where] - 1)]

    def atom_cost(self, cost: FloatArray) -> FloatArray:
        """Cost of each atom that can move: that of its cheapest value."""
        lowest = np.minimum.reduceat(cost, self.values.first, axis=1)
        first = np.repeat(
            self.values.atom_start[self.space.attributes], np.diff(self.space.atom_start)
        )
        moving: FloatArray = lowest[:, first + self.space.atom]
        return moving

    def _confidence(self, final: Solution, worlds: Sequence[Solution]) -> FloatArray:
        """Share of the aligned worlds with each value, shrunk towards even shares by pseudo-worlds.

        The weight of these was set on real data: ten worlds that agree are right in about 99
        of 100 values, since the answer is the middle of the worlds and not one of them.
        """
        n, n_worlds = len(final.values), len(worlds)
        if n > MAX_ALIGNED:
            # Too many rows to align: count how often the whole row stands in another world.
            live = self.live_points(final.points)
            times = [
                np.bincount(self.live_points(w.points), minlength=len(self.live)) for w in worlds
            ]
            share = np.mean([h[live] > copies_before(live) for h in times], axis=0)[:, None]
            of_atom = np.repeat(share, final.values.shape[1], axis=1)
        else:
            table = self._shares(worlds, final)
            share = np.take_along_axis(table, final.values, axis=1)
            atoms = np.add.reduceat(table, self.values.first, axis=1)
            of_atom = np.take_along_axis(atoms, self.values.atom_of[final.values], axis=1)
        # An interval is listed as one value and holds many: it is never certain.
        n_open = np.maximum(np.diff(self.values.start), 2)
        sure = confidence(share, n_worlds, 2.5 / n_worlds, n_open)
        if self.population is None:
            # Nothing tells 0 from 1 there; but a test may tell both from a missing value.
            guessed = list(self.values.unsplit_binaries)
            n_atoms = np.diff(self.values.atom_start)
            there = confidence(of_atom, n_worlds, 2.5 / n_worlds, n_atoms)[:, guessed]
            sure[:, guessed] = there * self.value_prior[final.values[:, guessed]]
        return sure


def likely_points(
    atoms: IntArray, cell: IntArray, m: IntArray, values: ValueIndex
) -> FloatArray | None:
    """Log probability of each point, by a tree of Chow and Liu and the rows in each cell.

    Expectation and maximisation take turns: the rows of a cell are shared out to its points, and
    the tree is fitted to these shares. None where there are too many points, or no rows.

    Parameters
    ----------
    atoms : int array, shape (n_points, n_attributes + 1)
        Numbered over all attributes.
    cell : int array, shape (n_points,)
    m : int array, shape (n_cells,)
        Rows in each cell.
    """
    if atoms.size > SCHEDULE.learned_atoms or not m[cell].any():
        return None
    rows, radix = atoms - values.atom_start[:-1], np.diff(values.atom_start)
    log = np.zeros(len(rows))
    for _ in range(SCHEDULE.point_rounds):
        highest = np.full(len(m), -np.inf)
        np.maximum.at(highest, cell, log)
        mass = np.exp(log - highest[cell])
        expected = mass * (m / np.maximum(np.bincount(cell, mass, len(m)), 1.0))[cell]
        tree = TreePrior.fitted(rows, expected, radix, values.atom_weights, values.bins)
        log = tree.log_prior(rows)
    return log


def most_in_common(cell: IntArray, weight: FloatArray, m: IntArray) -> IntArray:
    """Points of the rows of known cells, so that most rows are expected to be right.

    Of the m rows of a cell, each stands at a point with a chance p. Whether one more row there is
    right is whether more rows of the truth stand there than so far: a tail of a binomial law.

    Parameters
    ----------
    cell : int array, shape (n_points,)
    weight : float array, shape (n_points,)
        Chance of each point within its cell, up to a constant.
    m : int array, shape (n_cells,)

    Returns
    -------
    int array, shape (n_rows,)
    """
    from scipy.stats import binom  # Takes long to load.

    mass = np.bincount(cell, weight, len(m))
    p = np.divide(weight, mass[cell], out=np.zeros(len(cell)), where=mass[cell] > 0)
    size = m[cell]
    due = size * p
    times = np.minimum(
        size, np.ceil(due + SCHEDULE.tail_deviations * np.sqrt(due) + 1).astype(np.int64)
    )
    point = np.repeat(np.arange(len(cell)), times)
    before = np.arange(len(point)) - np.repeat(np.cumsum(times) - times, times)
    gain = np.asarray(binom.sf(before, size[point], p[point]))
    order = np.lexsort((-on_grid(gain), cell[point]))
    sorted_cell = cell[point[order]]
    return point[
        order[
            np.arange(len(sorted_cell)) - np.searchsorted(sorted_cell, sorted_cell) < m[sorted_cell]
        ]
    ]


@dataclass(frozen=True, eq=False)
class Solution:
    """A dataset proposed by a search."""

    points: IntArray
    """Shape (n_open,). Positions of the open rows in the search space."""
    values: IntArray
    """Shape (n_anchored + n_open, n_attributes + 1). Values of the anchored rows, then of the open
    ones."""
    misfit: int


def certain(
    atoms: IntArray,
    cell_of_point: IntArray,
    live: IntArray,
    cell: IntArray,
    proved: BoolArray,
    values: ValueIndex,
) -> BoolArray:
    """Say which values of which rows stand in every solution, shape (n_rows, n_attributes + 1).

    ``atoms``, ``cell_of_point``: atoms, numbered over all attributes, and cell of each point that
    a row may take. ``live``, ``cell``, shape (n_rows,): point and cell of each row. ``proved``,
    shape (n_rows,): rows that every solution holds in their cell.
    """
    if not len(live):
        return np.zeros((0, atoms.shape[1]), dtype=bool)
    everywhere = atoms.min(axis=0) == atoms.max(axis=0)
    order = np.argsort(cell_of_point, kind="stable")
    cells, first = np.unique(cell_of_point[order], return_index=True)
    low = np.minimum.reduceat(atoms[order], first, axis=0)
    high = np.maximum.reduceat(atoms[order], first, axis=0)
    single_valued = (low == high)[np.searchsorted(cells, cell)]
    same = everywhere[None, :] | (single_valued & proved[:, None])
    out: BoolArray = same & values.single_valued[atoms[live]]
    return out
