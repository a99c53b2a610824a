"""Two releases of a growing dataset against brute force."""

from __future__ import annotations

import importlib
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from helpers.brute_force import as_multiset, datasets, ordered_datasets, stands_in
from helpers.examples import examples
from helpers.grids import cuts_for, schemas, shuffled, some_rows
from helpers.patient import AMPLE
from helpers.releases import bootstrap_draws, counted, counted_as, drawn, leaves_of, random_tree
from treeleak import BadInput, Binary, Implies, NotCovered, Schema, reconstruct
from treeleak.evidence import Contradiction
from treeleak.release.draws.recompute import Draws
from treeleak.release.release import Release
from treeleak.release.sampling import Bootstrap
from treeleak.side_information.earlier_release import aligned, distinguished, located
from treeleak.side_information.known_tables import KnownTables
from treeleak.verification.counts import check_rows

MOST = 300


def renamed(release: Release, rng: np.random.Generator) -> Release:
    """The same release with its columns and classes in another order."""
    order = rng.permutation(release.n_features)
    back = np.argsort(order)
    label = rng.permutation(len(release.classes))
    trees = [
        replace(tree, feature=np.where(tree.is_leaf, -1, back[tree.feature])).with_counts(
            counts=None if tree.counts is None else tree.counts[:, label]
        )
        for tree in release.trees
    ]
    return replace(
        release,
        trees=tuple(trees),
        feature_names=tuple(release.feature_names[i] for i in order),
        classes=tuple(release.classes[c] for c in label),
    )


@st.composite
def pairs(draw) -> tuple[Release, Release, Schema]:
    """A later and an earlier release; sometimes of datasets that have nothing in common."""
    schema = draw(schemas(2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = shuffled(schema.columns, rng)
    counts_are = draw(st.sampled_from(["rows", "rows", "weights", "none"]))
    n_classes, n = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    X, y = some_rows(schema, names, n, rng), rng.integers(n_classes, size=n)
    old = rng.permutation(n)[: draw(st.integers(1, n))]
    X_old = X[old] if draw(st.booleans()) else some_rows(schema, names, len(old), rng)
    made = []
    for table, label in ((X, y), (X_old, y[old])):
        trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(rng.integers(1, 3))]
        weights = rng.random(len(table)) + 0.1 if counts_are == "weights" else None
        made.append(
            counted(trees, names, table, label, n_classes, counts_are=counts_are, weights=weights)
        )
    return made[0], made[1], schema


def worlds_of(later: Release, earlier: Release, schema: Schema) -> list[np.ndarray] | None:
    """Every dataset that meets both; the last column says what is in the earlier one."""
    systems = datasets(later, schema, MOST)
    if systems is None or np.prod([len(s) for s in systems]) > MOST:
        return None
    n_old = int(earlier.trees[0].totals[0])
    found = {}
    for choice in itertools.product(*systems):
        world = np.concatenate(choice)
        for old in itertools.combinations(range(len(world)), n_old):
            epoch = np.isin(np.arange(len(world)), old)
            if meets(earlier, world[epoch]):
                table = np.column_stack([world, epoch])
                found[tuple(sorted(as_multiset(table).items()))] = table
    return list(found.values())


def meets(release: Release, world: np.ndarray) -> bool:
    X, y = world[:, :-1], world[:, -1].astype(int)
    if release.counts_are == "weights":
        leaves = leaves_of(release, X)
        if any((t.counts[leaves[:, i], y] <= 0).any() for i, t in enumerate(release.trees)):
            return False
    return check_rows(release, X, y).ok


@examples(150, fast=25)
@given(pairs(), st.integers(0, 2**32))
@pytest.mark.slow
def test_exact_counts(case, seed):
    later, earlier, schema = case
    worlds = worlds_of(later, earlier, schema)
    try:
        result = reconstruct(later, schema, earlier=renamed(earlier, np.random.default_rng(seed)))
    except BadInput as error:
        assert "does not lose any" in str(error)  # noqa: PT017
        assert not worlds
        return
    if result.X is None:
        assert result.status == "infeasible"
        assert result.contradiction
        assert not worlds
        return
    assert worlds != []
    assert list(result.X.columns) == list(later.feature_names)
    assert len(result.in_earlier) == len(result.X)
    table = np.column_stack([result.X.astype(float), result.y])
    assert check_rows(later, table[:, :-1], table[:, -1].astype(int)).ok
    assert meets(earlier, table[result.in_earlier])
    assert result.misfit == 0
    if worlds is None:
        return
    full = np.column_stack([table, result.in_earlier])
    assert result.status == ("unique" if len(worlds) == 1 else "feasible")
    assert as_multiset(full) in [as_multiset(w) for w in worlds]
    sure = np.column_stack([result.confidence, result.label_confidence]) == 1
    for world in worlds:
        assert stands_in(table, sure, world[:, :-1])
    both = [cells(later, earlier, w) for w in worlds]
    mine = cells(later, earlier, full)
    for cell in set(mine):
        proved = [p for c, p in zip(mine, result.proved, strict=True) if c == cell]
        assert sum(proved) == min(own.count(cell) for own in both)


def cells(later: Release, earlier: Release, world: np.ndarray) -> list[tuple]:
    """What both releases can tell of each row."""
    X, y, old = world[:, :-2], world[:, -2], world[:, -1:].astype(int)
    apart = np.where(old == 1, leaves_of(earlier, X), -1)
    return [tuple(row) for row in np.column_stack([leaves_of(later, X), apart, y, old])]


@pytest.mark.slow
@examples(80, fast=13)
@given(schemas(2), st.integers(0, 2**32), st.booleans())
def test_known_draws(schema, seed, true):
    rng = np.random.default_rng(seed)
    names = shuffled(schema.columns, rng)
    n_classes, n = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    X, y = some_rows(schema, names, n, rng), rng.integers(n_classes, size=n)
    n_old = int(rng.integers(1, n + 1))
    made = []
    for rows in (n, n_old):
        trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(rng.integers(1, 4))]
        b = bootstrap_draws(len(trees), rows, rng)
        table = X[:rows] if true or rows == n else some_rows(schema, names, rows, rng)
        made.append((drawn(trees, names, table, y[:rows], n_classes, b), b))
    (later, b), (earlier, b_old) = made

    def found(release: Release, **_) -> Draws:
        own = b if release.trees[0].left is later.trees[0].left else b_old
        return Draws(own, "told", None, True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            importlib.import_module("treeleak.reconstruction.problem"), "known_draws", found
        )
        result = reconstruct(later, schema, earlier=renamed(earlier, rng))
    padded = np.pad(b_old, ((0, 0), (0, n - n_old)))
    seen = np.concatenate([b, padded]).any(axis=0)
    worlds = None
    if b.any(axis=0).all():  # else brute force leaves rows open that only the earlier trees drew
        worlds = ordered_datasets(later, schema, b, most=MOST)
    if worlds is not None:
        olds = [check_rows(earlier, w[:n_old, :-1], w[:n_old, -1].astype(int), b_old).ok
                for w in worlds]  # fmt: skip
        worlds = [w for w, ok in zip(worlds, olds, strict=True) if ok]
        assert (result.status == "infeasible") == (not worlds)
    if result.status == "infeasible":
        assert not true
        return
    table = np.column_stack([result.X.astype(float), result.y])
    assert check_rows(later, table[:, :-1], table[:, -1].astype(int), b).ok
    old = table[:n_old]
    assert check_rows(earlier, old[:, :-1], old[:, -1].astype(int), b_old).ok
    assert result.ordered
    assert result.in_earlier.tolist() == [k < n_old for k in range(n)]
    assert not result.proved[~seen].any()
    if worlds is not None:
        assert result.status == ("unique" if len(worlds) == 1 else "feasible")
        sure = np.column_stack([result.confidence, result.label_confidence]) == 1
        for world in worlds:
            right = (table == world) | (np.isnan(table) & np.isnan(world))
            assert right[sure].all()


def small(n: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, 6)), columns=[f"x{i}" for i in range(6)])
    return X, pd.Series(rng.choice(["no", "yes"], n))


def test_known_columns_beside_an_earlier_release():
    X, y = small(20)
    schema = Schema.from_columns(X.columns)
    forest = RandomForestClassifier(8, bootstrap=False, random_state=0)
    earlier, later = clone(forest).fit(X[:12], y[:12]), clone(forest).fit(X, y)
    result = reconstruct(later, schema, earlier=earlier, known_columns=X[["x1", "x3"]].assign(y=y))
    assert (result.X[["x1", "x3"]].to_numpy() == X[["x1", "x3"]].to_numpy()).all()
    assert result.y.tolist() == y.tolist()
    assert result.in_earlier.sum() == 12
    with pytest.raises(NotCovered, match="known rows together with an earlier release"):
        reconstruct(later, schema, earlier=earlier, known_rows=X[:2].assign(y=y[:2]))


@pytest.mark.slow
def test_default_forests_of_a_growing_dataset():
    X, y = small(40)
    schema = Schema.from_columns(X.columns)
    later = RandomForestClassifier(4, max_depth=4, random_state=0).fit(X, y)
    earlier = RandomForestClassifier(8, max_depth=4, random_state=1).fit(X[:30], y[:30])
    known = X[35:].assign(y=y).rename_axis("row")
    result = reconstruct(later, schema, earlier=earlier, known_rows=known, time_limit=AMPLE)
    assert result.in_earlier.tolist() == [True] * 30 + [False] * 10
    assert result.misfit == 0
    assert (result.X[35:].to_numpy() == X[35:].to_numpy()).all()
    # Other tables meet the later counts: with less time, fewer rows are proved by these alone.
    alone = reconstruct(later, schema, known_rows=known, time_limit=20)
    assert result.proved.sum() > alone.proved.sum()
    with pytest.raises(BadInput, match="trained on 40 rows, the later one on 30"):
        reconstruct(earlier, schema, earlier=later)


def test_a_contradiction_names_the_earlier_release():
    schema = Schema([Binary("a"), Binary("b")], [Implies({"a": 1}, {"b": 0})])
    X, y = np.array([[1.0, 1.0]] * 2), np.array([0, 0])
    rng = np.random.default_rng(1)
    leaf, tree = random_tree(rng, [[], []], 0), random_tree(rng, [[0.5], [0.5]], 4)
    later, earlier = (
        counted([tree], ["a", "b"], table, y, 1) for tree, table in ((leaf, 0 * X), (tree, X))
    )
    result = reconstruct(later, schema, earlier=earlier)
    assert result.status == "infeasible"
    node = leaves_of(earlier, X)[0, 0]

    def where(tree: int, at: int) -> str:
        return located(Contradiction(tree, at, "why"), later, rooted=True)

    assert where(1, int(node) + 2) == f"earlier release, tree 0, node {node}: why"
    assert where(0, 0) == "tree 0, node 0: why"
    new = where(1, 1)
    assert new == "rows that are not in tree 0 of the earlier release: why"


@pytest.mark.parametrize(
    ("change", "error", "why"),
    [
        ({"feature_names": ("a", "c")}, BadInput, "only the earlier release has the column 'c'"),
        ({"classes": (0, 2)}, BadInput, "only the earlier release has the class 2"),
        ({"float_type": "float64"}, NotCovered, "float_type differs"),
        ({"sampling": Bootstrap()}, NotCovered, "comes from a bootstrap and the other does not"),
        ({"not_covered": "a reason"}, NotCovered, "the earlier release: a reason"),
    ],
)
def test_releases_that_do_not_go_together(change, error, why):
    schema = Schema.from_columns(["a", "b"])
    rng = np.random.default_rng(0)
    X, y = some_rows(schema, ["a", "b"], 4, rng), np.array([0, 1, 0, 1])
    trees = [random_tree(rng, [[0.5], [0.5]], 2)]
    release = counted(trees, ["a", "b"], X, y, 2)
    with pytest.raises(error, match=why):
        reconstruct(release, schema, earlier=replace(release, **change))
    with pytest.raises(NotCovered, match="counts_are differs"):
        reconstruct(release, schema, earlier=counted_as(release, "none"))


def test_a_growing_dataset_does_not_shrink():
    schema = Schema.from_columns(["a", "b"])
    rng = np.random.default_rng(0)
    X, y = some_rows(schema, ["a", "b"], 6, rng), np.array([0, 0, 1, 1, 1, 1])
    tree = random_tree(rng, [[0.5], [0.5]], 2)
    later, earlier = (counted([tree], ["a", "b"], X[k], y[k], 2) for k in (slice(1, 6), slice(6)))
    with pytest.raises(BadInput, match="tree 0 of the earlier release counts 1 rows more"):
        reconstruct(later, schema, earlier=earlier)


def test_trees_that_drew_count_nothing_of_what_is_new():
    rng = np.random.default_rng(0)
    X, y = some_rows(Schema.from_columns(["a", "b"]), ["a", "b"], 6, rng), np.array([0, 1] * 3)
    tree = random_tree(rng, [[0.5], [0.5]], 2)
    later, earlier = (
        drawn([tree], ["a", "b"], X[:n], y[:n], 2, bootstrap_draws(1, n, rng)) for n in (6, 4)
    )
    joint = distinguished(later, aligned(earlier, later), drawn=True)
    old = joint.trees[1]
    assert joint.feature_names[:2] == ("a", "b")
    assert old.totals[0] == old.totals[2] == 4
    assert old.totals[1] == old.distinct[1] == old.counts[1].sum() == 0
    schema = Schema([Binary(name) for name in joint.feature_names])
    columns = pd.DataFrame({"b": X[:, 1], joint.feature_names[-1]: np.arange(6) < 4})
    known = KnownTables.of(joint, schema, 6, None, columns.astype(int), ordered=False)
    geometry = known.geometry(joint, counted=False)
    parts = known.parts(geometry, rows=True)
    allowed = parts.allowed[parts.group]
    assert geometry.radix.tolist() == [2, 2, 2]
    assert allowed[:, [0, 1, 6, 7]].all()
    assert (allowed[:, 3] == (X[:, 1] == 1)).all()
    assert allowed[:, 5].tolist() == [True] * 4 + [False] * 2
    rows = np.column_stack([X, np.arange(6) < 4]).astype(np.float32)
    assert (old.apply(rows)[4:] == 1).all()
    assert (old.apply(rows)[:4] - 2 == earlier.trees[0].apply(rows[:4])).all()
