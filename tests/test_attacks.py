"""The parts of the exact attack against brute force over all histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import histograms
from helpers.examples import examples
from helpers.grids import cuts_for, schemas, some_rows
from helpers.releases import counted, random_tree
from treeleak.attacks.exact.maximum_entropy import maximum_entropy
from treeleak.attacks.exact.run import exact
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.solvers.integer import Bounds, IntegerProblem, NoSolution, bounds
from treeleak.core.clock import Clock
from treeleak.evidence import CountSystem, evidence_for
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_of
from treeleak.release.release import Release
from treeleak.schema import Binary, Ordinal, Schema

UNITS = st.sampled_from(["rows", "none"])


def example(schema, seed, counts_are="rows", n_trees=3):
    rng = np.random.default_rng(seed)
    names = schema.columns
    X = some_rows(schema, names, int(rng.integers(1, 7)), rng)
    y = rng.integers(2, size=len(X))
    trees = [random_tree(rng, cuts_for(schema, names), 2) for _ in range(n_trees)]
    return Geometry.of(counted(trees, names, X, y, 2, counts_are=counts_are), schema)


def systems_of(geometry):
    evidence = evidence_for(geometry.release)(geometry)
    return list(evidence.systems(enumerate_cells(geometry, evidence.open_leaves())))


def disturbed(system: CountSystem, geometry: Geometry, seed: int) -> CountSystem:
    """The system with a row moved to another leaf in one or two trees: it may have no solution."""
    rng = np.random.default_rng(seed)
    target = system.target.copy()
    for t in rng.integers(len(geometry.release.trees), size=rng.integers(1, 3)):
        own = np.arange(geometry.leaf_start[t], geometry.leaf_start[t + 1])
        held = own[target[own] > 0]
        if len(held):
            target[rng.choice(held)] -= 1
            target[rng.choice(own)] += 1
    return CountSystem(
        system.name,
        system.points,
        system.label,
        system.cell,
        system.signature,
        target,
        system.n_rows,
    )


@examples(150, fast=5)
@given(schemas(), st.integers(0, 2**32), UNITS, st.booleans())
def test_bounds_hold_in_every_solution_and_the_solver_agrees_with_brute_force(
    schema, seed, unit, disturb
):
    geometry = example(schema, seed, unit)
    for system in systems_of(geometry):
        if disturb:
            system = disturbed(system, geometry, seed)
        solutions = histograms(system.signature, system.target, system.n_rows)
        if solutions is None:
            continue
        found = bounds(system)
        if found.broken >= 0:
            assert not solutions
            continue
        for m in solutions:
            assert (found.lower <= m).all()
            assert (m <= found.upper).all()
        if found.determined:
            assert [m.tolist() for m in solutions] == [found.lower.tolist()]
        problem = IntegerProblem(system, found)
        if not solutions:
            with pytest.raises(NoSolution):
                problem.solutions(Clock(60.0), 60.0, 0)
            continue
        (solved,) = problem.solutions(Clock(60.0), 60.0, 0)
        assert solved.tolist() in [m.tolist() for m in solutions]
        common, proved, more = problem.always([solved], Clock(60.0), 60.0, 0)
        assert proved
        assert common.tolist() == np.minimum.reduce(solutions).tolist()
        assert all(m.tolist() in [s.tolist() for s in solutions] for m in more)


def test_a_stopped_clock_proves_nothing():
    geometry = example(Schema([Binary("a"), Binary("b")]), 1, n_trees=2)
    system = systems_of(geometry)[0]
    problem = IntegerProblem(system, bounds(system))
    clock = Clock(60.0)
    (solved,) = problem.solutions(clock, 60.0, 0)
    clock.stop()
    assert problem.solutions(clock, 60.0, 0) == []
    assert problem.always([solved], clock, 60.0, 0)[1:] == (False, [])


def counted_anew(geometry: Geometry, target: np.ndarray) -> Release:
    """The release with other leaf counts, of a single class."""
    trees = []
    for t, tree in enumerate(geometry.release.trees):
        counts = np.zeros((tree.n_nodes, 1))
        counts[tree.leaves, 0] = target[geometry.leaf_start[t] : geometry.leaf_start[t + 1]]
        trees.append(tree.with_counts(counts=counts, totals=counts[:, 0]))
    return replace(geometry.release, trees=tuple(trees))


FOUR = Schema([Binary(c) for c in "abcd"])


@pytest.mark.parametrize("seed", [59, 167, 179, 261])
@pytest.mark.slow
def test_a_contradiction_that_only_the_solver_sees_names_the_first_tree_too_many(seed):
    rng = np.random.default_rng(seed)
    X = some_rows(FOUR, FOUR.columns, int(rng.integers(2, 9)), rng)
    trees = [random_tree(rng, [[0.5]] * 4, 2) for _ in range(4)]
    release = counted(trees, FOUR.columns, X, np.zeros(len(X), dtype=int), 1)
    geometry = Geometry.of(release, FOUR)
    system = disturbed(systems_of(geometry)[0], geometry, seed)
    assert bounds(system).broken < 0

    def possible(n_trees: int) -> bool:
        target = system.target[: geometry.leaf_start[n_trees]]
        return bool(histograms(system.signature[:, :n_trees], target, system.n_rows, 10**6))

    culprit = next(t for t in range(4) if not possible(t + 1))
    geometry = Geometry.of(counted_anew(geometry, system.target), FOUR)
    answer = exact(evidence_for(geometry.release)(geometry), geometry, Clock(60.0), 0)
    assert answer.status == "infeasible"
    assert answer.contradiction.tree == culprit
    assert geometry.release.trees[culprit].is_leaf[answer.contradiction.node]


def atoms_and_sizes(geometry: Geometry, system: CountSystem):
    values = values_of(geometry.parts, 2)
    grid = np.column_stack([geometry.atoms(system.points), system.label])
    return grid, grid + values.atom_start[:-1], values.atom_sizes


@examples(60, fast=10)
@given(schemas(), st.integers(0, 2**32), UNITS, st.integers(1, 4))
def test_no_other_fit_is_closer_to_the_prior(schema, seed, unit, rounds):
    geometry = example(schema, seed, unit)
    rng = np.random.default_rng(seed)
    for system in systems_of(geometry):
        solutions = histograms(system.signature, system.target, system.n_rows)
        if not solutions or system.n_rows == 0:
            continue
        _, numbered, sizes = atoms_and_sizes(geometry, system)
        fit = maximum_entropy(
            numbered, sizes, system.cell, system.signature, system.target,
            rounds=rounds, sweeps=20_000,
        )  # fmt: skip
        assert (fit.w >= 0).all()
        assert fit.prior.sum() == pytest.approx(1)
        reached = np.zeros(len(system.target))
        for t in range(system.signature.shape[1]):
            np.add.at(reached, system.signature[system.cell, t], fit.w)
        assert np.abs(reached - system.target).max() <= fit.residual + 1e-3
        assert fit.residual < 0.05

        def divergence(w, prior=fit.prior):
            held = w > 0
            return float((w[held] * np.log(w[held] / prior[held])).sum())

        for _ in range(20):
            # Any mixture of whole solutions meets the counts, however each spreads in its cells.
            share = rng.dirichlet(np.ones(len(solutions)))
            spread = rng.random(len(system.cell))
            spread /= np.bincount(system.cell, spread)[system.cell]
            other = (share @ np.array(solutions))[system.cell] * spread
            assert (
                divergence(fit.w) <= divergence(other) + 0.1 * system.n_rows * fit.residual + 0.02
            )


@examples(60, fast=10)
@given(schemas(), st.integers(0, 2**32), UNITS, st.booleans())
def test_independent_equations_say_what_all_say(schema, seed, unit, disturb):
    geometry = example(schema, seed, unit)
    for system in systems_of(geometry):
        if disturb:
            system = disturbed(system, geometry, seed)
        n_cells = len(system.signature)
        wide = Bounds(np.zeros(n_cells, int), np.full(n_cells, system.n_rows + 1), -1)
        problem = IntegerProblem(system, wide)

        def lines(equations, width=n_cells):
            a = np.zeros((len(equations), width + 1))
            for line, (members, total) in zip(a, equations, strict=True):
                line[members], line[-1] = 1, total
            return a

        every, kept = lines(problem.equations), lines(problem.independent)
        assert len(kept) <= len(every)

        def rank(a):
            return np.linalg.matrix_rank(a) if a.size else 0

        for sums in (slice(None, -1), slice(None)):  # Without the sums, and with them.
            assert rank(kept[:, sums]) == rank(every[:, sums])
        if rank(every) == rank(every[:, :-1]):
            assert len(kept) == rank(every)


@examples(60, fast=20)
@given(st.integers(0, 2**32 - 1))
def test_worlds_that_agree_prove_nothing(seed):
    """What every world has in a row is certain only where every dataset has it."""
    schema = Schema([Binary("a"), Binary("b", missing=True), Ordinal("c", 0, 2)])
    geometry = example(schema, seed)
    values, rng = values_of(geometry.parts, 2), np.random.default_rng(seed)
    for system in systems_of(geometry):
        known = bounds(system)
        every = histograms(system.signature, system.target, system.n_rows)
        if every is None or not system.n_rows:
            continue
        search = SolutionSampler.of(system, known, geometry, values)
        world = search.world_at(search.spots(every[0], rng), rng)
        final = search.bayes_estimate([world] * 10, Clock(9.0), 0)
        rows = search.rows(final, [world] * 10, known, np.ones(final.values.shape))
        several = np.ptp(search.atoms, axis=0) > 0
        certain = ((rows.confidence == 1) & several).any(axis=1)
        held = np.bincount(search.cells(final)[certain], minlength=len(system.signature))
        assert (held <= np.min(every, axis=0)).all()
