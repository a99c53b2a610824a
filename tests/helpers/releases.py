"""Random trees, and what they count of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from treeleak.partition import Geometry
from treeleak.release.readers.release_nodes import totals_are
from treeleak.release.release import Release
from treeleak.release.rule_list import Condition, DecisionRule, RuleList
from treeleak.release.sampling import AllRows, Bootstrap, Sampling
from treeleak.release.statistics import COUNTS, QUANTITIES, ROWS, Statistics
from treeleak.release.tree import CategorySets, Tree
from treeleak.schema import Schema

from .grids import cuts_for, shuffled


def leaves_of(release: Release, X: np.ndarray) -> np.ndarray:
    """Node of each row's leaf in every tree, by following each row alone."""
    x = np.asarray(X, dtype=release.float_type)
    leaves = [[followed(tree, row) for tree in release.trees] for row in x]
    return np.array(leaves, dtype=int).reshape(len(x), len(release.trees))


def followed(tree: Tree, x: np.ndarray) -> int:
    """The leaf of a row, by the rules in words, one node after the other."""
    v = 0
    while tree.left[v] >= 0:
        value = x[tree.feature[v]]
        sets = tree.categories
        own = None if sets is None else set(sets.value[sets.node == v].tolist())
        if np.isnan(value):
            left = bool(tree.missing_left[v])
        elif own:
            left = float(value) in own
        elif tree.strict is not None and tree.strict[v]:
            left = float(value) < tree.threshold[v]
        else:
            left = float(value) <= tree.threshold[v]
        v = tree.left[v] if left else tree.right[v]
    return int(v)


def mixed(tree: Tree, rng: np.random.Generator, *, categories: bool) -> Tree:
    """The same tree with some strict tests, and some tests for categories."""
    inner = np.flatnonzero(~tree.is_leaf)
    strict = np.isin(np.arange(tree.n_nodes), inner[rng.random(len(inner)) < 0.5])
    tree = replace(tree, strict=strict)
    chosen = inner[rng.random(len(inner)) < 0.5] if categories else inner[:0]
    if not len(chosen):
        return tree
    sets = [(v, c) for v in chosen for c in range(6) if c == 5 or rng.random() < 0.4]
    threshold = tree.threshold.copy()
    threshold[chosen] = np.nan
    return replace(tree, threshold=threshold, categories=CategorySets(*np.array(sets).T))


def tree_of(*nodes: tuple[int, float] | None, **more: Any) -> Tree:
    """A tree of tests of a column against a number, each before its children; None is a leaf."""
    feature, threshold = np.array([node or (-1, np.nan) for node in nodes]).T
    left, right = np.full((2, len(nodes)), -1)
    half: list[int] = []
    for v in range(1, len(nodes)):
        if nodes[v - 1] is not None:
            left[v - 1] = v
            half.append(v - 1)
        else:
            right[half.pop()] = v
    told = {"missing_left": np.zeros(len(nodes), dtype=bool)} | more
    return Tree(feature.astype(np.int64), threshold, left, right, **told)


def random_tree(rng: np.random.Generator, cuts: Sequence[Sequence[float]], depth: int) -> Tree:
    """A tree of random tests; ``cuts`` lists the thresholds to choose from, column by column."""
    nodes: list[list[float]] = []
    tested = [f for f, own in enumerate(cuts) if len(own)]

    def grow(level: int) -> int:
        at = len(nodes)
        nodes.append([-1, np.nan, -1, -1, 0])
        if tested and level < depth and rng.random() < 0.8:
            f = tested[rng.integers(len(tested))]
            cut = cuts[f][rng.integers(len(cuts[f]))]
            nodes[at] = [f, cut, grow(level + 1), grow(level + 1), rng.integers(2)]
        return at

    grow(0)
    feature, threshold, left, right, missing = np.array(nodes).T
    whole = (a.astype(np.int64) for a in (feature, left, right))
    feature, left, right = whole
    return Tree(feature, threshold, left, right, missing.astype(bool))


def bare_release(schema: Schema, rng: np.random.Generator, n_trees: int, depth: int) -> Release:
    """Random trees without counts."""
    names = shuffled(schema.columns, rng)
    trees = tuple(random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees))
    kind = ("float32", "float64")[rng.integers(2)]
    return Release(trees, tuple(names), (), AllRows(), None, float_type=kind)


def counted(
    trees: Sequence[Tree],
    names: Sequence[str],
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    *,
    counts_are: str = "rows",
    float_type: str = "float32",
    weights: np.ndarray | None = None,
) -> Release:
    """A release of these trees with the counts that some rows give."""
    bare = Release(tuple(trees), tuple(names), (), AllRows(), None, float_type=float_type)
    leaves = leaves_of(bare, X)
    w = np.ones(len(X)) if weights is None else weights
    by_class = w[:, None] * np.eye(n_classes)[y]
    full = [
        tree.with_counts(
            counts=None if counts_are == "none" else summed(tree, leaves[:, t], by_class),
            totals=summed(tree, leaves[:, t], np.ones(len(X))),
        )
        for t, tree in enumerate(trees)
    ]
    return Release(
        in_unit(full, counts_are, AllRows()),
        tuple(names),
        tuple(range(n_classes)),
        AllRows(),
        len(X),
        float_type=float_type,
    )


def counted_as(release: Release, unit: str) -> Release:
    """The same numbers, as counts of something else."""
    return replace(release, trees=in_unit(release.trees, unit, release.sampling))


def in_unit(trees: Sequence[Tree], unit: str, sampling: Sampling) -> tuple[Tree, ...]:
    """Trees whose numbers are counts of something else."""
    quantity = {True: QUANTITIES[unit], False: totals_are(unit, sampling)}
    out = []
    for tree in trees:
        entries = [
            replace(e, quantity=quantity[e.per_class]) if e.quantity in COUNTS else e
            for e in tree.statistics
        ]
        out.append(replace(tree, statistics=Statistics(tuple(entries))))
    return tuple(out)


def summed(tree: Tree, leaves: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """What rows with these leaves bring to each node, inner nodes included."""
    out = np.zeros((tree.n_nodes, *amounts.shape[1:]))
    np.add.at(out, leaves, amounts)
    for v in range(tree.n_nodes - 1, -1, -1):
        if tree.left[v] >= 0:
            out[v] = out[tree.left[v]] + out[tree.right[v]]
    return out


def drawn_alone(release: Release, distinct: bool = False) -> Release:
    """The same release without numbers of distinct rows, unless these are wanted."""
    trees = release.trees if distinct else (t.with_counts(distinct=None) for t in release.trees)
    return replace(release, trees=tuple(trees))


def drawn(
    trees: Sequence[Tree],
    names: Sequence[str],
    X: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    b: np.ndarray,
    *,
    float_type: str = "float32",
) -> Release:
    """A release of these trees with what they count when tree t drew row k ``b[t, k]`` times."""
    bare = Release(tuple(trees), tuple(names), (), AllRows(), None, float_type=float_type)
    leaves = leaves_of(bare, X)
    full = [
        tree.with_counts(
            counts=summed(tree, leaves[:, t], b[t][:, None] * np.eye(n_classes)[y]),
            totals=summed(tree, leaves[:, t], b[t].astype(float)),
            distinct=summed(tree, leaves[:, t], b[t] > 0).astype(np.int64),
        )
        for t, tree in enumerate(trees)
    ]
    return counted_as(
        Release(
            tuple(full),
            tuple(names),
            tuple(range(n_classes)),
            Bootstrap(n_draws=int(b[0].sum())),
            len(X),
            float_type=float_type,
        ),
        "draws",
    )


def bootstrap_draws(
    n_trees: int, n_rows: int, rng: np.random.Generator, n_draws: int | None = None
) -> np.ndarray:
    """How often each tree drew each row, shape (n_trees, n_rows); as many draws as rows if None."""
    times = n_rows if n_draws is None else n_draws
    return rng.multinomial(times, np.full(n_rows, 1 / n_rows), size=n_trees).astype(np.uint8)


def tampered(release: Release, rng: np.random.Generator) -> Release:
    """The release with one count moved to another leaf, in one or two trees.

    Each tree still counts as many of each class, but there may be no dataset behind it.
    """
    trees = list(release.trees)
    for t in rng.integers(len(trees), size=rng.integers(1, 3)):
        tree = trees[t]
        counts = tree.counts[tree.leaves]
        v, c = rng.choice(np.argwhere(counts > 0))
        counts[v, c] -= 1
        counts[rng.integers(len(counts)), c] += 1
        counts = summed(tree, tree.leaves, counts)
        trees[t] = tree.with_counts(counts=counts, totals=counts.sum(axis=1))
    return replace(release, trees=tuple(trees))


def stumps(sums, noise, sampling=None, n_leaves=2, **options):
    """Trees of a chain of tests, with two classes, whose counts add up to these sums."""
    trees = []
    for total in sums:
        n = 2 * n_leaves - 1
        inner = np.arange(n) < n_leaves - 1
        left = np.where(inner, n - 1 - np.arange(n), -1)
        right = np.where(inner, np.arange(n) + 1, -1)
        counts = np.zeros((n, 2))
        counts[n_leaves - 1, 1] = total
        trees.append(
            Tree(
                np.where(inner, 0, -1), np.where(inner, np.arange(n) + 0.5, np.nan), left, right,
                np.zeros(n, dtype=bool), Statistics.counting(ROWS, counts),
            )
        )  # fmt: skip
    return Release(
        tuple(trees), ("a",), (0, 1), sampling or AllRows(), None, noise=noise, **options
    )


def one_rule_each(X: pd.DataFrame, y: Sequence[Any], *columns: str) -> RuleList:
    """A rule list that asks one column after the other for a 1, with the counts of these rows."""
    classes = tuple(np.unique(y).tolist())
    rules = tuple(DecisionRule((Condition(column, (1,)),), classes[0]) for column in columns)
    listed = RuleList(tuple(X.columns), classes, rules, DecisionRule((), classes[-1]))
    return listed.counted(X, y)


def rows_at(geometry: Geometry, atoms: np.ndarray) -> np.ndarray:
    """A row of the model's columns in each grid point."""
    out = np.zeros((len(atoms), geometry.release.n_features))
    for a, part in enumerate(geometry.parts):
        out[:, part.columns] = part.representatives[atoms[:, a]]
    return out


ARRAYS = ("feature", "threshold", "left", "right", "missing_left", "counts", "totals", "distinct")


def listed(tree: Tree, *, noisy: bool) -> list:
    """What a tree holds, in one order. Behind noise, zeros of inner nodes are none."""
    out = []
    for e in tree.statistics:
        present = np.ones(tree.n_nodes, dtype=bool) if e.present is None else e.present
        if noisy and e.called == "counts" and not e.values[~tree.is_leaf].any():
            present = tree.is_leaf
        out.append((e.quantity.name, e.per_class, e.values, present))
    return sorted(out, key=lambda one: one[:2])


def set_of(tree: Tree) -> tuple:
    strict = np.zeros(tree.n_nodes, dtype=bool) if tree.strict is None else tree.strict
    none = np.zeros(0, dtype=np.int64)
    sets = tree.categories
    return (strict, *((none, none) if sets is None else (sets.node, sets.value)))


def assert_same(a: Release, b: Release) -> None:
    noisy = a.noise is not None
    # Whose words its texts are is not in a file, nor is the object that it was read from.
    for name in Release.__dataclass_fields__:
        if name not in ("trees", "sources", "left_out", "not_covered"):
            assert getattr(a, name) == getattr(b, name), name
    # What was left out of the trees is why a file of them is not attacked.
    assert a.not_covered == (b.left_out if b.not_covered is None else b.not_covered)
    assert [type(c) for c in a.classes] == [type(c) for c in b.classes]
    assert len(a.trees) == len(b.trees)
    for mine, other in zip(a.trees, b.trees, strict=True):
        for name in ARRAYS:
            x, y = getattr(mine, name), getattr(other, name)
            assert (x is None) == (y is None), name
            if x is not None:
                np.testing.assert_array_equal(x, y, err_msg=name, strict=True)
        assert mine.output == other.output
        for x, y in zip(listed(mine, noisy=noisy), listed(other, noisy=noisy), strict=True):
            assert x[:2] == y[:2]
            np.testing.assert_array_equal(x[2], y[2], strict=True)
            np.testing.assert_array_equal(x[3], y[3], strict=True)
        for x, y in zip(set_of(mine), set_of(other), strict=True):
            np.testing.assert_array_equal(x, y, strict=True)
        # array_equal takes -0.0 for 0.0: compare the very bits.
        assert mine.threshold.tobytes() == other.threshold.tobytes()
