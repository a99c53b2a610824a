"""Classes by what leaves count: each step against sums over all there is, and whole forests."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from helpers.examples import examples
from helpers.older import needs_counted_gaps
from treeleak.attacks.known_draws import belief_kernels as kernels
from treeleak.attacks.known_draws import law_kernels, walking
from treeleak.attacks.known_draws.belief_kernels import Beliefs, Messages, TreePieces
from treeleak.attacks.known_draws.belief_propagation import (
    classes_by_leaves,
)
from treeleak.attacks.known_draws.classes import Classes, find_classes
from treeleak.attacks.known_draws.domains import Domains
from treeleak.attacks.known_draws.leaf_beliefs import LeafBeliefs, TreeFactor
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.attacks.known_draws.run import fallback_rows
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Categorical, Numeric, Schema


def forest(
    n_rows: int, n_trees: int, columns: int, seed: int, gaps: bool = False, **options
) -> tuple[KnownDraws, np.ndarray]:
    """A forest on numbers, the first of which has to do with the class, and the classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, columns))
    y = (X[:, 0] + rng.normal(size=n_rows) > 0.8).astype(int)
    if gaps:
        needs_counted_gaps()
        X[rng.random(X.shape) < 0.2] = np.nan
    model = RandomForestClassifier(n_trees, random_state=seed, **options).fit(X, y)
    columns = [Numeric(f"x{i}", -9.0, 9.0, missing=gaps) for i in range(columns)]
    release = to_release(model)
    geometry = Geometry.of(release, Schema(columns))
    return KnownDraws(geometry, known_draws(release).counts), y


def every_class(evidence: KnownDraws) -> np.ndarray:
    return np.ones((evidence.n_rows, evidence.n.shape[1]), dtype=bool)


def laid_out(evidence: KnownDraws, possible: np.ndarray | None = None) -> LeafBeliefs:
    boxes = LeafBoxes.of(evidence.geometry)
    possible = every_class(evidence) if possible is None else possible
    return LeafBeliefs.of(evidence, boxes, None, possible, Clock(60.0))


def found_by_leaves(evidence: KnownDraws) -> Classes:
    """Classes from what all leaves count, where whole trees do not give them."""
    own = laid_out(evidence)
    return find_classes(
        evidence, every_class(evidence), Clock(0.0), 0,
        lambda mended: classes_by_leaves(own, mended, Clock(120.0)),
    )  # fmt: skip


def some_beliefs(evidence: KnownDraws, rng: np.random.Generator) -> tuple[Beliefs, list]:
    """Any beliefs; beside them, probabilities of atoms, attribute by attribute."""
    shape = evidence.n_rows, 2 * evidence.n.shape[1]
    # None so improbable that it is not heard.
    share = 0.8 * rng.dirichlet(np.ones(shape[1]), size=shape[0]) + 0.2 / shape[1]
    atoms = [rng.dirichlet(np.ones(size), size=shape) for size in evidence.geometry.radix]
    total = np.concatenate(atoms, axis=2).cumsum(axis=2)
    kind = np.tile(np.arange(2), shape[1] // 2)
    label = np.tile(np.arange(shape[1]) // 2, (shape[0], 1))
    return Beliefs(np.pad(total, ((0, 0), (0, 0), (1, 0))), share, label, kind), atoms


def of_points(evidence: KnownDraws, atoms: list) -> tuple[np.ndarray, np.ndarray]:
    """Every point of the grid, and how probable it is of each row and part."""
    radix = evidence.geometry.radix
    points = np.array(list(itertools.product(*(range(size) for size in radix))))
    parts = [own[:, :, points[:, a]] for a, own in enumerate(atoms)]
    return points, np.prod(parts, axis=0)


def said_of_points(factor: TreeFactor, evidence: KnownDraws, points: np.ndarray) -> np.ndarray:
    """What a tree said of each point, as a log, shape (n_own_rows, n_parts, n_points)."""
    pieces, said = factor.pieces, factor.messages
    first = np.append(0, np.cumsum(evidence.geometry.radix))
    out = np.repeat(said.parts[:, :, None], len(points), axis=2)
    for a, own in enumerate(points.T):
        x = first[a] + own
        inside = (pieces.low[:, None] <= x) & (x < pieces.high[:, None])
        out += np.einsum("icp,px->icx", said.pieces, inside.astype(float))
    return out


@pytest.mark.slow
@examples(30, fast=6)
@given(st.integers(0, 2**32), st.booleans())
def test_a_place_is_as_probable_as_the_points_in_it_and_says_what_is_left_of_them(seed, gaps):
    """Small grids: every point is looked at."""
    rng = np.random.default_rng(seed)
    evidence, _ = forest(12, 3, 2, seed % 1000, gaps=gaps, max_depth=3)
    beliefs, atoms = some_beliefs(evidence, rng)
    points, probable = of_points(evidence, atoms)
    leaf_of = evidence.geometry.trace_atoms(points)
    for t, factor in enumerate(laid_out(evidence).trees):
        pieces, rows = factor.pieces, factor.rows
        shape = len(rows), beliefs.share.shape[1], len(pieces.low)
        said = Messages(rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[:2]))
        # Nothing is said behind the last piece.
        said.pieces[:, :, pieces.low >= pieces.high] = 0.0
        factor = replace(factor, messages=said)
        before = beliefs.share[rows][:, :, None] * probable[rows]
        before *= np.exp(-said_of_points(factor, evidence, points))
        leaf = leaf_of[:, t] - evidence.geometry.leaf_start[t]
        inside = [leaf == v for v in pieces.leaf]
        parts = [np.flatnonzero(beliefs.label[0] == c) for c in pieces.label]
        own = [before[:, s][:, :, i].sum(axis=2) for s, i in zip(parts, inside, strict=True)]
        expected = np.sum(own, axis=2).T / np.sum(own, axis=(0, 2))[:, None]
        total = np.zeros((*shape[:2], shape[2] + 1))
        of_part, reach = np.zeros((*shape[:2], len(inside))), np.zeros(expected.shape)
        kernels.reach_places(pieces, rows, beliefs, said, total, of_part, reach)
        np.testing.assert_allclose(reach, expected, atol=1e-6)

        # What is heard is the change of each part, and of each attribute within it.
        heard = rng.dirichlet(np.ones(reach.shape[1]), size=len(rows))
        kernels.message_to_rows(pieces, said, total, of_part, reach, heard, 1.0, 1.0)
        told = said_of_points(factor, evidence, points)
        for i in range(len(rows)):
            for s, c in enumerate(beliefs.label[0]):
                change = np.zeros((2, len(points)))
                for w, weight in enumerate((heard[i], reach[i])):
                    for j in np.flatnonzero(pieces.label == c):
                        whole = before[i][beliefs.label[0] == c][:, inside[j]].sum()
                        change[w] += weight[j] * before[i, s] * inside[j] / max(whole, 1e-300)
                whole = change.sum(axis=1)
                if not whole[1]:
                    continue
                exact = np.full(len(points), np.log(whole[0] / whole[1]))
                for a in range(points.shape[1]):
                    cavity = np.bincount(points[:, a], before[i, s]) / before[i, s].sum()
                    at = np.array([np.bincount(points[:, a], own) for own in change])
                    after, without = np.log(np.maximum(at / whole[:, None] / cavity, 1e-6))
                    exact += (after - without)[points[:, a]]
                np.testing.assert_allclose(told[i, s], exact, atol=1e-3)


@pytest.mark.slow
@examples(60, fast=10)
@given(st.integers(0, 2**32), st.booleans())
def test_counts_are_as_probable_as_all_ways_to_meet_them(seed, distinct):
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(1, 8))
    b, p = rng.integers(1, 4, n_rows), rng.random(n_rows) ** 2
    inside = rng.random(n_rows) < p
    n, d = int(b[inside].sum()), int(inside.sum()) if distinct else -1
    none = np.zeros(0, dtype=np.int64)
    place = np.zeros(1, dtype=np.int64)
    tree = TreePieces(
        place, none, none, none, np.zeros(2, dtype=np.int64), place, none, none, place, place,
        np.array([n]), np.array([d]),
    )  # fmt: skip
    heard = np.zeros((n_rows, 1))
    kernels.message_from_counts(tree, b, p[:, None], heard)
    # Beliefs with the counts are scaled so that the likeliest place has 1: with one place, all do.
    assert (heard == 1.0).all()
    out = np.zeros(n_rows)
    law_kernels.count_ratios(p, b, n, d, out)
    every = np.array(list(itertools.product([False, True], repeat=n_rows)))
    probable = np.where(every, p, 1 - p)
    meets = (every @ b == n) & ((every.sum(axis=1) == d) | (not distinct))
    for k in range(n_rows):
        others = np.delete(probable, k, axis=1).prod(axis=1)
        there, absent = (others[meets & (every[:, k] == own)].sum() for own in (True, False))
        with np.errstate(divide="ignore"):
            exact = np.clip(np.log(there) - np.log(absent), -30, 30)
        assert out[k] == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_rows", "n_trees", "columns", "seed"), [(160, 30, 3, 0), (160, 30, 6, 1), (200, 40, 6, 0)]
)
def test_leaves_give_the_classes_that_whole_trees_do_not(n_rows, n_trees, columns, seed):
    evidence, y = forest(n_rows, n_trees, columns, seed)
    alone = find_classes(evidence, every_class(evidence), Clock(0.0), 0)
    assert alone.guessed
    assert (alone.label == y)[evidence.drawn].mean() < 0.95
    found = found_by_leaves(evidence)
    assert (found.label == y)[evidence.drawn].all()
    assert (found.sure == evidence.drawn).all()


def test_classes_from_leaves_are_certain_though_rows_miss_counts():
    evidence, y = forest(160, 30, 3, 0)
    domains = Domains.of(evidence)
    found = walking.classes_of(evidence, None, domains, Clock(120.0), 0)
    assert (found.label == y)[evidence.drawn].all()
    values = values_in(evidence.geometry)
    rows = walking._with_classes(fallback_rows(domains, values), found)
    assert rows.misfit
    assert (rows.confidence[:, -1] > 0.999).tolist() == found.sure.tolist()
    believed = replace(rows, confidence=np.ones_like(rows.confidence))
    assert walking._with_classes(believed, found).confidence.max() < 1.0
    # Without domains, nothing is known of leaves.
    assert not walking.classes_of(evidence, None, None, Clock(0.1), 0).sure.any()


def test_three_classes_and_gaps():
    rng = np.random.default_rng(1)
    needs_counted_gaps()
    X = rng.normal(size=(150, 4))
    y = np.digitize(X[:, 0] + rng.normal(size=150), [-0.5, 0.8])
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = rng.integers(5, size=150)
    model = RandomForestClassifier(34, random_state=0).fit(X, y)
    columns = [Numeric(f"x{i}", -9.0, 9.0, missing=True) for i in range(3)]
    release = to_release(model)
    geometry = Geometry.of(release, Schema([*columns, Categorical("x3", [0, 1, 2, 3, 4])]))
    evidence = KnownDraws(geometry, known_draws(release).counts)
    assert not find_classes(evidence, every_class(evidence), Clock(0.0), 0).sure.any()
    found = found_by_leaves(evidence)
    assert (found.label == y)[evidence.drawn].all()
