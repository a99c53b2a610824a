"""What thresholds say of where rows lie, against all cases that there are, and the rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from helpers.examples import examples
from treeleak.attacks.known_draws import midpoint_kernels as kernels
from treeleak.attacks.known_draws.belief_propagation import places_by_leaves
from treeleak.attacks.known_draws.leaf_beliefs import LeafBeliefs
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.midpoint_kernels import (
    TreeTests,
    ends_of,
    laid_out,
    message_from_tests,
)
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Numeric, Ordinal, Schema

STUMP = (np.array([1, -1, -1]), np.array([2, -1, -1]), np.array([1, 2]))


def stump(n_atoms: int, cut: int, doubled: float) -> TreeTests:
    """One test of one attribute, on all its atoms."""
    none = np.zeros(2, dtype=np.int64)
    begin, at, end = (np.append(x, none) for x in (0, cut, n_atoms))
    return TreeTests(*STUMP, begin, at, end, np.full((3, 2), -1), np.array([doubled, 0.0, 0.0]))


def density(least: tuple[float, float], most: tuple[float, float], doubled: float) -> float:
    """How probable it is, for a small step, that two values add up to something."""
    low, high = doubled - most[1], doubled - most[0]
    both = min(high, least[1]) - max(low, least[0])
    return max(both, 0.0) / ((most[1] - most[0]) * (least[1] - least[0]))


@pytest.mark.slow
@examples(60, fast=3)
@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 3))
def test_a_test_says_what_all_cases_say(seed, n_left, n_right):
    rng, n_atoms, cut = np.random.default_rng(seed), 6, 3
    edges = np.sort(rng.random(n_atoms + 1))
    ends = np.stack([edges[:-1], edges[1:]])
    doubled = 2 * edges[cut]
    n_rows = n_left + n_right
    # Each row lies on one side for sure, or nowhere near.
    probable = np.zeros((n_rows, n_atoms))
    probable[:n_left, :cut] = rng.dirichlet(np.ones(cut), n_left)
    probable[n_left:, cut:] = rng.dirichlet(np.ones(n_atoms - cut), n_right)
    heard = np.zeros((n_rows, 2))
    heard[:n_left, 0] = heard[n_left:, 1] = 1.0
    out = np.zeros_like(probable)
    message_from_tests(
        stump(n_atoms, cut, doubled), ends, np.arange(n_rows), np.arange(2), heard, probable, out
    )

    def chance(rows: list[int], held: dict[int, int]) -> float:
        whole = 0.0
        for atoms in product(range(n_atoms), repeat=len(rows)):
            own = dict(zip(rows, atoms, strict=True)) | held
            p = np.prod([probable[k, z] for k, z in zip(rows, atoms, strict=True)])
            left = [z for z in own.values() if z < cut]
            right = [z for z in own.values() if z >= cut]
            if p and left and right:
                a, b = max(left), min(right)
                whole += p * density(tuple(ends[:, b]), tuple(ends[:, a]), doubled)
        return whole

    every = list(range(n_rows))
    for k in every:
        others = [j for j in every if j != k]
        side = range(cut) if k < n_left else range(cut, n_atoms)
        without = chance(others, {})
        with_ = {z: chance(others, {k: z}) for z in side}
        if max(with_.values()) == 0.0:
            continue
        without = max(without, max(with_.values()) / kernels._MOST**2)
        for z, p in with_.items():
            said = (np.exp(out[k, z]) - kernels._DOUBT) / (1 - kernels._DOUBT)
            ratio = np.clip(p / without, 1 / kernels._MOST, kernels._MOST)
            assert said == pytest.approx(ratio, rel=1e-3, abs=1e-3)


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 60, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {"income": rng.normal(size=n).round(3), "age": age, "visits": rng.integers(0, 9, n)}
    )


SCHEMA = Schema(
    [Numeric("income", -9.0, 9.0), Ordinal("age", 18, 60, missing=True), Ordinal("visits", 0, 9)]
)


@examples(15, fast=3)
@given(st.integers(0, 2**31), st.sampled_from([None, 6]))
def test_rows_at_a_node_have_the_atoms_that_it_names(seed, most):
    X = table(40, seed)
    y = np.random.default_rng(seed).integers(2, size=40)
    model = RandomForestClassifier(3, max_leaf_nodes=most, random_state=seed).fit(X, y)
    release = to_release(model)
    geometry = Geometry.of(release, SCHEMA)
    ends, start = ends_of(geometry), np.append(0, np.cumsum(geometry.radix))
    # As trees see them: a value that is rounded up to a threshold goes the other way.
    rows = X.to_numpy(np.float32).astype(float)
    atoms = [p.holding(rows[:, p.columns], release).argmax(axis=1) for p in geometry.parts]
    for tree, tests in zip(
        release.trees, laid_out(geometry, LeafBoxes.of(geometry), 3), strict=True
    ):
        assert (tests.left[tests.leaf] < 0).all()
        k, node, right = tree.passed(tree.apply(rows))
        for v in np.flatnonzero(~tree.is_leaf):
            assert tests.left[v] > v
            assert tests.right[v] > v
            a, here = int(tree.feature[v]), node == v
            own = start[a] + atoms[a][k[here]]
            if tests.begin[v] == tests.end[v]:
                assert geometry.radix[a] <= 3
                continue
            gone = np.isnan(rows[k[here], a])
            assert (own[gone] == tests.gone[v][right[here][gone].astype(int)]).all()
            own, over = own[~gone], right[here][~gone]
            assert ((own >= tests.begin[v]) & (own < tests.end[v])).all()
            assert ((own >= tests.cut[v]) == over).all()
            assert tests.doubled[v] == 2 * tree.threshold[v]
    for a, (own, x) in enumerate(zip(atoms, rows.T, strict=True)):
        there = ~np.isnan(x)
        low, high = ends[:, start[a] + own[there]]
        assert ((low <= x[there]) & (x[there] <= high)).all()
        assert (low < high).all()


def test_thresholds_that_are_drawn_say_nothing():
    X, y = table(30, 0).fillna(30.0), np.arange(30) % 2
    release = to_release(ExtraTreesClassifier(2, random_state=0).fit(X, y))
    geometry = Geometry.of(release, SCHEMA)
    assert laid_out(geometry, LeafBoxes.of(geometry), 2) == [None, None]


@pytest.mark.slow
def test_with_thresholds_values_are_believed_nearer_to_the_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=100) > 0.5).astype(np.int64)
    release = to_release(RandomForestClassifier(40, random_state=0).fit(X, y))
    geometry = Geometry.of(release, Schema([Numeric(f"x{i}", -9.0, 9.0) for i in range(4)]))
    evidence, start = KnownDraws(geometry, known_draws(release).counts), geometry.radix.cumsum()
    boxes = LeafBoxes.of(geometry)
    true = [p.holding(X[:, p.columns], release).argmax(axis=1) for p in geometry.parts]
    at = np.stack(true, axis=1) + np.append(0, start[:-1])
    log, sure = {}, {}
    for told in (True, False):
        own = LeafBeliefs.of(evidence, boxes, None, y[:, None] == np.arange(2), Clock(60.0))
        if not told:
            own = replace(own, trees=[replace(tree, tests=None) for tree in own.trees])
        atoms = places_by_leaves(own, Clock(60.0))
        log[told] = np.log(np.take_along_axis(atoms, at, axis=1) + 1e-9).mean()
        sure[told] = np.add.reduceat(atoms**2, np.append(0, start[:-1]), axis=1).mean()
        right = np.take_along_axis(atoms, at, axis=1).mean()
        assert sure[told] == pytest.approx(right, abs=0.1)
    assert log[True] > log[False] + 0.1
