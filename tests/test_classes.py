"""Classes from what whole trees count, against every choice of classes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.releases import bootstrap_draws, drawn, drawn_alone, random_tree, summed
from treeleak.attacks.known_draws.walking import find_classes
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.schema import Binary, Schema

SCHEMA = Schema([Binary("a"), Binary("b")])


def evidence_of(
    seed: int, n_rows: int, n_trees: int, n_classes: int, distinct: bool, n_draws: int | None
) -> tuple[KnownDraws, np.ndarray]:
    """Trees that part classes or do not, and the classes of the rows that they drew."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.integers(2, size=(n_rows, 2)).astype(float)
    if rng.random() < 0.5:
        X[:, 0] = y > 0
    trees = [random_tree(rng, [[0.5], [0.5]], 3) for _ in range(n_trees)]
    b = bootstrap_draws(n_trees, n_rows, rng, n_draws)
    release = drawn(trees, ["a", "b"], X, y, n_classes, b)
    return KnownDraws(Geometry.of(drawn_alone(release, distinct), SCHEMA), b), y


def fitting(evidence: KnownDraws) -> np.ndarray:
    """Every choice of classes that meets the draws, and the pure leaves' rows, of whole trees."""
    n_classes, n_rows = evidence.n.shape[1], evidence.n_rows
    out = []
    for y in itertools.product(range(n_classes), repeat=n_rows):
        one = np.eye(n_classes, dtype=int)[list(y)]
        met = True
        for b, tree in zip(evidence.draws.astype(int), evidence.trees, strict=True):
            met &= (b @ one == tree.counts[0]).all()
            own = tree.counts[tree.leaves]
            if evidence.d is not None and ((own > 0).sum(axis=1) <= 1).all():
                rows = [tree.distinct[tree.leaves][own[:, c] > 0].sum() for c in range(n_classes)]
                met &= ((b > 0).astype(int) @ one == rows).all()
        if met:
            out.append(y)
    return np.array(out, dtype=int).reshape(-1, n_rows)


def every_class(evidence: KnownDraws) -> np.ndarray:
    return np.ones((evidence.n_rows, evidence.n.shape[1]), dtype=bool)


@examples(80, fast=13)
@given(
    st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 8), st.integers(1, 3), st.booleans(),
    st.sampled_from([None, 1, 2]),
)  # fmt: skip
def test_classes_meet_whole_trees_and_are_proved_where_there_are_no_others(
    seed, n_rows, n_trees, n_classes, distinct, n_draws
):
    evidence, y = evidence_of(seed, n_rows, n_trees, n_classes, distinct, n_draws)
    every = fitting(evidence)
    assert (every == y).all(axis=1).any()
    found = find_classes(evidence, every_class(evidence), Clock(60.0), seed)
    label, proved = found.label, found.sure
    assert (every == label).all(axis=1).any()
    seen = evidence.drawn
    only = (every[:, seen] == y[seen]).all()
    assert proved.tolist() == (seen & only).tolist()
    if only:
        assert (label[seen] == y[seen]).all()


@pytest.mark.parametrize("seed", range(10))
def test_classes_that_cannot_be_are_not_proved(seed):
    evidence, _ = evidence_of(seed, 5, 4, 2, False, None)
    release, rng = evidence.geometry.release, np.random.default_rng(seed)
    # Every tree keeps its draws, but gives some to the other class.
    trees = []
    for tree in release.trees:
        counts = tree.counts[tree.leaves].copy()
        v, c = rng.choice(np.argwhere(counts > 0))
        counts[v, c] -= 1
        counts[v, 1 - c] += 1
        trees.append(tree.with_counts(counts=summed(tree, tree.leaves, counts)))
    release = replace(release, trees=tuple(trees))
    wrong = replace(evidence, geometry=Geometry.of(release, SCHEMA))
    every = fitting(wrong)
    found = find_classes(wrong, every_class(wrong), Clock(60.0), seed)
    label, proved = found.label, found.sure
    assert len(label) == 5
    if not len(every):
        assert not proved.any()
    else:
        assert (every == label).all(axis=1).any()


def test_no_time_proves_nothing():
    evidence, _ = evidence_of(0, 6, 8, 2, True, None)
    assert find_classes(evidence, every_class(evidence), Clock(60.0), 0).sure.any()
    found = find_classes(evidence, every_class(evidence), Clock(0.0), 0)
    label, proved = found.label, found.sure
    assert not proved.any()
    assert set(label.tolist()) <= {0, 1}
