"""Leaves as bits, against walking the trees node by node."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from helpers.examples import examples
from helpers.grids import columns_of_any_kind
from helpers.older import sklearn_since
from helpers.releases import bare_release, leaves_of, rows_at
from treeleak.core.errors import NotCovered
from treeleak.partition import Geometry
from treeleak.partition.masks import Masks
from treeleak.release import to_release
from treeleak.release.tree import Tree
from treeleak.schema import Numeric, Schema


def reordered(tree: Tree, rng: np.random.Generator) -> Tree:
    """The same tree with its nodes in any order in which children stand behind their parents."""
    order, ready = [], [0]
    while ready:
        v = ready.pop(int(rng.integers(len(ready))))
        order.append(v)
        ready += [] if tree.left[v] < 0 else [int(tree.left[v]), int(tree.right[v])]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    left, right = (np.where(own < 0, own, place[own])[order] for own in (tree.left, tree.right))
    return Tree(
        tree.feature[order], tree.threshold[order], left, right, tree.missing_left[order]
    )  # fmt: skip


def check(geometry: Geometry, atoms: np.ndarray) -> None:
    """Leaves by bits are those of walking each tree, and are numbered from the left."""
    m = Masks.of(geometry)
    found = m.trace(atoms.astype(np.int32))
    walked = leaves_of(geometry.release, rows_at(geometry, atoms))
    for t, tree in enumerate(geometry.release.trees):
        rows = m.row[found[:, t]]
        assert (tree.leaves[rows - geometry.leaf_start[t]] == walked[:, t]).all()
        own = m.row[geometry.leaf_start[t] : geometry.leaf_start[t + 1]]
        assert tree.leaves[own - geometry.leaf_start[t]].tolist() == from_the_left(tree)
    assert (m.row[found] == geometry.trace_atoms(atoms)).all()


def from_the_left(tree: Tree, v: int = 0) -> list[int]:
    if tree.left[v] < 0:
        return [v]
    return from_the_left(tree, tree.left[v]) + from_the_left(tree, tree.right[v])


def some_atoms(geometry: Geometry, n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(geometry.radix, size=(n, len(geometry.radix)))


@examples(120, fast=20)
@given(columns_of_any_kind(), st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_leaves_are_those_of_walking(schema, seed, n_trees, in_order):
    rng = np.random.default_rng(seed)
    release = bare_release(schema, rng, n_trees, depth=int(rng.integers(0, 7)))
    if not in_order:
        release = replace(release, trees=tuple(reordered(t, rng) for t in release.trees))
    geometry = Geometry.of(release, schema)
    check(geometry, some_atoms(geometry, 30, seed))


@examples(60, fast=10)
@given(columns_of_any_kind(), st.integers(0, 2**32))
def test_a_tree_that_is_not_listed_keeps_its_leaves(schema, seed):
    rng = np.random.default_rng(seed)
    geometry = Geometry.of(bare_release(schema, rng, 4, depth=5), schema)
    m = Masks.of(geometry)
    for a, n in enumerate(geometry.radix):
        atoms = some_atoms(geometry, 20, seed)
        for v in range(n):
            own = slice(*m.change_start[m.start[a] + v : m.start[a] + v + 2])
            listed = set(m.change_tree[own].tolist())
            if not v:
                assert not listed
                continue
            before, after = atoms.copy(), atoms.copy()
            before[:, a], after[:, a] = v - 1, v
            moved = (m.trace(before.astype(np.int32)) != m.trace(after.astype(np.int32))).any(0)
            assert set(np.flatnonzero(moved)) <= listed
            here = m.start[a] + v
            other = (m.open[here] != m.open[here - 1]).any(axis=1)
            assert listed == set(np.flatnonzero(other))


def continuous(n: int) -> tuple[np.ndarray, np.ndarray, Schema]:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 4)).round(2)
    X[rng.random(X.shape) < 0.1] = np.nan
    attributes = [Numeric(f"x{i}", -5.0, 5.0, missing=True) for i in range(4)]
    return X, rng.integers(3, size=n), Schema(attributes)


@pytest.mark.parametrize(
    ("make", "leaves"),
    [
        (lambda: RandomForestClassifier(6, bootstrap=False, random_state=0), 100),
        (lambda: ExtraTreesClassifier(6, random_state=0), 100),
        (lambda: RandomForestClassifier(6, max_leaf_nodes=64, random_state=0), 64),
        (lambda: RandomForestClassifier(6, max_leaf_nodes=65, random_state=0), 65),
        (lambda: RandomForestClassifier(6, max_leaf_nodes=9, random_state=0), 9),
    ],
)
def test_forests_of_many_leaves_and_of_best_first_trees(make, leaves):
    X, y, schema = continuous(400)
    model = make()
    if isinstance(model, ExtraTreesClassifier) and not sklearn_since(6):
        X = np.nan_to_num(X)  # Before, random splits take no missing values.
    release = to_release(model.fit(X, y))
    geometry = Geometry.of(release, schema.for_model(release.feature_names))
    largest = np.diff(geometry.leaf_start).max()
    assert largest == leaves if leaves < 100 else largest > 128
    check(geometry, some_atoms(geometry, 300, 0))


def test_more_than_the_memory_is_refused():
    """Sizes are enough to tell, before anything is laid out."""
    of = SimpleNamespace(radix=np.array([2**14]), leaf_start=np.arange(2**14 + 1))
    with pytest.raises(NotCovered, match="16,385 intervals and values times 16,384 leaves"):
        Masks.of(SimpleNamespace(radix=of.radix + 1, leaf_start=of.leaf_start))
    with pytest.raises(AttributeError, match="compiled"):  # As many as there is room for.
        Masks.of(of)
