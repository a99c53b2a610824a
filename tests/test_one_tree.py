"""Rows behind one tree, drawn leaf by leaf: against all rows, and all worlds."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from helpers.worlds import opened
from treeleak import reconstruct
from treeleak.attacks.exact.one_tree import LeafChain, Leaves, redraw
from treeleak.attacks.exact.posterior_under_learned_prior import PLAN, posterior_under_learned_prior
from treeleak.attacks.exact.world_chains import ChainContext
from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.posterior.chains import hierarchy_of
from treeleak.attacks.posterior.prior_kernels import imagine, relearn
from treeleak.core.clock import Clock
from treeleak.datasets import load_compas
from treeleak.evidence import evidence_for
from treeleak.metrics import reconstruction_error
from treeleak.partition import Geometry
from treeleak.partition.cells import MAX_FINE_GRID
from treeleak.release import Release, to_release
from treeleak.release.infer_schema import infer_schema
from treeleak.schema import Binary, Implies, Ordinal, Schema

SMALL = Schema([Binary("a"), Binary("b"), Ordinal("c", 1, 3), Binary("d")])
RULED = Schema(SMALL.attributes, [Implies({"a": 1}, {"b": 1})])
LONG = Schema([Ordinal("a", 0, 9), Binary("b"), Binary("c")])
"""Of the atoms of its first column, some are in one bin."""
BRIEF = replace(
    PLAN, chains=4, cooling=5, between=5, samples=5, sweeps=10.0, least_sweeps=1.0
)  # fmt: skip


def the_land(
    seed: int, schema: Schema = SMALL, n_rows: int = 5, n_trees: int = 1, depth: int = 2
) -> ChainContext:
    """What all chains share behind a small model."""
    _, geometry, values, searches = opened(schema, seed, n_rows, n_trees, depth)
    return ChainContext.of(searches, geometry, values)


@pytest.mark.parametrize("schema", [SMALL, LONG])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_box_are_drawn_as_often_as_what_rows_are_like_says(
    schema: Schema, seed: int
) -> None:
    land, rng, n = the_land(seed, schema, depth=5), np.random.default_rng(seed), 20_000
    ground, values = land.grid, land.values
    state = rng.integers(1, 2**63, size=1, dtype=np.uint64)
    hierarchy = hierarchy_of(values, 0)
    some = np.zeros((30, len(ground.radix)), dtype=np.int16)
    imagine(state, some, ground, hierarchy, 3)
    # After many turns, most attributes depend on others.
    for _ in range(40):
        relearn(state, some, ground, hierarchy)
    allowed = rng.random((2, values.n_atoms)) < 0.7
    allowed[:, values.atom_start[:-1]] = True
    box = np.repeat([-1, 0, 1], [3, n, n])
    atoms = np.full((len(box), len(ground.radix)), 7, dtype=np.int16)
    redraw(atoms, box, allowed, ground, hierarchy, state)
    assert (atoms[:3] == 7).all(), "rows that do not move stay"
    for b in range(2):
        sides = [np.flatnonzero(own) for own in np.split(allowed[b], values.atom_start[1:-1])]
        every = list(itertools.product(*(side.tolist() for side in sides)))
        law = np.array([log_probability(row, ground, hierarchy) for row in every])
        expected = n * np.exp(law - law.max()) / np.exp(law - law.max()).sum()
        seen = Counter(map(tuple, atoms[box == b].tolist()))
        assert set(seen) <= set(every)
        found = np.array([seen[row] for row in every])
        told = expected >= 5
        chi = ((found - expected) ** 2 / np.maximum(expected, 5.0))[told].sum()
        assert chi < told.sum() + 6 * np.sqrt(2 * told.sum())


def log_probability(row, ground, hierarchy) -> float:
    """Sum over attributes, each given the bin of the one that it depends on."""
    out = 0.0
    for a, up in enumerate(hierarchy.parent):
        line = 0 if up < 0 else hierarchy.bin[up, row[up]]
        out += hierarchy.log_share[hierarchy.offset[a] + line * ground.radix[a] + row[a]]
    return out


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_world_is_the_cheapest_of_all(seed: int) -> None:
    land, rng = the_land(seed, n_rows=9), np.random.default_rng(seed)
    leaves = Leaves.of(land)
    assert leaves is not None
    for search, own in zip(land.searches, leaves.boxes, strict=True):
        space, atoms = search.space, search.atoms[search.live_of]
        cost = rng.integers(9, size=(space.n_rows, land.values.n_atoms)).astype(float)
        of_points = cost[:, atoms].sum(axis=2)
        leaf = space.packed[space.cell].ravel()
        orders = set(itertools.permutations(np.unique(leaf)[own.box].tolist()))
        least = min(
            sum(of_points[k, leaf == own].min() for k, own in enumerate(order)) for order in orders
        )
        points = own.nearest(cost)
        assert space.misfit(points) == 0
        assert of_points[np.arange(len(points)), points].sum() == least


@pytest.mark.parametrize("seed", range(6))
def test_a_chain_meets_all_counts_and_never_changes(seed: int) -> None:
    land = the_land(seed, n_rows=9)
    leaves = Leaves.of(land)
    assert leaves is not None
    begun = LeafChain.started(leaves, seed).redrawn(1)
    kept = begun.atoms.copy(), begun.hierarchy.log_share.copy(), begun.rng.copy()
    chain = begun.redrawn(5)
    for was, now in zip(kept, (begun.atoms, begun.hierarchy.log_share, begun.rng), strict=True):
        assert np.array_equal(was, now)
    assert np.array_equal(chain.atoms, begun.redrawn(2).redrawn(3).atoms)
    assert len(chain.atoms) == land.n_rows == 9
    walker = chain.resting
    assert np.array_equal(walker.atoms, chain.atoms)
    for s, search in enumerate(land.searches):
        assert walker.misfit_of(s) == search.space.misfit(walker.points[s]) == 0
        assert walker.learned().moved(5.0, 1e-6)[0].misfit_of(s) == 0, "it could walk on"


def test_leaves_that_are_no_boxes_of_one_tree_are_walked() -> None:
    assert any(Leaves.of(the_land(seed, n_trees=3)) is None for seed in range(6))
    ruled = [the_land(seed, RULED, n_rows=8, depth=1) for seed in range(12)]
    cut = [land for land in ruled if Leaves.of(land) is None]
    assert cut
    for land in cut:
        clock = Clock(600.0)
        found = posterior_under_learned_prior(
            land.searches, land.geometry, land.values, clock, 0, BRIEF
        )
        if found is None:
            assert not any(search.can_move for search in land.searches)
            continue
        assert found.leaves is None
        for s in range(len(land.searches)):
            found = found.near(s, None, clock, 0)
            assert found.world(s, [], clock, 0)[0].misfit == 0


def test_samples_behind_one_tree_meet_its_counts() -> None:
    """Each row is in one leaf: what rows are taken to be like must not pull it into another one."""
    data = load_compas()
    X, y = data.X[:100], data.y[:100]
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    found = reconstruct(tree, data.schema, time_limit=60, seed=0)
    assert found.posterior is not None
    samples, rng = found.posterior.samples, np.random.default_rng(0)
    held = np.bincount(tree.apply(X), minlength=tree.tree_.node_count)
    for k in range(0, len(samples), 8):
        rows = samples.values.rows(samples.drawn(k, rng), X.shape[1])
        table = pd.DataFrame(rows, columns=X.columns)
        assert np.array_equal(np.bincount(tree.apply(table), minlength=len(held)), held)
    truth = reconstruction_error(found.X, X, data.schema)
    assert truth < 0.1
    assert 0.6 * truth < found.expected_error < 1.5 * truth


# ----------------------------------------------------------------------- a grid too large to list


def release_of(n_rows: int) -> Release:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, 4)), rng.integers(0, 3, n_rows)
    return to_release(DecisionTreeClassifier(min_samples_leaf=2, random_state=0).fit(X, y))


def test_rows_are_placed_without_a_search():
    release = release_of(600)
    geometry = Geometry.of(release, infer_schema(release))
    assert geometry.n_points > MAX_FINE_GRID
    evidence = evidence_for(release)(geometry)
    constraints = RowConstraints.of_exact(evidence, geometry)
    rows = constraints.of_separate_trees(0)
    assert rows is not None
    assert (rows[:, -1] == constraints.label).all()
    atoms = np.ascontiguousarray(rows[:, :-1])
    assert constraints.misfit(atoms, constraints.label) == 0
    # Other seeds, other places in the same leaves.
    other = constraints.of_separate_trees(1)
    assert other is not None
    assert (other != rows).any()
    leaves = (constraints.masks.trace(np.ascontiguousarray(r[:, :-1])) for r in (rows, other))
    assert np.array_equal(*leaves)


def test_rows_of_trees_that_share_no_column_are_placed_without_a_search():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 4)), rng.integers(0, 3, 300)
    parts = [
        to_release(DecisionTreeClassifier(random_state=0).fit(X * np.isin(range(4), kept), y))
        for kept in ([0, 1], [2, 3])
    ]
    release = replace(parts[0], trees=tuple(part.trees[0] for part in parts))
    geometry = Geometry.of(release, infer_schema(release))
    constraints = RowConstraints.of_exact(evidence_for(release)(geometry), geometry)
    rows = constraints.of_separate_trees(0)
    assert rows is not None
    assert (rows[:, -1] == constraints.label).all()
    assert constraints.misfit(np.ascontiguousarray(rows[:, :-1]), constraints.label) == 0
    # A third tree tests a column again.
    three = replace(release, trees=(*release.trees, release.trees[0]))
    geometry = Geometry.of(three, infer_schema(three))
    again = RowConstraints.of_exact(evidence_for(three)(geometry), geometry)
    assert again.of_separate_trees(0) is None
