"""The parts of the exact attack against brute force over all histograms."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import histograms
from helpers.examples import examples
from helpers.grids import cuts_for, some_rows
from helpers.releases import counted, random_tree
from treeleak.attacks.exact.worlds import SolutionSampler
from treeleak.attacks.solvers.integer import IntegerProblem, bounds
from treeleak.core.clock import Clock
from treeleak.evidence import evidence_for
from treeleak.partition import Geometry, enumerate_cells
from treeleak.partition.value_index import values_of
from treeleak.schema import Binary, Ordinal, Schema


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


def test_a_stopped_clock_proves_nothing():
    geometry = example(Schema([Binary("a"), Binary("b")]), 1, n_trees=2)
    system = systems_of(geometry)[0]
    problem = IntegerProblem(system, bounds(system))
    clock = Clock(60.0)
    (solved,) = problem.solutions(clock, 60.0, 0)
    clock.stop()
    assert problem.solutions(clock, 60.0, 0) == []
    assert problem.always([solved], clock, 60.0, 0)[1:] == (False, [])


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
        world = search.world_at(search.draw_points(every[0], rng), rng)
        final = search.bayes_estimate([world] * 10, Clock(9.0), 0)
        rows = search.rows(final, [world] * 10, known, np.ones(final.values.shape))
        several = np.ptp(search.atoms, axis=0) > 0
        certain = ((rows.confidence == 1) & several).any(axis=1)
        held = np.bincount(search.cells(final)[certain], minlength=len(system.signature))
        assert (held <= np.min(every, axis=0)).all()
