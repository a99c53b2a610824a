"""The order in which trees looked at columns, replayed, and what it tells of rows."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor

import treeleak
from helpers.examples import examples
from treeleak.attacks.answer import Answer, Rows
from treeleak.attacks.known_draws import order_search
from treeleak.attacks.known_draws.column_order import groups_of, looked, ones_of
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.partition.values import values_of
from treeleak.reconstruction.by_targets import by_targets
from treeleak.reconstruction.targets import most_said, targets_told
from treeleak.release import to_release
from treeleak.release.draws.column_order_kernels import Costs, all_costs, enter
from treeleak.release.draws.seeds import known_draws
from treeleak.release.splitting import Splitting
from treeleak.schema import Binary, Numeric, OneHot, Schema

IMPOSSIBLE = Costs(beaten=1.0, later=0.0, other_later=0.0, other_first=0.0)
NOT_FIRST = Costs(beaten=1.0, later=1.0, other_later=0.0, other_first=0.0)
ANY_LATER = Costs(beaten=1.0, later=1.0, other_later=1.0, other_first=0.0)


def rows_of(rng, n, m):
    """Binary rows that depend on each other, with columns of one value and columns alike."""
    X = (rng.random((n, m)) < rng.random(m)).astype(float)
    X[:, rng.integers(m)] = rng.integers(2)
    X[:, rng.integers(m)] = 1 - X[:, rng.integers(m)]
    return X


class Replayed:
    """A forest's nodes, entered with the rows that it was trained on."""

    def __init__(self, model, X, y):
        self.release = to_release(model)
        m = X.shape[1]
        self.X, self.names = X, [f"x{i}" for i in range(m)]
        self.release = replace(self.release, feature_names=tuple(self.names))
        self.geometry = Geometry.of(self.release, Schema([Binary(name) for name in self.names]))
        self.draws = known_draws(self.release)
        leaf = np.column_stack([
            np.searchsorted(tree.leaves, tree.apply(X.astype(np.float32)))
            for tree in self.release.trees
        ])  # fmt: skip
        self.y = np.eye(2)[y] if self.release.classes else y[:, None]
        self.splits, self.paths, self.alike = looked(
            self.release, self.release.splitting, self.draws, leaf, self.y
        )
        self.enter(X)

    def enter(self, X):
        self.splits.ones[:], self.splits.sums[:] = 0.0, 0.0
        for i, own in enumerate(X == 1):
            enter(np.array([i]), own, 1.0, self.y, self.splits, self.paths)

    def cost(self, costs, seeds_off=0):
        splits = self.splits._replace(stream=self.splits.stream + seeds_off)
        return float(all_costs(splits, costs).sum())


def forest(rng, kind, X, y, **more):
    options = {
        "n_estimators": 6, "random_state": int(rng.integers(999)),
        "max_features": [1.0, "sqrt", 1][rng.integers(3)],
        "max_depth": [None, 2, 4][rng.integers(3)], "min_samples_split": int(rng.integers(2, 5)),
    }  # fmt: skip
    return kind(**options | more).fit(X, y)


@examples(200, fast=12)
@given(st.integers(0, 2**32 - 1))
def test_a_forest_of_classes_took_the_first_of_the_best_columns_it_looked_at(seed):
    rng = np.random.default_rng(seed)
    X, y = rows_of(rng, int(rng.integers(8, 60)), int(rng.integers(3, 12))), None
    y = ((X.sum(axis=1) + rng.normal(size=len(X))) > X.shape[1] / 2).astype(int)
    y[:2] = 0, 1
    model = forest(rng, RandomForestClassifier, X, y)
    assert Replayed(model, X, y).cost(NOT_FIRST) == 0


@examples(200, fast=12)
@given(st.integers(0, 2**32 - 1))
def test_a_forest_of_targets_took_none_but_the_best_columns(seed):
    rng = np.random.default_rng(seed)
    X = rows_of(rng, int(rng.integers(8, 60)), int(rng.integers(3, 12)))
    model = forest(rng, RandomForestRegressor, X, y := rng.normal(size=len(X)))
    assert Replayed(model, X, y).cost(IMPOSSIBLE) == 0


def test_another_order_explains_far_less():
    rng = np.random.default_rng(0)
    X = rows_of(rng, 80, 9)
    y = (X[:, 0] + rng.normal(size=80) > 0.5).astype(int)
    for columns in (1.0, "sqrt"):
        whole = {"max_features": columns, "max_depth": None, "n_estimators": 20}
        own = Replayed(forest(rng, RandomForestClassifier, X, y, **whole), X, y)
        assert 10 * own.cost(ANY_LATER) < own.cost(ANY_LATER, seeds_off=1)


def test_a_wrong_value_shows_in_what_nodes_took():
    rng = np.random.default_rng(1)
    X = rows_of(rng, 60, 8)
    own = Replayed(forest(rng, RandomForestRegressor, X, y := rng.normal(size=60)), X, y)
    right = own.cost(order_search.TARGETS)
    wrong = X.copy()
    wrong[:5] = 1 - wrong[:5]
    own.enter(wrong)
    assert own.cost(order_search.TARGETS) > right + 20


def test_rows_in_a_leaf_of_several_targets_are_alike():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (70, 4)).astype(float)
    model = RandomForestRegressor(30, random_state=0).fit(X, rng.normal(size=70))
    own = Replayed(model, X, rng.normal(size=70))
    for number in np.unique(own.alike):
        assert len(np.unique(X[own.alike == number], axis=0)) == 1
    assert len(np.unique(own.alike)) < 30


def test_no_place_of_a_group_changes_a_count():
    rng = np.random.default_rng(3)
    X = rows_of(rng, 60, 9)
    own = Replayed(RandomForestRegressor(8, random_state=1).fit(X, y := rng.normal(size=60)), X, y)
    atoms = X.astype(np.int64)
    untested = [i for i, cuts in enumerate(own.release.thresholds) if not len(cuts)]
    atoms[:, untested] = 0
    leaf = own.geometry.trace_atoms(atoms)
    groups = groups_of(own.geometry, leaf.astype(np.int64), own.draws.counts, own.alike)
    assert max(len(group.atoms) for group in groups) > 1
    for group in groups:
        assert (group.atoms == atoms[group.rows[0]]).all(axis=1).any()
        there = own.geometry.trace_atoms(group.atoms)
        for i in group.rows:
            drew = own.draws.counts[:, i] > 0
            assert (there[:, drew] == leaf[i, drew]).all()


def test_columns_of_numbers_are_not_replayed():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    model = RandomForestRegressor(3, random_state=0).fit(X, X[:, 0])
    release = replace(to_release(model), feature_names=("a", "b"))
    schema = Schema([Numeric("a", -9.0, 9.0), Numeric("b", -9.0, 9.0)])
    assert ones_of(Geometry.of(release, schema), np.zeros((1, 2), dtype=np.int64)) is None


@pytest.mark.parametrize(
    "options",
    [
        {"max_leaf_nodes": 9}, {"min_samples_leaf": 2}, {"min_impurity_decrease": 0.01},
        {"criterion": "poisson"}, {"ccp_alpha": 0.01}, {"monotonic_cst": [1, 0]},
        {"min_samples_split": 0.1}, {"min_weight_fraction_leaf": 0.1},
    ],
    ids=str,
)  # fmt: skip
def test_what_searches_otherwise_is_not_replayed(options):
    X = np.random.default_rng(0).integers(0, 2, (40, 2)).astype(float)
    model = RandomForestRegressor(2, random_state=0, **options).fit(X, X[:, 0])
    assert to_release(model).splitting is None


def test_the_settings_of_the_splitter_are_read():
    X = np.random.default_rng(0).integers(0, 2, (40, 4)).astype(float)
    few = {"random_state": 0, "n_estimators": 2}
    plain = to_release(RandomForestRegressor(**few).fit(X, X[:, 0]))
    assert plain.splitting == Splitting(4)
    set_ = RandomForestClassifier(max_depth=3, min_samples_split=5, **few).fit(X, X[:, 0])
    assert to_release(set_).splitting == Splitting(2, 5, 3)
    weighted = RandomForestClassifier(class_weight="balanced", **few).fit(X, X[:, 0])
    assert to_release(weighted).splitting is None
    assert to_release(ExtraTreesRegressor(bootstrap=True, **few).fit(X, X[:, 0])).splitting is None


@pytest.mark.parametrize(
    "lie",
    [{"max_depth": 2**40}, {"max_depth": -1}, {"min_samples_split": 2**40},
     {"max_features_": 10**7}, {"max_features_": 0}],
    ids=str,
)  # fmt: skip
def test_settings_that_no_splitter_takes_are_not_read(lie):
    X = np.random.default_rng(0).integers(0, 2, (40, 4)).astype(float)
    model = RandomForestClassifier(2, random_state=0).fit(X, X[:, 0])
    assert to_release(model).splitting is not None
    for tree in model.estimators_:
        vars(tree).update(lie)
    assert to_release(model).splitting is None


def case(seed, n=90):
    """Rows of a group of columns and of single ones, of which few decide."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(5, size=n, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    single = rng.random((n, 4)) < np.array([0.5, 0.3, 0.15, 0.4])
    X = np.column_stack([np.eye(5)[kind], single]).astype(float)
    names = [f"k{i}" for i in range(5)] + list("abcd")
    y = X @ rng.normal(size=9) + 0.1 * rng.normal(size=n)
    model = RandomForestRegressor(25, random_state=seed).fit(X, y)
    release = replace(to_release(model), feature_names=tuple(names))
    schema = Schema([OneHot("k", tuple(names[:5])), *map(Binary, "abcd")])
    return release, schema, pd.DataFrame(X.astype(int), columns=names)


def wrong(found, X):
    return int((found.X.to_numpy() != X.to_numpy()).any(axis=1).sum())


@pytest.mark.slow
def test_the_order_of_columns_puts_rows_right_and_breaks_no_count():
    with_, without = [], []
    for seed in range(10, 14):
        release, schema, X = case(seed)
        for own, out in ((release, with_), (replace(release, splitting=None), without)):
            found = treeleak.reconstruct(own, schema, seed=seed)
            assert found.status == "feasible"
            assert found.misfit == 0
            assert ("rows_alike" in found.numbers) == (own is release)
            out.append((wrong(found, X), found.expected_error))
    assert sum(n for n, _ in with_) < sum(n for n, _ in without) / 2
    assert sum(e for _, e in with_) < sum(e for _, e in without)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 13])
def test_rows_of_compas_come_back_where_other_rows_meet_all_counts(seed):
    data, rng = treeleak.datasets.load_compas(), np.random.default_rng(seed)
    X = data.X.sample(120, random_state=seed).reset_index(drop=True)
    y = X.to_numpy(float) @ rng.normal(size=X.shape[1])
    y += 0.1 * y.std() * rng.normal(size=120)
    release = to_release(RandomForestRegressor(60, random_state=0).fit(X, y))
    found = treeleak.reconstruct(release, data.schema)
    assert wrong(treeleak.reconstruct(replace(release, splitting=None), data.schema), X) > 0
    assert wrong(found, X) == 0
    assert found.expected_error < 0.002


def test_an_order_that_explains_nothing_changes_no_row():
    release, schema, _ = case(10, 60)
    plain, other = (
        treeleak.reconstruct(replace(release, splitting=own), schema)
        for own in (None, Splitting(1))
    )
    pd.testing.assert_frame_equal(plain.X, other.X)
    assert "rows_alike" not in other.numbers


def counts_of(release, draws, rows):
    """Draws and different rows in each leaf of each tree, given the rows."""
    out = []
    for own, tree in zip(draws, release.trees, strict=True):
        at = tree.apply(rows.astype(np.float32))
        out += [np.bincount(at, own, tree.n_nodes), np.bincount(at, own > 0, tree.n_nodes)]
    return np.concatenate(out)


@pytest.mark.slow
def test_two_rows_change_places_where_leaves_do_not_agree_on_targets():
    tried = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 2, (14, 4)).astype(float)
        model = RandomForestRegressor(4, random_state=seed).fit(X, rng.normal(size=14))
        release = replace(to_release(model), feature_names=tuple("abcd"))
        geometry = Geometry.of(release, Schema([*map(Binary, "abcd")]))
        draws, told = known_draws(release), targets_told(release)
        held = counts_of(release, draws.counts, X)
        if not all(len(cuts) for cuts in release.thresholds):
            continue

        def agree(table, geometry=geometry, draws=draws, told=told):
            leaf = geometry.trace_atoms(table.astype(np.int64))
            return most_said(np.where(draws.counts.T > 0, told[leaf], np.nan))[1]

        best = agree(X).sum()
        for i, j, a in itertools.product(range(14), range(14), range(4)):
            other = X.copy()
            other[[i, j], a] = X[[j, i], a]
            if i >= j or (agree(other).sum() >= best):
                continue
            if not (counts_of(release, draws.counts, other) == held).all():
                continue
            values = values_of(geometry.parts, 1)
            numbers = np.column_stack([other, np.zeros(14)]).astype(np.int64)
            rows = Rows(
                values.first[numbers + values.atom_start[:-1]], np.full((14, 5), 0.5),
                np.zeros(14, dtype=bool), False, 0,
            )  # fmt: skip
            found = by_targets(
                Answer("feasible", values, (rows,), ordered=True),
                KnownDraws(geometry, draws.counts),
            ).rows[0]
            table = values.rows(found.values[:, :-1], 4)
            assert (counts_of(release, draws.counts, table) == held).all()
            assert agree(table).sum() == pytest.approx(best)
            assert ((found.confidence[:, :-1] == 0.5) == (table == other)).all()
            tried += 1
    assert tried >= 10
