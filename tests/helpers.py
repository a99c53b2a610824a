"""Tiny schemas, trees and releases, and brute force over everything that they allow."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numba as nb
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from referencing import Registry, Resource
from scipy.optimize import linear_sum_assignment

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.posterior.chains import Chain
from treeleak.attacks.posterior.draw_kernels import Prior, room_for_gibbs, walk
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.datasets import Dataset
from treeleak.evidence import KnownDraws, evidence_for
from treeleak.partition import Geometry
from treeleak.partition.values import Values
from treeleak.release.noise.laws import DiscreteLaplace, Laplace
from treeleak.release.tree import AllRows, Bootstrap, Release, Tree
from treeleak.schema import (
    Attribute,
    Binary,
    Categorical,
    Numeric,
    OneHot,
    Ordinal,
    Schema,
)
from treeleak.side_information.given import KnownParts
from treeleak.verification.counts import check_rows


def values_of(attribute: Attribute) -> np.ndarray:
    """Every value of an attribute whose values can be listed, from its own definition."""
    if isinstance(attribute, Binary):
        values = [[0.0], [1.0]]
    elif isinstance(attribute, Ordinal):
        values = [[float(v)] for v in range(attribute.low, attribute.high + 1)]
    elif isinstance(attribute, Categorical):
        values = [[float(v)] for v in attribute.values]
    else:
        assert isinstance(attribute, OneHot)
        values = np.eye(len(attribute.members)).tolist()
        if attribute.at_most_one:
            values.append([0.0] * len(attribute.members))
    if getattr(attribute, "missing", False):
        values.append([np.nan])
    return np.array(values)


def all_points(schema: Schema, names: Sequence[str]) -> np.ndarray:
    """Every row that a schema without numeric columns allows, in the model's columns."""
    blocks = [values_of(a) for a in schema.attributes]
    rows = [np.concatenate(choice) for choice in itertools.product(*blocks)]
    table = np.array(rows).reshape(len(rows), len(schema.columns))
    table = table[:, [schema.columns.index(c) for c in names]]
    return table[schema.valid(table, names)]


def leaves_of(release: Release, X: np.ndarray) -> np.ndarray:
    """Node of each row's leaf in every tree, by following each row alone."""
    x = np.asarray(X, dtype=release.float_type)
    out = np.zeros((len(x), len(release.trees)), dtype=int)
    for i, t in itertools.product(range(len(x)), range(len(release.trees))):
        tree, v = release.trees[t], 0
        while tree.left[v] >= 0:
            value = x[i, tree.feature[v]]
            left = tree.missing_left[v] if np.isnan(value) else value <= tree.threshold[v]
            v = tree.left[v] if left else tree.right[v]
        out[i, t] = v
    return out


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
    bare = Release(tuple(trees), tuple(names), (), AllRows(), "none", None, float_type=float_type)
    leaves = leaves_of(bare, X)
    w = np.ones(len(X)) if weights is None else weights
    by_class = w[:, None] * np.eye(n_classes)[y]
    full = [
        replace(
            tree,
            counts=None if counts_are == "none" else summed(tree, leaves[:, t], by_class),
            totals=summed(tree, leaves[:, t], np.ones(len(X))),
        )
        for t, tree in enumerate(trees)
    ]
    return Release(
        tuple(full),
        tuple(names),
        tuple(range(n_classes)),
        AllRows(),
        counts_are,  # type: ignore[arg-type]
        len(X),
        float_type=float_type,
    )


def summed(tree: Tree, leaves: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """What rows with these leaves bring to each node, inner nodes included."""
    out = np.zeros((tree.n_nodes, *amounts.shape[1:]))
    np.add.at(out, leaves, amounts)
    for v in range(tree.n_nodes - 1, -1, -1):
        if tree.left[v] >= 0:
            out[v] = out[tree.left[v]] + out[tree.right[v]]
    return out


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
    bare = Release(tuple(trees), tuple(names), (), AllRows(), "none", None, float_type=float_type)
    leaves = leaves_of(bare, X)
    full = [
        replace(
            tree,
            counts=summed(tree, leaves[:, t], b[t][:, None] * np.eye(n_classes)[y]),
            totals=summed(tree, leaves[:, t], b[t].astype(float)),
            distinct=summed(tree, leaves[:, t], b[t] > 0).astype(np.int64),
        )
        for t, tree in enumerate(trees)
    ]
    return Release(
        tuple(full),
        tuple(names),
        tuple(range(n_classes)),
        Bootstrap(n_draws=int(b[0].sum())),
        "draws",
        len(X),
        float_type=float_type,
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
        trees[t] = replace(tree, counts=counts, totals=counts.sum(axis=1))
    return replace(release, trees=tuple(trees))


def histograms(
    columns: np.ndarray, target: np.ndarray, n_rows: int, most: int = 4000
) -> list[np.ndarray] | None:
    """All whole m >= 0 with A m = target and sum n_rows; None if there are more than ``most``.

    ``columns`` holds, for each entry of m, the equations in which it stands.
    """
    found: list[np.ndarray] = []
    m = np.zeros(len(columns), dtype=int)
    left = target.copy()

    def choose(j: int, rows: int) -> bool:
        if rows == 0:
            if not left.any():
                found.append(m.copy())
            return len(found) <= most
        if j == len(columns):
            return True
        room = min(rows, int(left[columns[j]].min(initial=rows)))
        for k in range(room, -1, -1):
            m[j] = k
            left[columns[j]] -= k
            going = choose(j + 1, rows - k)
            left[columns[j]] += k
            m[j] = 0
            if not going:
                return False
        return True

    if (target < 0).any():
        return []
    return found if choose(0, n_rows) else None


def released_counts(release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Leaf counts as (n_leaves, n_classes), or (n_leaves, 1), and where each tree's begin."""
    by_class = release.counts_are in ("rows", "draws")
    blocks = []
    for tree in release.trees:
        own = tree.counts if by_class else tree.totals[:, None]
        blocks.append(own[tree.leaves])
    start = np.cumsum([0, *(len(b) for b in blocks)])
    return np.concatenate(blocks).round().astype(int), start


def equations_of(release: Release, X: np.ndarray) -> np.ndarray:
    """Rows of A in which each row of ``X`` stands."""
    start = released_counts(release)[1]
    leaves = leaves_of(release, X)
    return np.stack(
        [
            start[t] + np.searchsorted(tree.leaves, leaves[:, t])
            for t, tree in enumerate(release.trees)
        ],
        axis=1,
    )


def datasets(release: Release, schema: Schema, most: int = 4000) -> list[list[np.ndarray]] | None:
    """Every dataset that meets the counts, as one list per independent system.

    A dataset is a table of rows with the class in a last column. With counts by class, there is
    one system per class; else one system of all. None if a system has more than ``most``.
    """
    points = all_points(schema, release.feature_names)
    columns = equations_of(release, points)
    counts, start = released_counts(release)
    out = []
    if release.counts_are == "rows":
        for c in range(counts.shape[1]):
            found = histograms(columns, counts[:, c], counts[: start[1], c].sum(), most)
            if found is None:
                return None
            labelled = np.column_stack([points, np.full(len(points), c)])
            out.append([np.repeat(labelled, m, axis=0) for m in found])
        return out
    n_classes = max(len(release.classes), 1)
    pairs = [(p, c) for p in range(len(points)) for c in range(n_classes)]
    if release.counts_are == "weights":
        leaves = leaves_of(release, points)
        pairs = [
            (p, c)
            for p, c in pairs
            if all(tree.counts[leaves[p, t], c] > 0 for t, tree in enumerate(release.trees))
        ]
    at = np.array([p for p, _ in pairs], dtype=int)
    label = np.array([c for _, c in pairs], dtype=int)
    found = histograms(columns[at], counts[:, 0], counts[: start[1], 0].sum(), most)
    if found is None:
        return None
    labelled = np.column_stack([points[at], label])
    return [[np.repeat(labelled, m, axis=0) for m in found]]


def ordered_datasets(
    release: Release,
    schema: Schema,
    b: np.ndarray,
    *,
    distinct: bool = True,
    most: int = 4000,
    points: np.ndarray | None = None,
) -> list[np.ndarray] | None:
    """Every table whose rows, drawn ``b[t, k]`` times, meet the counts; None if more than ``most``.

    Rows stand in order, with the class in a last column. ``distinct``: also meet the distinct
    rows of each leaf. ``points``: what a row can be, if not all that the schema allows.
    """
    points = all_points(schema, release.feature_names) if points is None else points
    columns = equations_of(release, points)
    left = released_counts(release)[0]
    spare = [tree.distinct[tree.leaves] for tree in release.trees] if distinct else [left.sum(1)]
    once = np.concatenate(spare)
    pairs = list(itertools.product(range(len(points)), range(left.shape[1])))
    found: list[np.ndarray] = []
    chosen: list[int] = []

    def choose(k: int) -> bool:
        if k == b.shape[1]:
            if not left.any() and not (distinct and once.any()):
                rows = [[*points[pairs[i][0]], pairs[i][1]] for i in chosen]
                found.append(np.array(rows))
            return len(found) <= most
        here = b[:, k] > 0
        for i, (p, c) in enumerate(pairs):
            at = columns[p][here]
            if (left[at, c] < b[here, k]).any() or (distinct and (once[at] < 1).any()):
                continue
            left[at, c] -= b[here, k]
            once[at] -= distinct
            chosen.append(i)
            going = choose(k + 1)
            chosen.pop()
            left[at, c] += b[here, k]
            once[at] += distinct
            if not going:
                return False
        return True

    return found if choose(0) else None


def rows_in(release: Release, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many of these rows lie in each leaf and class: A m, one equation after the other."""
    n_classes = max(len(release.classes), 1)
    equations = equations_of(release, X) * n_classes + np.asarray(y)[:, None]
    size = len(released_counts(release)[0]) * n_classes
    return np.bincount(equations.ravel(), minlength=size).astype(np.int32)


def log_chance(release: Release, X: np.ndarray, y: np.ndarray, distinct: bool) -> float:
    """Log probability of the counts, by going through all draws of every tree from these rows."""
    counts, start = released_counts(release)
    leaves = equations_of(release, X)
    total = 0.0
    for t, tree in enumerate(release.trees):
        own, target = slice(start[t], start[t + 1]), counts[start[t] : start[t + 1]]
        draws = np.array(list(itertools.product(range(len(X)), repeat=int(target.sum()))))
        hits = np.zeros((len(draws), *counts.shape), dtype=int)
        drawn_rows = np.zeros((len(draws), len(counts)), dtype=int)
        for k in range(len(X)):
            times = (draws == k).sum(axis=1)
            hits[:, leaves[k, t], y[k]] += times
            drawn_rows[:, leaves[k, t]] += times > 0
        met = (hits[:, own] == target).all(axis=(1, 2))
        if distinct:
            met &= (drawn_rows[:, own] == tree.distinct[tree.leaves]).all(axis=1)
        total += np.log(met.mean()) if met.any() else -np.inf
    return float(total)


def some_parts(
    values: Values, n_rows: int, rng: np.random.Generator, n_groups: int = 3
) -> KnownParts:
    """Groups of rows; in all but the first, some attributes are known, or some atoms excluded."""
    allowed = np.ones((n_groups, values.n_atoms), dtype=bool)
    start = values.atom_start
    for g, a in itertools.product(range(1, n_groups), range(len(start) - 1)):
        n = start[a + 1] - start[a]
        keep = rng.choice(n, rng.integers(1, n + 1), replace=False)
        allowed[g, start[a] : start[a + 1]] = np.isin(np.arange(n), keep)
    return KnownParts(rng.permutation(np.arange(n_rows) % n_groups), allowed)


def as_multiset(table: np.ndarray) -> Counter[tuple[str, ...]]:
    """Rows with their number; text, so that missing values are equal."""
    return Counter(tuple(repr(float(v)) for v in row) for row in np.asarray(table, dtype=float))


def stands_in(claimed: np.ndarray, sure: np.ndarray, world: np.ndarray) -> bool:
    """Whether the rows of a world can be ordered so that every sure value is right."""
    same = (claimed[:, None] == world[None]) | (np.isnan(claimed)[:, None] & np.isnan(world)[None])
    wrong = (~same & sure[:, None]).any(axis=2)
    i, j = linear_sum_assignment(wrong)
    return not wrong[i, j].any()


def midpoints(values: np.ndarray) -> list[float]:
    """Thresholds around and on some values."""
    # As float32 models see them: a threshold below the lowest value would part nothing.
    known = np.unique(values[~np.isnan(values)].astype(np.float32)).astype(float)
    between = ((known[:-1] + known[1:]) / 2).tolist()
    return sorted({*between, *known[:-1].tolist()})


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.sampled_from(["binary", "binary", "ordinal", "categorical", "one-hot"]))
    missing = draw(st.sampled_from([False, False, True]))
    if kind == "binary":
        return Binary(name, missing=missing)
    if kind == "ordinal":
        low = draw(st.integers(-2, 2))
        return Ordinal(name, low, low + draw(st.integers(0, 3)), missing=missing)
    if kind == "categorical":
        pool = [-1.0, 0.0, 0.1, 2.0, 16777217.0]
        values = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4, unique=True))
        return Categorical(name, values, missing=missing)
    members = [f"{name}{i}" for i in range(draw(st.integers(1, 3)))]
    return OneHot(name, members, at_most_one=draw(st.booleans()))


@st.composite
def schemas(draw: st.DrawFn, most: int = 3) -> Schema:
    n = draw(st.integers(1, most))
    return Schema([draw(attributes("abcd"[i])) for i in range(n)])


@st.composite
def columns_of_any_kind(draw: st.DrawFn) -> Schema:
    """A few columns, perhaps one of numbers among them."""
    schema = draw(schemas())
    if not draw(st.booleans()):
        return schema
    low, missing = draw(st.sampled_from([-np.inf, 0.0])), draw(st.booleans())
    number = Numeric("n", low, 10.0 if low == 0.0 else np.inf, missing=missing)
    return Schema([number, *schema.attributes])


def cuts_for(schema: Schema, names: Sequence[str]) -> list[list[float]]:
    """Thresholds between and on the values of each column that can be split."""
    cuts: dict[str, list[float]] = {}
    for attribute in schema.attributes:
        if isinstance(attribute, Numeric):
            ends = [max(attribute.low, -4.0), min(attribute.high, 4.0)]
            cuts[attribute.name] = [ends[0], sum(ends) / 2, ends[0] / 3 + 1.1]
            continue
        table = values_of(attribute)
        for i, column in enumerate(attribute.columns):
            cuts[column] = midpoints(table[:, i])
    return [cuts[c] for c in names]


def bare_release(schema: Schema, rng: np.random.Generator, n_trees: int, depth: int) -> Release:
    """Random trees without counts."""
    names = shuffled(schema.columns, rng)
    trees = tuple(random_tree(rng, cuts_for(schema, names), depth) for _ in range(n_trees))
    kind = ("float32", "float64")[rng.integers(2)]
    return Release(trees, tuple(names), (), AllRows(), "none", None, float_type=kind)


def rows_at(geometry: Geometry, atoms: np.ndarray) -> np.ndarray:
    """A row of the model's columns in each grid point."""
    out = np.zeros((len(atoms), geometry.release.n_features))
    for a, part in enumerate(geometry.parts):
        out[:, part.columns] = part.representatives[atoms[:, a]]
    return out


class Stated:
    """A constraints of one kind, and the release that it was made of."""

    def __init__(self, schema: Schema, seed: int, kind: str, n_rows: int = 0) -> None:
        rng = np.random.default_rng(seed)
        bare = bare_release(schema, rng, int(rng.integers(1, 5)), depth=4)
        geometry = Geometry.of(bare, schema)
        n, n_classes = n_rows or int(rng.integers(1, 9)), int(rng.integers(1, 4))
        atoms = rng.integers(geometry.radix, size=(n, len(geometry.radix)))
        X, y = rows_at(geometry, atoms), rng.integers(n_classes, size=n)
        self.b = None
        how = (bare.trees, bare.feature_names, X, y, n_classes)
        if kind in ("draws", "distinct"):
            self.b = bootstrap_draws(len(bare.trees), n, rng)
            release = drawn(*how, self.b, float_type=bare.float_type)
        else:
            weights = rng.random(n_classes)[y] + 0.1 if kind == "weights" else None
            release = counted(
                *how, counts_are=kind, float_type=bare.float_type, weights=weights
            )  # fmt: skip
        self.schema, self.kind, self.n_classes = schema, kind, n_classes
        self.truth = np.column_stack([atoms, y]).astype(np.int32)
        self.count(release)

    def count(self, release: Release) -> None:
        """State what a release of the same trees counts."""
        self.release, self.geometry = release, Geometry.of(release, self.schema)
        if self.b is None:
            self.evidence = evidence_for(release)(self.geometry)
            self.constraints = RowConstraints.of_exact(self.evidence, self.geometry)
        else:
            distinct = self.kind == "distinct"
            self.evidence = KnownDraws(self.geometry, self.b, use_distinct=distinct)
            label = self.truth[:, -1].astype(np.int64)
            open_label = np.full(len(label), self.n_classes > 1)
            self.constraints = RowConstraints.of_known(
                self.evidence, self.geometry, label, open_label, None
            )

    def misfit(self, atoms: np.ndarray, label: np.ndarray) -> float:
        """Counts that rows of atoms miss."""
        return self.missed(rows_at(self.geometry, atoms), label.astype(np.int64))

    def missed(self, X: np.ndarray, y: np.ndarray) -> float:
        """Counts that rows miss, by walking the trees; rows of classes that a leaf has not, too."""
        check = check_rows(self.release, X, y, self.b, use_distinct=self.kind == "distinct")
        wrong = 0
        if self.kind == "weights":
            for tree in self.release.trees:
                leaf = tree.apply(X.astype(self.release.float_type))
                wrong += int(((tree.counts[leaf, y] <= 0) & (tree.totals[leaf] > 0)).sum())
        return check.misfit + wrong


def some_rows(schema: Schema, names: Sequence[str], n: int, rng: np.random.Generator) -> np.ndarray:
    points = all_points(schema, names)
    return points[rng.integers(len(points), size=n)] if len(points) else points


def shuffled(names: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [names[i] for i in rng.permutation(len(names))]


@dataclass(frozen=True)
class Drawn:
    """A release behind known draws, and the rows from which it was made."""

    release: Release
    schema: Schema
    b: np.ndarray
    X: np.ndarray
    y: np.ndarray
    tampered: bool

    @property
    def seen(self) -> np.ndarray:
        """Rows that some tree drew."""
        return self.b.any(axis=0)

    def worlds(self, distinct: bool, most: int = 1000) -> list[np.ndarray] | None:
        """Every table of the rows that some tree drew; None if there are more than ``most``."""
        seen = self.b[:, self.seen]
        return ordered_datasets(self.release, self.schema, seen, distinct=distinct, most=most)

    def arrangements(self, distinct: bool, most: int = 1000) -> list[np.ndarray] | None:
        """The same in :meth:`places`, which tell apart only what some tree does."""
        points = all_points(self.schema, self.release.feature_names)
        _, first = np.unique(equations_of(self.release, points), axis=0, return_index=True)
        found = ordered_datasets(
            self.release, self.schema, self.b[:, self.seen], distinct=distinct, most=most,
            points=points[first],
        )  # fmt: skip
        return None if found is None else [self.places(table) for table in found]

    def places(self, table: np.ndarray) -> np.ndarray:
        """Rows of A and class of each row of a table that ends in the class."""
        return np.column_stack(
            [equations_of(self.release, table[:, :-1]), table[:, -1].astype(int)]
        )


FEW = [
    Schema([Binary("a"), Binary("b"), Binary("c")]),
    Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"])]),
    Schema([OneHot("g", ["g0", "g1"], at_most_one=True), Binary("b", missing=True)]),
    Schema([Ordinal("o", 0, 3, missing=True), Binary("b")]),
    Schema([Categorical("k", [0, 1, 5]), Binary("b")]),
    Schema([Ordinal("o", 2, 2)]),
]
"""Schemas small enough for brute force over tables."""


def some_drawn(
    seed: int, *, n_rows: int | None = None, n_trees: int | None = None, tamper: bool = True
) -> Drawn:
    """A few random trees over a few rows that they drew; some counts are moved afterwards."""
    rng = np.random.default_rng(seed)
    schema = FEW[rng.integers(len(FEW))]
    names = shuffled(schema.columns, rng)
    n_rows = int(rng.integers(1, 8)) if n_rows is None else n_rows
    n_classes = int(rng.integers(1, 4))
    X, y = some_rows(schema, names, n_rows, rng), rng.integers(n_classes, size=n_rows)
    if rng.random() < 0.3:  # few different rows
        again = rng.integers(1 + n_rows // 2, size=n_rows)
        X, y = X[again], y[again]
    cuts, depth = cuts_for(schema, names), int(rng.integers(1, 5))
    n_trees = int(rng.integers(1, 5)) if n_trees is None else n_trees
    trees = [random_tree(rng, cuts, depth) for _ in range(n_trees)]
    n_draws = n_rows if rng.random() < 0.6 else int(rng.integers(1, n_rows + 1))
    b = bootstrap_draws(len(trees), n_rows, rng, n_draws)
    release = drawn(trees, names, X, y, n_classes, b)
    wrong = tamper and rng.random() < 0.3
    return Drawn(tampered(release, rng) if wrong else release, schema, b, X, y, wrong)


def valid(document: dict[str, Any], name: str = "audit") -> dict[str, Any]:
    """The document of an audit (or of what ``name`` says), if it follows its schema."""
    formats = {
        name: json.loads(
            resources.files("treeleak").joinpath("formats", f"{name}.schema.json").read_text()
        )
        for name in ("audit", "hardened", "reconstruction")
    }
    for schema in formats.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    registry = Registry().with_resources(
        (schema["$id"], Resource.from_contents(schema)) for schema in formats.values()
    )
    jsonschema.Draft202012Validator(formats[name], registry=registry).validate(document)
    return document


def written(land: PosteriorTarget, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of atoms in the model's columns, a value for each, and their classes."""
    first = np.searchsorted(land.values.atom_of, atoms + land.values.atom_start[:-1])
    X = land.values.rows(first[:, :-1], land.geometry.release.n_features)
    return X, atoms[:, -1].astype(int)


@nb.njit  # type: ignore[untyped-decorator]
def _visits(
    times: int, steps: int, heat: float, gap: float, state: Any, law: Any, ground: Any, moves: Any,
    prior: Any, belief: Any, room: Any, counts: Any,
) -> None:  # fmt: skip
    """How often a walk sees each table of rows."""
    for _ in range(times):
        walk(steps, heat, gap, state, law, ground, moves, prior, belief, room)
        number = 0
        for row in state.atoms:
            for a in range(len(row)):
                number = number * ground.radix[a] + row[a]
        counts[number] += 1


def frequencies(
    land: PosteriorTarget, prior: Prior, gap: float, heat: float = 1.0, fresh: float = 0.0,
    times: int = 100_000,
) -> np.ndarray:  # fmt: skip
    """How often a long walk sees each table of rows, in the order of their atoms."""
    chain = Chain.started(land, prior, 1)
    counts = np.zeros(int(np.prod(land.radix)) ** land.n_rows, dtype=np.int64)
    # As many of each kind: an error in one of them shows.
    swaps = 0.3 if land.moves.swaps else 0.0
    jumps = 0.35 if land.moves.jumps else 0.0
    moves = land.moves._replace(swaps=swaps, jumps=jumps, fresh=fresh)
    law = land.likelihood.law
    law = law._replace(every=3 if law.every else 0)
    kernel = (
        chain.state,
        law,
        land.ground,
        moves,
        chain.prior,
        chain.hierarchy,
        room_for_gibbs(land.radix),
    )
    _visits(times, 2 * land.n_rows, heat, gap, *kernel, counts)
    return counts / times


def shared_file(name: str, folder: str = "data") -> Path:
    """A file of the shared data, or a skipped test."""
    variable = {"data": "TREELEAK_DATA", "published": "TREELEAK_PUBLISHED"}[folder]
    beside = Path(__file__).parents[2] / "shared" / folder
    path = Path(os.environ.get(variable, beside)) / name
    if not path.is_file():
        pytest.skip(f"{path} is missing ({variable})")
    return path


def small_table() -> Dataset:
    """Six rows of a binary column and a group of two."""
    rows = [[0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0], [1, 0, 1]]
    X = pd.DataFrame(rows, columns=["a", "b", "c"])
    schema = Schema([Binary("a"), OneHot("g", ["b", "c"])])
    return Dataset("small", X, pd.Series([0, 0, 1, 1, 1, 1]), schema, "", "", "")


def noise_drawn(noise, shape, rng):
    """Noise of a law, from uniform numbers and the rounding's definition, not from ``log_prob``."""
    if isinstance(noise, DiscreteLaplace):
        p = -np.expm1(-noise.epsilon)
        return (rng.geometric(p, shape) - rng.geometric(p, shape)).astype(float)
    if isinstance(noise, Laplace):
        y = rng.laplace(0, 1 / noise.epsilon, shape)
    else:
        y = rng.normal(0, noise.sigma, shape)
    return {"none": y, "nearest": np.rint(y), "towards zero": np.trunc(y)}[noise.rounding]
