"""Compiled code pushes rows to the leaves to which trees push them level by level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.releases import random_tree

EDGES = np.array([-np.inf, -1.0, 0.0, np.nextafter(0.5, 0), 0.5, 2.0, np.inf, np.nan])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("seed", range(6))
def test_many_rows_reach_the_leaves_that_few_reach(seed, kind):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, [EDGES[1:6].tolist()] * 3, 6)
    if seed % 2:
        tree = replace(tree, strict=~tree.is_leaf & (rng.random(tree.n_nodes) < 0.5))
    X = rng.choice(EDGES if kind != np.int64 else np.arange(-1, 4), (3000, 3)).astype(kind)
    X.flags.writeable = bool(seed % 3)
    few = np.concatenate([tree.apply(part) for part in np.array_split(X, 6)])
    np.testing.assert_array_equal(tree.apply(X), few)
    np.testing.assert_array_equal(tree.apply(X[:, ::-1][:, ::-1]), few)
    assert len(np.unique(few)) > 1 or tree.n_nodes == 1
