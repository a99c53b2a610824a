"""Leaves as bits, against walking the trees node by node."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.grids import columns_of_any_kind
from helpers.releases import bare_release, leaves_of, rows_at
from treeleak.core.errors import NotCovered
from treeleak.partition import Geometry
from treeleak.partition.masks import Masks
from treeleak.release.tree import Tree


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


def test_more_than_the_memory_is_refused():
    """Sizes are enough to tell, before anything is laid out."""
    of = SimpleNamespace(radix=np.array([2**14]), leaf_start=np.arange(2**14 + 1))
    with pytest.raises(NotCovered, match="16,385 intervals and values times 16,384 leaves"):
        Masks.of(SimpleNamespace(radix=of.radix + 1, leaf_start=of.leaf_start))
    with pytest.raises(AttributeError, match="compiled"):  # As many as there is room for.
        Masks.of(of)
