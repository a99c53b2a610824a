"""Several worlds of one system, and the dataset in their middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from treeleak.attacks.annealing import LOOSE, TIGHT, Chain, Schedule, SearchSpace
from treeleak.attacks.answer import Rows, most_worlds
from treeleak.attacks.consensus import MAX_ALIGNED, align, confidence, most_central, shares
from treeleak.attacks.exact.likely_points import likely_points, most_in_common
from treeleak.attacks.exact.maximum_entropy import maximum_entropy
from treeleak.attacks.exact.world import World, certain
from treeleak.attacks.solvers.integer import Bounds, IntegerProblem, NoSolution
from treeleak.core.arrays import FloatArray, IntArray, copies_before
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.parallel import run_all
from treeleak.core.private import dataclass
from treeleak.evidence import CountSystem
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.side_information.density import Density

N_WORLDS = 10
"""Worlds that are drawn at least."""
_MORE_WORLDS, _CHEAP_STEPS = 40, 40_000_000
"""Worlds that are drawn at most, and the steps that all beyond the least may take together."""
_MIX = 1.0
"""Work for the integer solver (about seconds) to combine runs that miss some counts."""
_SHORT, _PROBES, _LEAST_STEPS = (16, 4), 4, 20_000
"""How many times shorter runs are tried first, how many of them, and of what length at least."""
_TRIAL = 200_000
"""Steps from which the speed of a run is judged."""
_STEP_WORK = 1e-7
"""Work of the integer solver that goes with one step of a run."""
_AT_ONCE = 2
"""Runs that look for one world, at a time."""
_AGAIN, _LONGER = 6, 2
"""Most runs that are tried again because they missed counts, and how many times longer."""
_ROUNDS, _FEW_ROUNDS, _LARGE = 12, 4, 2_000_000
"""Rounds of maximum entropy, fewer from so many incidences on."""
_LATE = 5
"""Worlds that are aligned where the time is up."""


@dataclass(frozen=True, eq=False)
class WorldSearch:
    """The part of a system that is still open, ready to be searched.

    Rows that every solution holds at one point are *settled* if the point is a single row of the
    schema, else *anchored*: the counts fix their atoms, and only values within atoms are open.
    """

    system: CountSystem
    values: Values
    atoms: IntArray
    """Shape (n_live, n_attributes + 1). Atoms of the live points, numbered over all attributes; the
    last is the class."""
    live: IntArray
    """Shape (n_live,). The system's points that a row may take."""
    settled: IntArray
    anchored: IntArray
    """Shapes (n_settled,), (n_anchored,). Live points of these rows, one entry per row."""
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
    """Where given, what the values within atoms are drawn from instead."""
    learned: bool = False
    """Whether the histogram is known, and its rows say which points of a cell are likely."""

    @classmethod
    def of(
        cls,
        system: CountSystem,
        known: Bounds,
        geometry: Geometry,
        values: Values,
        population: Density | None = None,
        *,
        learns: bool = False,
    ) -> WorldSearch:
        """Set up the search of what the bounds leave open.

        ``learns``: whether the rows of all cells say which points of a cell are likely, if they
        are known and no population is.
        """
        live = np.flatnonzero(known.upper[system.cell] > 0)
        cell = system.cell[live]
        atoms = np.column_stack([geometry.atoms(system.points[live]), system.label[live]])
        single = system.cell_size[cell] == 1
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
        own = numbered[movable[space.origin]]
        w, tilt = np.zeros((2, len(space.code)))
        learned = likely = None
        if space.n_rows:
            at = live[movable[space.origin]]
            if population is not None:
                likely = population.log_prior(system.points[at], system.label[at])
            elif learns and known.settled:
                learned = likely_points(numbered, cell, known.lower, values)
                likely = None if learned is None else learned[movable[space.origin]]
            fitted = maximum_entropy(
                own,
                values.atom_sizes,
                space.cell.astype(np.int64),
                space.signature,
                space.target,
                settled=fixed_atoms,
                binaries=values.binaries,
                log_population=likely,
                told=values.told,
                rounds=_ROUNDS if space.signature.size <= _LARGE else _FEW_ROUNDS,
            )
            w, tilt = fitted.w, fitted.tilt
        marginal = fixed_atoms.copy()
        for a in range(own.shape[1]):
            marginal += np.bincount(own[:, a], w, minlength=values.n_atoms)
        whole = values.settled[numbered[fixed]].all(axis=1)
        return cls(
            system=system,
            values=values,
            atoms=numbered,
            live=live,
            settled=fixed[whole],
            anchored=fixed[~whole],
            space=space,
            live_of=movable[space.origin],
            w=w,
            tilt=tilt,
            value_prior=values.prior(marginal),
            population=population,
            learned=learned is not None,
        )

    def worlds(
        self,
        exact: Sequence[IntArray],
        problem: IntegerProblem | None,
        clock: Clock,
        stage: str,
        seed: int,
    ) -> list[World]:
        """Search for several datasets that meet all counts.

        ``exact``: histograms over the system's cells that meet all counts, if any are known.
        ``problem``: helps when no run meets all counts; None where it is too large. At least one
        world meets all counts, unless time ran out. Raises NoSolution if it is proved on the way
        that no dataset meets all counts.
        """
        rng = np.random.default_rng(seed)
        if exact and (self.space.too_large or self.learned):
            return [self._world(self.spots(exact[0], rng), rng) for _ in range(N_WORLDS)]
        if self.space.too_large:
            raise NotCovered(
                f"{len(self.space.code):,} points stay possible, each with {self.space.n_atoms} "
                "neighbours: too many to search"
            )
        if not self.can_move:
            return [self._world(self.space.spread(self.w, rng), rng) for _ in range(N_WORLDS)]
        # Made once, before the threads ask for them.
        _ = self.space.neighbour, self.space.packed_target
        usual = self.space.default_steps()
        n, steps = self._affordable(_worlds_of(usual), usual, clock, seed)
        chains: list[Chain] = []
        if (n, steps) == (_worlds_of(usual), usual):  # Time is not short: some is left for trials.
            steps, chains = self._probed(usual, clock, stage, seed)
            n = _worlds_of(steps) - len(chains)
        chains += self._run(n, steps, LOOSE, clock, stage, seed)
        if missed := sum(c.misfit > 0 for c in chains):
            again, steps = min(missed, _AGAIN), _LONGER * steps
            chains = [c for c in chains if c.misfit == 0]
            chains += self._run(again, steps, TIGHT, clock, stage, seed + n)
        return self._until_met(chains, exact, problem, steps, clock, stage, seed)

    def some_world(
        self, problem: IntegerProblem | None, clock: Clock, stage: str, seed: int
    ) -> list[World]:
        """Search until one dataset meets all counts; gives all that were tried.

        ``problem``: as in :meth:`worlds`, whose remarks hold here, too.
        """
        if not self.can_move:
            rng = np.random.default_rng(seed)
            return [self._world(self.space.spread(self.w, rng), rng)]
        _ = self.space.neighbour, self.space.packed_target
        _, steps = self._affordable(_AT_ONCE, self.space.default_steps(), clock, seed)
        chains = self._run(_AT_ONCE, steps, LOOSE, clock, stage, seed)
        while all(c.misfit for c in chains) and len(chains) < N_WORLDS and not clock.stopped:
            chains += self._run(_AT_ONCE, steps, LOOSE, clock, stage, seed + len(chains))
        return self._until_met(chains, (), problem, steps, clock, stage, seed)

    def _until_met(
        self,
        chains: list[Chain],
        exact: Sequence[IntArray],
        problem: IntegerProblem | None,
        steps: int,
        clock: Clock,
        stage: str,
        seed: int,
    ) -> list[World]:
        """Search on, by other ways and ever longer, until one dataset meets all counts."""
        rng = np.random.default_rng(seed)
        while not exact and min(c.misfit for c in chains) and not clock.stopped:
            exact = self._mixed(chains, problem, clock, seed)
            if not exact:
                steps *= _LONGER
                more, exact = self._run_beside(problem, steps, clock, stage, seed + steps)
                chains += more
        worlds = [self._world(c.points, rng) for c in chains]
        if all(w.misfit for w in worlds):
            worlds += [self._world(self.spots(m, rng), rng) for m in exact[:1]]
        return self._in_time(worlds, clock)

    def _in_time(self, worlds: Sequence[World], clock: Clock) -> list[World]:
        """Leave out worlds that miss most, where there is no time to align all of them in pairs."""
        n = len(worlds)
        if not 0 < len(worlds[0].values) <= MAX_ALIGNED or n <= _LATE:
            return list(worlds)
        begin = clock.seconds
        align(self.values, worlds[0].values, worlds[1].values)
        if (clock.seconds - begin) * n * (n - 1) / 2 < clock.left:
            return list(worlds)
        return sorted(worlds, key=lambda w: w.misfit)[:_LATE]

    def bayes_estimate(self, worlds: Sequence[World], clock: Clock, stage: str, seed: int) -> World:
        """Find the dataset that meets the counts and lies closest to all worlds."""
        least = min(w.misfit for w in worlds)
        few = not 0 < len(worlds[0].values) <= MAX_ALIGNED or len(worlds) < 2
        held = [w.values for w in worlds]
        if self.learned:
            m = np.bincount(self.space.cell[worlds[0].points])
            points = most_in_common(self.space.cell.astype(np.int64), self.w, m)
            final = self._world(points, np.random.default_rng(seed))
        elif few:
            final = next(w for w in worlds if w.misfit == least)
        else:
            final = worlds[most_central(self.values, held, [w.misfit == least for w in worlds])]
        if few:
            return final
        for turn in range(2):
            cost = self.values.expected_cost(shares(self.values, final.values, held))
            points, misfit = final.points, final.misfit
            if self.can_move and not self.learned and not clock.stopped:
                clock.tell(f"{stage}: settling on one", 0.7 + 0.1 * turn, misfit)
                steps = max(self.space.default_steps() // 12, 100_000)
                own_cost = self.atom_cost(cost[len(self.anchored) :])
                chain = self.space.near_rows(points, own_cost, self.w, steps, seed + turn, clock)
                points, misfit = chain.points, self.space.misfit(chain.points)
            chosen = self.values.cheapest(self.atoms[self.live_points(points)], cost)
            final = World(points, chosen, misfit)
        return final

    def rows(
        self,
        final: World,
        worlds: Sequence[World],
        known: Bounds,
        open_sure: FloatArray | None = None,
    ) -> Rows:
        """Put settled and open rows together, each value with its probability.

        ``open_sure``, of the shape of the values of ``final``: their probabilities; without them,
        the worlds tell.
        """
        live, cell = self._live_of(final), self.cells(final)
        settled = self.values.first[self.atoms[self.settled]]
        values = np.concatenate([settled, final.values])
        sure = np.ones(values.shape)
        if len(final.values):
            if open_sure is None:
                open_sure = self._confidence(final, worlds)
            sure[len(self.settled) :] = open_sure
        proved = copies_before(cell) < known.lower[cell]
        sure[certain(self.atoms, self.system.cell[self.live], live, cell, proved, self.values)] = (
            1.0
        )
        unique = bool(np.array_equal(known.lower, known.upper)) and final.misfit == 0
        fixed = np.arange(len(values)) < len(self.settled) + len(self.anchored)
        several = worlds or [final]
        kept = several[:: -(-len(several) // most_worlds(len(values)))]
        held = np.stack([np.concatenate([settled, w.values]) for w in kept])
        worlds_of = self.values.atom_of[held]
        return Rows(values, sure, proved, unique, final.misfit, worlds_of, fixed)

    def histogram(self, world: World) -> IntArray:
        """Rows in each of the system's cells."""
        return np.bincount(self.cells(world), minlength=len(self.system.signature))

    def cells(self, world: World) -> IntArray:
        """The system's cell of each row, in the order of :meth:`rows`."""
        return self.system.cell[self.live[self._live_of(world)]]

    def _live_of(self, world: World) -> IntArray:
        return np.concatenate([self.settled, self.live_points(world.points)])

    @property
    def can_move(self) -> bool:
        """Whether anything is open that moves of rows can change."""
        space = self.space
        return len(space.attributes) > 0 and space.n_rows > 0 and not space.too_large

    def _probed(self, steps: int, clock: Clock, stage: str, seed: int) -> tuple[int, list[Chain]]:
        """Find how short runs may be that meet all counts; with those that did on the way."""
        met: list[Chain] = []
        for k, part in enumerate(_SHORT):
            short = max(steps // part, _LEAST_STEPS)
            tried = self._run(_PROBES, short, LOOSE, clock, stage, seed + 1_000 * (k + 1))
            met += [c for c in tried if c.misfit == 0]
            if all(c.misfit == 0 for c in tried):
                return short, met
        return steps, met

    def _affordable(self, n: int, steps: int, clock: Clock, seed: int) -> tuple[int, int]:
        """Fewer, then shorter runs, where the time left would not do for all of them.

        A run that is cut off while hot is worth nothing; a short one that ends cold is.
        """
        self.space.near_weights(self.w, 1, seed, clock)  # what is made once is not what a run costs
        start = clock.seconds
        self.space.near_weights(self.w, _TRIAL, seed, clock)
        each = (clock.seconds - start) / _TRIAL * steps
        share = 0.8 * clock.left / max(each / 2, 1e-9)
        if share >= n:
            return n, steps
        runs = max(int(share), 2)
        return runs, max(int(steps * min(1.0, share / runs)), _TRIAL)

    def live_points(self, points: IntArray) -> IntArray:
        """Live points of the anchored and the open rows."""
        return np.concatenate([self.anchored, self.live_of[points]])

    def _run(
        self, n: int, steps: int, schedule: Schedule, clock: Clock, stage: str, seed: int
    ) -> list[Chain]:
        misfits: list[int] = []

        def each(chain: Chain) -> None:
            misfits.append(chain.misfit)
            clock.record(min(misfits))
            clock.tell(stage, 0.7 * len(misfits) / n, min(misfits))

        search = self.space.near_weights
        jobs = [partial(search, self.w, steps, seed + i, clock, schedule) for i in range(n)]
        return run_all(jobs, each)

    def _mixed(
        self, chains: Sequence[Chain], problem: IntegerProblem | None, clock: Clock, seed: int
    ) -> list[IntArray]:
        """Combine the runs: look for a solution among the cells that any of them used."""
        if problem is None:
            return []
        points = np.unique(np.concatenate([c.points for c in chains]))
        fixed = np.concatenate([self.settled, self.anchored])
        live = np.concatenate([self.live_of[points], fixed])
        cells = np.unique(self.system.cell[self.live[live]])
        try:
            return problem.within(cells).solutions(clock, _MIX, seed)
        except NoSolution:
            return []

    def _run_beside(
        self, problem: IntegerProblem | None, steps: int, clock: Clock, stage: str, seed: int
    ) -> tuple[list[Chain], list[IntArray]]:
        """Run longer, with the integer solver on the other thread for about as long."""

        def walk(i: int) -> Chain:
            chain = self.space.near_weights(self.w, steps, seed + i, clock, TIGHT)
            clock.record(chain.misfit)
            clock.tell(stage, 0.5, chain.misfit)
            return chain

        def beside() -> Chain | list[IntArray]:
            if problem is None:
                return walk(1)
            return problem.solutions(clock, _STEP_WORK * steps, seed)

        jobs: list[Callable[[], Chain | list[IntArray]]] = [partial(walk, 0), beside]
        done = run_all(jobs)
        chains = [d for d in done if isinstance(d, Chain)]
        return chains, [m for d in done if not isinstance(d, Chain) for m in d]

    def _world(self, points: IntArray, rng: np.random.Generator) -> World:
        atoms = self.atoms[self.live_points(points)]
        prior = self.value_prior if self.population is None else self.population.within(atoms)
        values = self.values.draw(atoms, np.atleast_2d(prior), rng)
        return World(points, values, self.space.misfit(points))

    def spots(self, m: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw points of the space for a histogram over the system's cells, settled rows apart."""
        cell = self.system.cell[self.live]
        fixed = np.concatenate([self.settled, self.anchored])
        left = m - np.bincount(cell[fixed], minlength=len(m))
        own = cell[self.live_of]
        order = np.argsort(own, kind="stable")
        edge = np.cumsum(self.w[order] + 1e-12)
        begin = np.searchsorted(own[order], np.arange(len(m)))
        end = np.searchsorted(own[order], np.arange(len(m)), side="right")
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

    def _confidence(self, final: World, worlds: Sequence[World]) -> FloatArray:
        """How often each value stands in the aligned worlds, with doubt that wanes as they grow.

        The weight of the doubt was set on real data: ten worlds that agree are right in about 99
        of 100 values, since the answer is the middle of the worlds and not one of them.
        """
        n, n_worlds = len(final.values), len(worlds)
        if n > MAX_ALIGNED:
            # Too many rows to align: count how often the whole row stands in another world.
            live = self.live_points(final.points)
            held = [
                np.bincount(self.live_points(w.points), minlength=len(self.live)) for w in worlds
            ]
            share = np.mean([h[live] > copies_before(live) for h in held], axis=0)[:, None]
        else:
            table = shares(self.values, final.values, [w.values for w in worlds])
            share = np.take_along_axis(table, final.values, axis=1)
        # An interval is listed as one value and holds many: it is never certain.
        n_open = np.maximum(np.diff(self.values.start), 2)
        return confidence(share, n_worlds, 2.5 / n_worlds, n_open)


def _worlds_of(steps: int) -> int:
    """How many worlds are drawn by runs of so many steps."""
    return int(np.clip(_CHEAP_STEPS // steps, N_WORLDS, _MORE_WORLDS))
