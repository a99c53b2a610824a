"""Worlds behind exact counts, drawn while it is learned what rows are like: against all worlds."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from helpers import worlds
from helpers.examples import spread
from treeleak.attacks.exact.posterior_under_learned_prior import PLAN, posterior_under_learned_prior
from treeleak.attacks.exact.world_chains import ChainContext, WorldChain
from treeleak.attacks.posterior.chains import as_kernel_prior
from treeleak.attacks.solvers.integer import IntegerProblem, bounds
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.clock import Clock
from treeleak.schema import Binary, Ordinal, Schema

SMALL = Schema([Binary("a"), Binary("b"), Ordinal("c", 1, 3)])
BRIEF = replace(
    PLAN, chains=4, cooling=5, between=5, samples=5, sweeps=10.0, least_sweeps=1.0
)  # fmt: skip


def opened(seed: int, n_rows: int = 4, n_trees: int = 2, depth: int = 1):
    """A small model of these columns."""
    return worlds.opened(SMALL, seed, n_rows, n_trees, depth)


def a_prior(values, seed: int) -> TreePrior:
    """A prior under which rows differ widely in how likely they are."""
    rng = np.random.default_rng(seed)
    radix = np.diff(values.atom_start)
    rows = np.column_stack([rng.integers(r, size=6) for r in radix])
    rows[:4] = rows[0]
    return TreePrior.fitted(rows, 6.0, radix, values.atom_weights)


def all_worlds(land: ChainContext, s: int, prior: TreePrior) -> dict[tuple[int, ...], float]:
    """Every table of points of a system that meets all counts, and its probability."""
    space, places = land.searches[s].space, land.places[s]
    log = prior.log_prior(places.atoms.astype(np.int64))
    out = {}
    for rows in itertools.product(range(len(space.code)), repeat=space.n_rows):
        if space.misfit(np.array(rows, dtype=np.int64)) == 0:
            out[rows] = float(np.exp(log[list(rows)].sum()))
    total = sum(out.values())
    return {rows: p / total for rows, p in out.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", spread([0, 3, 5], fast=2))
def test_a_long_walk_sees_every_world_as_often_as_the_prior_says(seed: int) -> None:
    _, geometry, values, searches = opened(seed, n_rows=6, n_trees=4)
    land = ChainContext.of(searches, geometry, values)
    prior = a_prior(values, seed)
    chain = WorldChain.started(land, seed, as_kernel_prior(prior))
    open_ = [s for s, search in enumerate(searches) if search.can_move]
    assert open_
    seen: dict[int, Counter[tuple[int, ...]]] = {s: Counter() for s in open_}
    for s in open_:
        for _ in range(30_000):
            chain, _ = chain.moved(2.0, 0.8, only=s)
            if chain.misfit_of(s) == 0:
                seen[s][tuple(chain.points[s].tolist())] += 1
    for s in open_:
        expected = all_worlds(land, s, prior)
        assert len(expected) > 1
        total = seen[s].total()
        assert total > 3_000
        assert set(seen[s]) <= set(expected)
        for rows, p in expected.items():
            # Neighbouring looks are alike: they count for some fewer.
            assert abs(seen[s][rows] / total - p) < 6 * np.sqrt(p * (1 - p) / (total / 6)) + 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_the_world_that_is_nearest_to_the_middle_meets_all_counts(seed: int) -> None:
    evidence, geometry, values, searches = opened(seed, n_rows=8, n_trees=3, depth=2)
    clock = Clock(600.0)
    found = posterior_under_learned_prior(searches, geometry, values, clock, seed, BRIEF)
    if found is None:
        assert not any(search.can_move for search in searches)
        return
    held = np.zeros_like(evidence.n)
    for s, search in enumerate(searches):
        found = found.near(s, None, clock, seed)
        assert found.worlds(s)
        world, sure = found.world(s, [], clock, seed)
        assert world.misfit == 0
        assert ((sure > 0) & (sure <= 1)).all()
        live = np.concatenate([search.fixed_points, search.live_points(world.points)])
        point, label = (
            search.system.points[search.live[live]],
            search.system.label[search.live[live]],
        )
        np.add.at(held, (geometry.trace(point), label[:, None]), 1)
    assert np.array_equal(held, evidence.n)


def without_worlds(**size):
    """What chains saw of problems, with others that stand where no counts are met."""
    for seed in range(8):
        _, geometry, values, searches = opened(seed, **size)
        found = posterior_under_learned_prior(searches, geometry, values, Clock(600.0), seed, BRIEF)
        if found is not None:
            begun = tuple(WorldChain.started(found.context, seed + k) for k in range(2))
            found = replace(found, chains=begun)
        for s, search in enumerate(searches):
            if found is not None and search.can_move and not found.worlds(s):
                yield seed, s, found, IntegerProblem(search.system, bounds(search.system))


def test_where_no_chain_meets_all_counts_what_they_saw_makes_a_world() -> None:
    clock, cases = Clock(600.0), 0
    for seed, s, found, problem in without_worlds(n_rows=8, n_trees=3, depth=2):
        cases += 1
        assert not found.near(s, None, clock, seed, powers=()).worlds(s)
        worlds = found.near(s, problem, clock, seed, powers=()).worlds(s)
        assert worlds
        search = found.context.searches[s]
        for world in worlds:
            assert not search.system.residual(search.histogram(world)).any()
    assert cases


def test_what_was_drawn_is_kept_where_time_ends() -> None:
    _, geometry, values, searches = opened(0, n_rows=6, n_trees=4)
    clock = Clock(600.0)

    def stop(progress) -> None:
        if progress.stage == "drawing datasets":
            clock.stop()

    clock.report = stop
    plan = replace(BRIEF, chains=6, samples=50)
    found = posterior_under_learned_prior(searches, geometry, values, clock, 0, plan)
    assert found is not None
    assert 0 < len(found.samples) < plan.chains * plan.samples
