"""Kinds of rows: fitted to what leaves count, held against sums over all points of small grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from helpers.examples import examples
from treeleak.attacks.known_draws import leaf_beliefs
from treeleak.attacks.known_draws.latent_classes import count_by_class, fitted_classes
from treeleak.attacks.known_draws.leaf_beliefs import LeafBeliefs
from treeleak.attacks.known_draws.leaf_boxes import LeafBoxes
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Numeric, Schema


def forest(n_rows: int, n_trees: int, seed: int, **options) -> tuple[KnownDraws, np.ndarray]:
    """A forest on three columns that go together, and the classes."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_rows)
    X = common[:, None] + 0.3 * rng.normal(size=(n_rows, 3))
    y = (rng.normal(size=n_rows) > 0.3).astype(int)
    y[:2] = 0, 1
    release = to_release(RandomForestClassifier(n_trees, random_state=seed, **options).fit(X, y))
    geometry = Geometry.of(release, Schema([Numeric(f"x{i}", -9.0, 9.0) for i in range(3)]))
    return KnownDraws(geometry, known_draws(release).counts), y


def laid_out(evidence: KnownDraws, y: np.ndarray) -> LeafBeliefs:
    boxes, possible = LeafBoxes.of(evidence.geometry), y[:, None] == np.arange(2)
    return LeafBeliefs.of(evidence, boxes, None, possible, Clock(60.0))


@pytest.mark.slow
@examples(20, fast=5)
@given(st.integers(0, 2**32))
def test_kinds_are_counted_as_points_are(seed):
    """Each draw lies at a point of its leaf, and is of a kind, as probably as these go together."""
    rng = np.random.default_rng(seed)
    evidence, y = forest(12, 3, seed % 1000, max_depth=3)
    radix = evidence.geometry.radix
    points = np.array(list(itertools.product(*(range(size) for size in radix))))
    atoms = [rng.dirichlet(np.ones(size), size=2) for size in radix]
    share = rng.dirichlet(np.ones(2))
    parts = [own[:, x] for own, x in zip(atoms, points.T, strict=True)]
    probable = share[:, None] * np.prod(parts, axis=0)
    upto = np.pad(np.concatenate(atoms, axis=1).cumsum(axis=1), ((0, 0), (1, 0)))
    leaf_of = evidence.geometry.trace_atoms(points)
    ends = np.append(0, np.cumsum(radix))
    for t, tree in enumerate(laid_out(evidence, y).trees):
        for c in range(2):
            expected, log = np.zeros(probable.shape), 0.0
            for leaf in np.arange(*evidence.geometry.leaf_start[t : t + 2]):
                inside, n = leaf_of[:, t] == leaf, evidence.n[leaf, c]
                expected += n * probable * inside / probable[:, inside].sum()
                log += n * np.log(probable[:, inside].sum())
            mean, count = np.zeros((2, ends[-1])), np.zeros(2)
            assert count_by_class(tree.pieces, c, upto, share, mean, count) == pytest.approx(log)
            np.testing.assert_allclose(count, expected.sum(axis=1), atol=1e-4)
            for a, own in enumerate(points.T):
                low = tree.pieces.low[tree.pieces.low < tree.pieces.high]
                if not ((ends[a] <= low) & (low < ends[a + 1])).any():
                    continue  # Of attributes without tests, a tree says nothing.
                of_atoms = [np.bincount(own, weights) for weights in expected]
                np.testing.assert_allclose(mean[:, ends[a] : ends[a + 1]], of_atoms, atol=1e-4)


def log_probable(own: LeafBeliefs, n_kinds: int, trees: slice, fit: slice) -> float:
    """Mean log of how probable the draws of some trees are, for kinds fitted to others."""
    pieces = [tree.pieces for tree in own.trees]
    fitted = fitted_classes(pieces[fit], n_kinds, 2, own.start, Clock(60.0))
    share, atoms = np.exp(fitted.log_share), np.exp(fitted.log_atoms)
    upto = np.pad(atoms.cumsum(axis=2), ((0, 0), (0, 0), (1, 0)))
    mean, count = np.zeros_like(atoms), np.zeros_like(share)
    logs = [
        count_by_class(tree, c, upto[c], share[c], mean[c], count[c])
        for tree in pieces[trees]
        for c in range(2)
    ]
    return sum(logs) / sum(tree.n.sum() for tree in pieces[trees])


@pytest.mark.slow
def test_kinds_say_how_attributes_go_together():
    """Of trees that they were not fitted to, too."""
    own = laid_out(*forest(150, 40, 0))
    fit, held_out = slice(0, 30), slice(30, 40)
    one, four = (log_probable(own, n, held_out, fit) for n in (1, 4))
    assert four > one + 0.3


@pytest.mark.slow
def test_before_anything_is_heard_rows_are_like_all_of_their_class():
    evidence, y = forest(60, 10, 2)
    own = laid_out(evidence, y)
    own.believe()
    share, atoms = np.exp(own.latent.log_share), np.exp(own.latent.log_atoms)
    expected = np.einsum("cz,czx->cx", share / share.sum(axis=1, keepdims=True), atoms)
    np.testing.assert_allclose(own.atoms, expected[y], atol=1e-12)
    assert len(own.beliefs.kind) == leaf_beliefs._PARTS
