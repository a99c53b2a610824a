"""What every sampler keeps to: the same seed, any cut of a run, its support, and its law."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers.cases import Stated
from helpers.grids import cuts_for
from helpers.releases import counted, random_tree
from treeleak.attacks.exact.search_space import EVEN
from treeleak.attacks.exact.world_chains import ChainContext, WorldChain
from treeleak.attacks.exact.world_kernels import walk
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.known_draws.posterior_of_assignments import KnownLikelihood
from treeleak.attacks.large_grid.walk_kernels import WalkSettings
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.attacks.posterior.chains import Chain, as_kernel_prior
from treeleak.attacks.posterior.likelihood import DrawLikelihood, Likelihood
from treeleak.attacks.posterior.noise_likelihood import CountLikelihood, LabelLikelihood
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.attacks.solvers.integer import bounds
from treeleak.attacks.tree_prior import TreePrior
from treeleak.core.clock import Clock
from treeleak.evidence import evidence_for
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_of
from treeleak.release.noise.laws import DiscreteLaplace, LabelNoise
from treeleak.schema import Binary, Ordinal, Schema

TINY = Schema([Binary("a"), Ordinal("b", 0, 2)])
HEAT, PRICE = 1.5, 0.3
SWEEPS, LOOKS = 6, 8_000
"""Sweeps between two looks, which are then nearly independent, and looks."""


class Sampler(NamedTuple):
    """A sampler over two rows, and its law by listing all that they can be."""

    started: Callable[[int], Any]
    walked: Callable[[Any, int], Any]
    """From a state, by so many sweeps, to the next state."""
    rows: Callable[[Any], Hashable]
    law: dict[Hashable, float]
    """Log probability of everything in the support, up to a constant; nothing where the prior is
    learned, which has no list."""


def _counted(*label: int) -> Geometry:
    """Two trees that count two rows of these classes."""
    rng, names = np.random.default_rng(7), TINY.columns
    trees = [random_tree(rng, cuts_for(TINY, names), 2) for _ in range(2)]
    X = np.array([[0.0, 1.0], [1.0, 2.0]])
    return Geometry.of(counted(trees, names, X, np.array(label), 2), TINY)


def _tree_prior(values: Any) -> TreePrior:
    """One under which rows differ widely in how likely they are."""
    radix = np.diff(values.atom_start)
    rows = np.array([[0, 1, 0], [1, 2, 1], [1, 2, 0], [1, 0, 1]])
    return TreePrior.fitted(rows, 4.0, radix, values.atom_weights)


def _chains(make: Callable[[np.ndarray], Likelihood], given: bool = True) -> Sampler:
    geometry = _counted(0, 1)
    (said,) = evidence_for(geometry.release)(geometry).statements()
    values, likelihood = values_of(geometry.parts, 2), make(said.right)
    target = PosteriorTarget.of(geometry, values, likelihood, 2, None, Clock(60.0))
    prior = _tree_prior(values)
    points = list(itertools.product(*(range(r) for r in target.radix)))
    law: dict[Hashable, float] = {}
    for table in itertools.product(points, repeat=2) if given else ():
        atoms = np.array(table)
        held = likelihood.held(geometry.trace(atoms[:, :-1] @ geometry.stride), atoms[:, -1])
        log = likelihood.log_complete(held, likelihood.seen(), 2.0)
        law[table] = (log + prior.log_prior(atoms).sum()) / HEAT
    return Sampler(
        lambda seed: Chain.started(target, as_kernel_prior(prior) if given else None, seed),
        lambda chain, sweeps: chain.walked(sweeps, Clock(60.0), HEAT, 2.0)[0],
        lambda chain: tuple(map(tuple, chain.state.atoms.tolist())),
        law,
    )


def _search() -> tuple[SolutionSampler, Geometry]:
    """The system of one class, of which the counts leave both rows open."""
    geometry = _counted(0, 0)
    evidence, values = evidence_for(geometry.release)(geometry), values_of(geometry.parts, 2)
    partition = enumerate_cells(geometry, evidence.open_leaves())
    system = next(s for s in evidence.systems(partition) if s.n_rows == 2)
    return SolutionSampler.of(system, bounds(system), geometry, values), geometry


def _worlds() -> Sampler:
    search, geometry = _search()
    space, prior = search.space, _tree_prior(search.values)
    land = ChainContext.of([search], geometry, search.values)
    own = prior.log_prior(land.places[0].atoms.astype(np.int64)) + search.tilt
    law: dict[Hashable, float] = {
        rows: own[list(rows)].sum() - np.abs(space.residual(np.array(rows))).sum() / HEAT
        for rows in itertools.product(range(len(space.code)), repeat=space.n_rows)
    }
    return Sampler(
        lambda seed: WorldChain.started(land, seed, as_kernel_prior(prior)),
        lambda chain, sweeps: chain.moved(sweeps, HEAT)[0],
        lambda chain: tuple(chain.points[0].tolist()),
        law,
    )


def _cheapest() -> Sampler:
    """Rows that cost something, without a preference beside."""
    search, _ = _search()
    space, none = search.space, np.zeros(0, dtype=np.int32)
    cost = np.random.default_rng(3).random((space.n_rows, space.n_atoms)).astype(np.float32)
    places = space.places(np.zeros(len(space.code)), np.zeros((len(space.code), 0), np.int16))

    def started(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        rows, state = space.spread(search.w, rng), rng.integers(1, 2**63, 1, dtype=np.uint64)
        return rows, space.residual(rows), np.zeros(len(rows)), state

    def walked(state: Any, sweeps: int) -> Any:
        rows, residual, log_prior, rng = out = deepcopy(state)
        walk(
            sweeps * len(rows), HEAT, 0.3, False, rows, log_prior, residual, places, EVEN, none,
            cost, rows.copy(), np.zeros(2), rng,
        )  # fmt: skip
        return out

    def energy(rows: tuple[int, ...]) -> float:
        paid = cost[np.arange(len(rows))[:, None], space.value[list(rows)]].sum()
        return float(paid + np.abs(space.residual(np.array(rows))).sum())

    every = itertools.product(range(len(space.code)), repeat=space.n_rows)
    law: dict[Hashable, float] = {rows: -energy(rows) / HEAT for rows in every}
    return Sampler(started, walked, lambda state: tuple(state[0].tolist()), law)


def _walkers() -> Sampler:
    s = Stated(TINY, 3, "rows", 2).constraints
    points = list(itertools.product(*(range(r) for r in np.diff(s.masks.start))))
    how = WalkSettings(PRICE, 0.0, 0.0, 2, False, False, False)
    law: dict[Hashable, float] = {
        table: -PRICE * s.misfit(np.array(table, dtype=np.int32), s.label)
        for table in itertools.product(points, repeat=2)
    }
    return Sampler(
        lambda seed: Walker.started(s, seed),
        lambda walker, sweeps: walker.walked(sweeps, how)[0],
        lambda walker: tuple(map(tuple, walker.atoms.tolist())),
        law,
    )


NOISE = DiscreteLaplace(0.8)
TWICE = np.array([[1, 0], [1, 2]], dtype=np.int32)
"""Draws of two rows by two trees."""
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "hidden draws": lambda: _chains(
        lambda n: DrawLikelihood(n.ravel().astype(np.int32), None, 2, 2)
    ),
    "noisy counts": lambda: _chains(lambda n: CountLikelihood(n.ravel() + 0.0, 2, NOISE, 2)),
    "labels": lambda: _chains(
        lambda n: LabelLikelihood(n.argmax(axis=1).astype(np.int32), 2, LabelNoise("majority"))
    ),
    "known draws": lambda: _chains(
        lambda n: KnownLikelihood(np.column_stack([n, n.sum(axis=1)]), TWICE, True, 2)
    ),
    "known draws without distinct rows": lambda: _chains(
        lambda n: KnownLikelihood(np.column_stack([n, 0 * n[:, 0]]), TWICE, False, 2)
    ),
    "a prior that is learned": lambda: _chains(
        lambda n: CountLikelihood(n.ravel() + 0.0, 2, NOISE, 2), given=False
    ),
    "worlds": _worlds,
    "worlds that cost something": _cheapest,
    "walkers": _walkers,
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_keeps_its_contract(name: str) -> None:
    own = SAMPLERS[name]()
    begun = own.started(1)
    kept = own.rows(begun)
    one = own.walked(begun, 2 * SWEEPS)
    assert own.rows(begun) == kept, "a step must leave the state that it starts from"
    assert own.rows(own.walked(own.started(1), 2 * SWEEPS)) == own.rows(one)
    assert own.rows(own.walked(own.walked(begun, SWEEPS), SWEEPS)) == own.rows(one)
    far = {own.rows(own.walked(own.started(seed), SWEEPS)) for seed in range(9)}
    assert len(far) > 1, "other seeds walk elsewhere"
    if not own.law:
        return
    seen, state = Counter[Hashable](), one
    for _ in range(LOOKS):
        state = own.walked(state, SWEEPS)
        seen[own.rows(state)] += 1
    assert set(seen) <= set(own.law), "no step leaves the support"
    log = np.array(list(own.law.values()))
    law = np.exp(log - log.max())
    expected = LOOKS * law / law.sum()
    found = np.array([seen[rows] for rows in own.law])
    told = expected >= 5
    expected = np.append(expected[told], expected[~told].sum() + 1e-9)
    found = np.append(found[told], found[~told].sum())
    # Chi-square over its degrees of freedom: looks that are a little alike leave it near 1.
    assert ((found - expected) ** 2 / np.maximum(expected, 5.0)).sum() / told.sum() < 2.0
    # The same bound tells a law apart that is a fifth off in the exponent.
    other = np.exp(0.8 * (log - log.max()))
    other = (LOOKS * other / other.sum())[told]
    assert ((found[:-1] - other) ** 2 / other).sum() / told.sum() > 4.0
