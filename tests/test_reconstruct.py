"""Reconstructions against brute force: what is called unique or proved must be."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from helpers.brute_force import datasets, stands_in
from helpers.examples import examples, spread
from helpers.grids import cuts_for, schemas, shuffled, some_rows
from helpers.patient import AMPLE
from helpers.releases import counted, drawn_alone, leaves_of, mixed, random_tree
from treeleak import (
    BadInput,
    NotCovered,
    Reconstruction,
    Schema,
    reconstruct,
)
from treeleak.attacks.solvers.integer import IntegerProblem
from treeleak.evidence import KnownDraws
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.n_rows import RowCount
from treeleak.release.release import Release
from treeleak.release.sampling import UnknownSampling
from treeleak.verification.counts import check_rows


def written(result: Reconstruction, release: Release) -> tuple[np.ndarray, np.ndarray]:
    """Rows with the number of their class in a last column, and which of it is sure."""
    if not result.labelled:
        none = np.zeros((len(result.X), 1))
        sure = result.confidence.to_numpy() == 1
        return np.hstack([result.X, none]), np.hstack([sure, none > 0])
    label = [release.classes.index(c) for c in result.y]
    table = np.column_stack([result.X.to_numpy(dtype=float), label])
    sure = np.column_stack([result.confidence, result.label_confidence]) == 1
    return table, sure


def check_form(result: Reconstruction, release: Release, schema: Schema) -> None:
    names = list(release.feature_names)
    assert list(result.X.columns) == names
    assert list(result.confidence.columns) == names
    n = len(result.X)
    X = result.X.to_numpy(dtype=float)
    assert schema.valid(X, names).all()
    sure = result.confidence.to_numpy()
    y = None
    if result.labelled:
        sure = np.column_stack([sure, result.label_confidence])
        assert set(result.y) <= set(release.classes)
        y = np.array([release.classes.index(c) for c in result.y], dtype=np.int64)
    else:
        assert all(tree.counts is None for tree in release.trees)
    assert len(result.proved) == len(sure) == n
    said = ~np.isnan(sure)
    assert ((sure > 0) & (sure <= 1))[said].all()
    # Of rows that miss counts, a value is proved, or it is not known how sure it is.
    assert said.all() if result.sureness_known else (sure[said] == 1).all()
    assert check_rows(release, X, y).misfit == result.misfit
    assert json.loads(result.to_json(include_rows=True))["n_rows"] == n
    assert "rows" not in json.loads(result.to_json())


def check_against_brute_force(result, release, schema, most=1500) -> None:
    """Status, values and rows against all datasets that meet the counts, where these are few."""
    check_form(result, release, schema)
    worlds = datasets(release, schema, most)
    if result.status == "likely":
        # Rows between datasets, which err less than any of these; one dataset stands beside them.
        X, y = result.most_likely
        label = None if y is None else np.array([release.classes.index(c) for c in y])
        assert check_rows(release, X.to_numpy(dtype=float), label).misfit == 0
        assert worlds is None or any(len(own) > 1 for own in worlds)
        return
    assert result.misfit == 0
    if worlds is None:
        assert result.status == "feasible"
        return
    if not result.labelled:
        worlds = [without_labels(own) for own in worlds]
    unique = all(len(own) == 1 for own in worlds)
    assert result.status == ("unique" if unique else "feasible")
    table, sure = written(result, release)
    by_class = release.counts_are == "rows"
    for c, own in enumerate(worlds):
        mine = table[:, -1] == c if by_class else np.ones(len(table), dtype=bool)
        for world in own:
            assert stands_in(table[mine], sure[mine], world)
        check_proved_rows(table[mine], result.proved.to_numpy()[mine], own, release)


def without_labels(own: list[np.ndarray]) -> list[np.ndarray]:
    """The different datasets that are left if all rows have the same class."""
    each = {}
    for world in own:
        table = np.column_stack([world[:, :-1], np.zeros(len(world))])
        table = table[np.lexsort(table.T)]
        each.setdefault(table.tobytes(), table)
    return [*each.values()]


def check_proved_rows(table, proved, worlds, release) -> None:
    """The rows called proved are, cell by cell, those that stand in every world."""
    cells = [
        [(*leaves, c) for leaves, c in zip(leaves_of(release, w[:, :-1]), w[:, -1], strict=True)]
        for w in worlds
    ]
    mine = np.column_stack([leaves_of(release, table[:, :-1]), table[:, -1]])
    for cell in {tuple(row) for row in mine}:
        held = min(own.count(cell) for own in cells)
        assert proved[(mine == cell).all(axis=1)].sum() == held


@st.composite
def releases(draw) -> tuple[Release, Schema]:
    schema = draw(schemas())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = shuffled(schema.columns, rng)
    counts_are = draw(st.sampled_from(["rows", "rows", "weights", "none"]))
    n_classes = draw(st.integers(1, 3))
    X = some_rows(schema, names, draw(st.integers(0, 5)), rng)
    y = rng.integers(n_classes, size=len(X))
    cuts = cuts_for(schema, names)
    trees = [random_tree(rng, cuts, 4) for _ in range(draw(st.integers(1, 4)))]
    if draw(st.booleans()):
        trees = [replace(mixed(t, rng, categories=True), strict=None) for t in trees]
    weights = rng.random(len(X)) + 0.1 if counts_are == "weights" else None
    release = counted(trees, names, X, y, n_classes, counts_are=counts_are, weights=weights)
    return release, schema


@examples(150, fast=15)
@given(releases(), st.integers(0, 3))
def test_random_trees(given_, seed):
    release, schema = given_
    result = reconstruct(release, schema, seed=seed)
    check_against_brute_force(result, release, schema)


@examples(60, fast=10)
@given(schemas(), st.integers(0, 2**32))
def test_counts_with_a_row_moved_are_infeasible_exactly_where_no_dataset_meets_them(schema, seed):
    rng = np.random.default_rng(seed)
    names = schema.columns
    X = some_rows(schema, names, int(rng.integers(1, 6)), rng)
    trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(3)]
    release = counted(trees, names, X, np.zeros(len(X), dtype=int), 1)
    tree = release.trees[1]
    counts = tree.counts.copy()
    counts[rng.choice(tree.leaves[counts[tree.leaves, 0] > 0])] -= 1
    counts[rng.choice(tree.leaves)] += 1
    trees = list(release.trees)
    trees[1] = tree.with_counts(counts=counts, totals=counts[:, 0])
    release = replace(release, trees=tuple(trees))
    worlds = datasets(release, schema, 1500)
    result = reconstruct(release, schema)
    if worlds != [[]]:
        check_against_brute_force(result, release, schema)
        return
    assert result.status == "infeasible"
    assert result.X is None
    assert result.y is None
    assert result.n_rows == 0
    t, node = map(int, re.match(r"tree (\d+), node (\d+): ", result.contradiction).groups())
    assert release.trees[t].is_leaf[node]
    assert json.loads(result.to_json(include_rows=True))["contradiction"] == result.contradiction


@pytest.mark.parametrize("seed", spread([0, 1, 3, 4, 5, 6], fast=2))
def test_an_unfinished_proof_proves_nothing(seed, monkeypatch):
    def unfinished(problem, known, *rest):
        return np.minimum.reduce(list(known)), False, []

    monkeypatch.setattr(IntegerProblem, "always", unfinished)
    rng = np.random.default_rng(seed)
    schema = Schema.from_columns(["a", "b", "c"])
    X = some_rows(schema, schema.columns, 5, rng)
    trees = [random_tree(rng, cuts_for(schema, schema.columns), 2) for _ in range(2)]
    release = counted(trees, schema.columns, X, np.zeros(5, dtype=int), 1)
    result = reconstruct(release, schema)
    (worlds,) = datasets(release, schema)
    table, sure = written(result, release)
    assert len(worlds) > 1
    assert result.status == "feasible"
    assert all(stands_in(table, sure, world) for world in worlds)


def small(n=30, columns=6, seed=0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=[f"x{i}" for i in range(columns)])
    return X, rng.integers(0, 2, n)


# Degenerate inputs -------------------------------------------------------------------------


# What is refused, and limits ---------------------------------------------------------------


def test_unknown_sampling_is_refused_until_the_user_says_how():
    X, y = small(6, 3)
    release = to_release(ExtraTreesClassifier(3, random_state=0).fit(X, y))
    unknown = replace(release, sampling=UnknownSampling("made elsewhere"))
    with pytest.raises(NotCovered, match="made elsewhere"):
        reconstruct(unknown, Schema.from_columns(X.columns))
    result = reconstruct(unknown, Schema.from_columns(X.columns), bootstrap="none")
    assert result.status in ("unique", "feasible", "likely")


def test_draws_that_cannot_be_had_are_taken_as_hidden_and_a_note_says_why():
    X, y = small(6, 3)
    schema = Schema.from_columns(X.columns)
    release = stripped(to_release(RandomForestClassifier(3).fit(X, y)))
    fallen = reconstruct(release, schema, seed_search=0, time_limit=AMPLE)
    asked = reconstruct(release, schema, "hidden", time_limit=AMPLE)
    for result in (fallen, asked):
        assert result.status == "likely"
        assert not result.ordered
        assert result.draws is None
        assert result.evidence == "hidden bootstrap draws, distinct counts"
        assert result.row_count == RowCount(6, (6, 6), "as the model says")
        assert not result.proved.any()
    (note,) = set(fallen.notes) - set(asked.notes)
    assert note.startswith("the attack takes the draws as hidden: the trees' draws are not known")
    assert "no forest seeds were tried" in note
    with pytest.raises(NotCovered, match=r"draws are not known: .*no forest seeds were tried"):
        reconstruct(release, schema, "known", seed_search=0)


def test_hidden_draws_of_unequal_chances_are_noted():
    X, y = small(8, 3)
    release = stripped(to_release(RandomForestClassifier(4, random_state=0).fit(X, y)))
    for change, why in (
        ({"row_weights": tuple(range(1, 9))}, "rows of more weight were drawn more often"),
        ({"hidden": "weights unknown"}, "weights unknown"),
    ):
        odd = replace(release, sampling=replace(release.sampling, **change))
        for bootstrap in ("hidden", "auto"):
            result = reconstruct(odd, None, bootstrap, 0.01, seed_search=0)
            assert any(
                n.startswith("the attack assumed that trees draw each row") and why in n
                for n in result.notes
            )
    result = reconstruct(release, None, "hidden", 0.01)
    assert not any(
        n.startswith("the attack assumed that trees draw each row") for n in result.notes
    )


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_limit_that_is_none(limit):
    X, y = small(6, 3)
    with pytest.raises(BadInput, match="time_limit"):
        reconstruct(DecisionTreeClassifier().fit(X, y), time_limit=limit)


def test_a_negative_seed():
    X, y = small(6, 3)
    with pytest.raises(BadInput, match="seed"):
        reconstruct(DecisionTreeClassifier().fit(X, y), seed=-1)


# Known draws -------------------------------------------------------------------------------


def stripped(release: Release) -> Release:
    """The release without seeds."""
    return replace(release, sampling=replace(release.sampling, tree_seeds=(), forest_seed=None))


def check_drawn(result: Reconstruction, release: Release, X, y, distinct: bool = True) -> None:
    """What holds of rows in their order, the true ones being known."""
    assert result.status in ("unique", "feasible", "likely", "unknown")
    assert result.ordered
    assert result.contradiction is None
    assert result.evidence == KnownDraws.kind
    assert len(result.X) == len(X)
    assert list(result.X.columns) == list(release.feature_names)
    label = np.array([release.classes.index(c) for c in result.y])
    table = result.X.to_numpy(dtype=float)
    assert result.schema.valid(table, release.feature_names).all()
    b = known_draws(release).counts
    assert check_rows(release, table, label, b, distinct).misfit == result.misfit
    # An estimate between several datasets need not meet all counts itself.
    assert (result.misfit == 0) == (result.status in ("unique", "feasible"))
    # What is certain is true, and all of it is where there is no other dataset.
    sure = result.confidence.to_numpy() == 1
    assert (table == np.asarray(X, dtype=float))[sure].all()
    assert (np.asarray(result.y) == np.asarray(y))[result.label_confidence == 1].all()
    assert (result.status == "unique") <= bool(sure.all() and result.proved.all())
    assert json.loads(result.to_json())["ordered"]


BOOTSTRAPPED = [
    RandomForestClassifier(60, random_state=0),
    RandomForestClassifier(60, max_samples=0.5, random_state=0),
    RandomForestClassifier(60, class_weight="balanced_subsample", random_state=0),
    RandomForestClassifier(60, class_weight="balanced", random_state=0),
    ExtraTreesClassifier(60, bootstrap=True, random_state=0),
    BaggingClassifier(DecisionTreeClassifier(), n_estimators=60, random_state=0),
    BaggingClassifier(
        DecisionTreeClassifier(), n_estimators=100, max_features=0.5, bootstrap_features=True,
        random_state=0,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "distinct"),
    [
        *spread(((model, True) for model in BOOTSTRAPPED), fast=3),
        (BOOTSTRAPPED[0], False),
        *(pytest.param(model, False, marks=pytest.mark.slow) for model in BOOTSTRAPPED[1:]),
    ],
    ids=str,
)
def test_drawn_rows_come_back_in_their_order(model, distinct):
    X, _ = small(50, 5)
    y = np.random.default_rng(1).choice(["no", "often", "yes"], 50)
    schema = Schema.from_columns(X.columns)
    release = drawn_alone(to_release(clone(model).fit(X, y)), distinct)
    result = reconstruct(release, schema)
    check_drawn(result, release, X, y, distinct)
    assert result.status == "unique"
    assert np.array_equal(result.X, X)
    assert result.y.tolist() == y.tolist()
    assert result.to_dict()["draws"] == "the trees' seeds in the file"


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
@pytest.mark.usefixtures("few_chains")
def test_shallow_drawn_forests_claim_nothing_that_is_not_so(seed, depth):
    X, y = small(25, 4, seed)
    schema = Schema.from_columns(X.columns)
    model = RandomForestClassifier(12, max_depth=depth, random_state=seed).fit(X, y)
    result = reconstruct(model, schema, time_limit=3)
    check_drawn(result, to_release(model), X, y)


def test_a_seed_that_was_taken_out_is_found_and_reported():
    X, y = small(30, 5)
    schema = Schema.from_columns(X.columns)
    release = stripped(to_release(RandomForestClassifier(60, random_state=321).fit(X, y)))
    result = reconstruct(release, schema, seed_search=1000)
    assert result.status == "unique"
    assert np.array_equal(result.X, X)
    origin = "forest seed 321, found by search among the first 1,000"
    assert json.loads(result.to_json())["draws"] == origin
    with pytest.raises(NotCovered, match="none of the first 300 forest seeds"):
        reconstruct(release, schema, "known", seed_search=300)


def test_a_search_that_is_stopped_says_so():
    X, y = small(30, 5)
    release = stripped(to_release(RandomForestClassifier(60, random_state=2**31).fit(X, y)))
    with pytest.raises(NotCovered, match="search for the draws was stopped"):
        reconstruct(release, Schema.from_columns(X.columns), seed_search=2**32, time_limit=0.01)


def test_one_forest_and_three_ways_to_read_it():
    X, y = small(30, 5)
    schema = Schema.from_columns(X.columns)
    model = RandomForestClassifier(40, random_state=0).fit(X, y)
    for bootstrap in ("auto", "known"):
        assert reconstruct(model, schema, bootstrap).ordered
    # Said to use every row once, its trees disagree.
    assert reconstruct(model, schema, "none").status == "infeasible"
    plain = RandomForestClassifier(40, bootstrap=False, random_state=0).fit(X, y)
    with pytest.raises(NotCovered, match="did not draw their rows by a bootstrap"):
        reconstruct(plain, schema, "known")
    assert reconstruct(plain, schema).draws is None
