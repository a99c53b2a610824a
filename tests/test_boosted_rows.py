"""Rows of boosted models and regression forests, from the model to the table and the audit."""

import json
import re
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeRegressor

import treeleak
from helpers.cli import run
from helpers.documents import valid
from helpers.examples import examples
from helpers.patient import AMPLE
from treeleak.auditing import Policy, judge
from treeleak.auditing.assessors.measurement import measure
from treeleak.auditing.findings.finding import NO_LEAK
from treeleak.auditing.inventory.conditions import Context
from treeleak.auditing.inventory.inventory import take_inventory
from treeleak.core.text import percent
from treeleak.reconstruction.targets import disclosed_targets
from treeleak.release import snapshot, to_release
from treeleak.report import render, render_html
from treeleak.schema import Binary, Schema

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

COLUMNS = list("abcdef")
BITS = Schema([Binary(c) for c in COLUMNS])
FEW = {"n_estimators": 6, "random_state": 0}
MODELS = {
    "tree": DecisionTreeRegressor(random_state=0),
    "forest": RandomForestRegressor(**FEW),
    "extra": ExtraTreesRegressor(**FEW),
    "boosted": GradientBoostingClassifier(**FEW),
    "boosted regression": GradientBoostingRegressor(**FEW),
    "ada": AdaBoostClassifier(**FEW),
    "histogram": HistGradientBoostingClassifier(max_iter=6, min_samples_leaf=3),
    "histogram regression": HistGradientBoostingRegressor(max_iter=6, min_samples_leaf=3),
    "isolation": IsolationForest(**FEW),
}


def people(n=24, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.random((n, 6)) < rng.random(6), columns=COLUMNS).astype(int)
    y = (X["a"] + 2 * X["b"] - X["c"] + rng.normal(size=n)).round(3)
    return X, y


def fitted(name, n=24, seed=0):
    X, y = people(n, seed)
    model = MODELS[name]
    classes = "Classifier" in type(model).__name__
    target = (y > y.median()).astype(int) if classes else y
    return model.fit(X, None if name == "isolation" else target), X, target


def library_counts(model, X):
    """How many rows each leaf of each tree holds, as scikit-learn itself sends them there."""
    if hasattr(model, "_predictors"):
        held = []
        for stage in model._predictors:
            for tree in stage:
                # scikit-learn tells what a leaf adds, not which it is: leaves get numbers to add.
                nodes = tree.nodes.copy()
                nodes["value"] = np.arange(len(nodes))
                tree = type(tree)(nodes, tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets)
                none = np.zeros((0, 8), np.uint32), np.zeros(X.shape[1], np.uint32)
                at = tree.predict(np.asarray(X, float), *none, 1)
                held.append(Counter(at.astype(int).tolist()))
        return held
    trees = np.ravel(np.asarray(getattr(model, "estimators_", [model]), dtype=object))
    rows = np.asarray(X, np.float32)
    return [Counter(tree.tree_.apply(rows).tolist()) for tree in trees]


SLOW = [name for name in MODELS if name != "tree"]
NAMES = [
    pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in MODELS if n != "forest"
]


@pytest.mark.parametrize("name", NAMES)
def test_rebuilt_rows_meet_every_count_by_the_library_itself(name):
    model, X, _ = fitted(name)
    found = treeleak.reconstruct(model, BITS, time_limit=AMPLE)
    assert found.status in ("unique", "feasible")
    assert len(found.X) == len(X)
    assert library_counts(model, found.X[COLUMNS]) == library_counts(model, X)
    assert (found.y is None) == (name == "isolation")


def test_a_forest_that_drew_its_rows_is_rebuilt_in_order_with_targets():
    X, y = people(40, 3)
    X["a"] = np.arange(40) % 2
    model = RandomForestRegressor(30, random_state=0).fit(X, y)
    found = treeleak.reconstruct(model, BITS, time_limit=AMPLE)
    assert found.ordered
    same = (found.X[COLUMNS].to_numpy() == X.to_numpy()).all(axis=1)
    assert same.all()
    told = found.outcomes.notna()
    np.testing.assert_allclose(found.y[told], y[told], rtol=1e-9)
    # A leaf that isolates a row says its target: no other row told could stand in its place.
    alone = ~X.duplicated(keep=False)
    assert told[alone].all()
    assert (found.label_confidence[told] > 0).all()
    assert (found.label_confidence[~told] == 0).all()
    assert found.y.name == "target"


@examples(60, fast=6)
@given(st.integers(0, 2**32 - 1))
def test_targets_of_leaves_are_those_of_their_rows(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 20))
    X, y = rng.integers(0, 3, (n, 2)).astype(float), rng.integers(0, 4, n) / 7
    few = {"max_depth": [None, 2][rng.integers(2)], "random_state": 0}
    criterion = ["squared_error", "absolute_error"][rng.integers(2)]
    model = (
        DecisionTreeRegressor(criterion=criterion, **few),
        ExtraTreesRegressor(3, **few),
        GradientBoostingRegressor(n_estimators=2, **few),
    )[rng.integers(3)].fit(X, y)
    release = to_release(model)
    found = disclosed_targets(release, X, np.ones(n, dtype=bool))
    if found is None:
        # Where all targets are one, no impurity is left, which may also have been taken out.
        assert len(set(y)) == 1 or not any(len(set(y[at])) == 1 for at in leaves(release, X))
        return
    told = ~np.isnan(found.values)
    np.testing.assert_allclose(found.values[told], y[told], rtol=1e-9, atol=1e-15)
    assert (found.sure[told] == 1).all()
    # Of a tree with all rows, whatever is pure is told.
    if len(release.trees) == 1 and len(set(y)) > 1:
        pure = np.concatenate([at for at in leaves(release, X) if len(set(y[at])) == 1] or [[]])
        assert set(np.flatnonzero(told)) == set(pure.astype(int))


def leaves(release, X):
    at = release.trees[0].apply(X.astype(release.float_type))
    return [np.flatnonzero(at == leaf) for leaf in np.unique(at)]


@examples(40, fast=1)
@given(st.integers(0, 2**32 - 1))
@example(723496)
def test_proofs_without_classes_hold_in_every_table(seed):
    """Of tiny forests that drew known rows, every table that meets all counts is looked at."""
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(2, 5)), ["a", "b"]
    X = pd.DataFrame(rng.integers(0, 2, (n, 2)), columns=names)
    model = RandomForestRegressor(3, random_state=int(rng.integers(99)), max_features=1)
    release = to_release(model.fit(X, rng.normal(size=n)))
    found = treeleak.reconstruct(release, Schema([Binary(c) for c in names]), time_limit=AMPLE)
    assert found.status in ("unique", "feasible", "likely")
    draws = found.draws.counts
    points = np.array(np.meshgrid([0, 1], [0, 1])).reshape(2, -1).T.astype(float)
    worlds = []
    for number in range(4**n):
        rows = points[[number // 4**k % 4 for k in range(n)]]
        if all(
            np.array_equal(np.bincount(t.apply(rows), d, t.n_nodes)[t.leaves], t.totals[t.leaves])
            and np.array_equal(
                np.bincount(t.apply(rows), d > 0, t.n_nodes)[t.leaves], t.distinct[t.leaves]
            )
            for t, d in zip(release.trees, draws, strict=True)
        ):
            worlds.append(rows)
    # Where several tables meet the counts, rows may lie between them; one of them stands beside.
    own = found.most_likely[0] if found.status == "likely" else found.X
    assert any(np.array_equal(own.to_numpy(), w) for w in worlds)
    drawn = draws.any(axis=0)
    for k in np.flatnonzero(found.proved & drawn):
        own = {tuple(t.apply(w[[k]])[0] for t in release.trees) for w in worlds}
        assert len(own) == 1
    if found.status == "unique":
        cells = {tuple(tuple(t.apply(w)[drawn]) for t in release.trees) for w in worlds}
        assert len(cells) == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.slow
def test_audits_of_all_kinds(name, tmp_path):
    model, X, y = fitted(name)
    given_rows = {"X": X} if name == "isolation" else {"X": X, "y": y}
    for beside in ({}, given_rows):
        audit = treeleak.audit(model, schema=BITS, time_limit=AMPLE, **beside)
        for edition in ("internal", "releasable"):
            valid(json.loads(audit.to_json(edition=edition)))
        assert audit.reconstruction.n_rows == len(X)
        told = " ".join(f.text for f in audit.findings if f.part == "reconstruction")
        labelled = audit.reconstruction.y is not None
        assert ("class" in told) <= (labelled and hasattr(model, "classes_"))
        open_, y_told = dict(audit.not_assessed), audit.reconstruction.outcomes
        all_told = audit.reconstruction.status == "unique" and y_told.notna().all()
        assert ("reconstruction" in open_) == (name != "isolation" and not all_told)
        if beside:
            assert audit.measurement is not None


@pytest.mark.parametrize(
    ("name", "with_targets", "why"),
    [("tree", False, "no target was rebuilt"), ("ada", True, "the model has classes, not targets")],
)
def test_a_limit_on_targets_closes_the_gate_where_none_were_measured(name, with_targets, why):
    model, X, y = fitted(name)
    audit = treeleak.audit(model, X, y if with_targets else None, schema=BITS, time_limit=AMPLE)
    checks = {c.key: c for c in judge(audit, Policy("p", {"exact_targets": 1.0})).checks}
    assert checks["exact_targets"].state == "not assessed"
    assert checks["exact_targets"].found.startswith(why)


def test_rows_of_a_regression_in_order_have_no_class():
    model, X, y = fitted("forest")
    audit = treeleak.audit(model, X, y, schema=BITS, time_limit=AMPLE)
    assert audit.measurement.judged.in_order is not None
    page = render_html(audit, "internal")
    assert "the usual values " in page
    assert "usual values of the class" not in page


BOOSTED_ON_OTHERS = GradientBoostingClassifier(
    n_estimators=3, max_depth=2, init=LogisticRegression(), random_state=0
)
WITH_MORE = {
    "boosting that starts from another model": BOOSTED_ON_OTHERS,
    "weights of classes": AdaBoostClassifier(n_estimators=3),
    "means": DecisionTreeRegressor(max_depth=2),
    "means of draws": RandomForestRegressor(3, max_depth=2, random_state=0),
    "medians": DecisionTreeRegressor(max_depth=1, criterion="absolute_error"),
    "clipped means": DecisionTreeRegressor(max_depth=2, monotonic_cst=[1, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("kind", WITH_MORE)
def test_no_leak_is_not_said_where_the_file_holds_evidence_that_was_not_used(kind):
    X, y = people(60)
    classed = "boosting" in kind or "classes" in kind
    model = WITH_MORE[kind].fit(X, y > y.median() if classed else y)
    audit = treeleak.audit(model, schema=BITS, time_limit=20)
    assert audit.reconstruction.status in ("feasible", "likely")
    assert "holds more evidence" in dict(audit.not_assessed)["reconstruction"]
    assert audit.verdict != NO_LEAK
    gate = {
        check.key: check.state
        for check in judge(audit, Policy("any", limits={"leak_shown": False})).checks
    }
    assert gate["ended"] == "not assessed"


@pytest.mark.parametrize("kind", ["means", "medians"])
def test_the_only_rows_possible_say_nothing_of_targets_that_were_not_rebuilt(kind):
    X, y = people(200)
    X = X[["a", "b"]]
    model = clone(WITH_MORE[kind]).set_params(max_depth=2).fit(X, 3 * X["a"] + X["b"] + y / 7)
    audit = treeleak.audit(model, schema=Schema([Binary("a"), Binary("b")]), time_limit=20)
    assert audit.reconstruction.status == "unique"
    assert "holds more evidence" in dict(audit.not_assessed)["reconstruction"]
    assert audit.verdict != NO_LEAK


@pytest.mark.slow
def test_an_audit_counts_the_targets_that_leaves_store():
    model, X, y = fitted("tree")
    audit = treeleak.audit(model, X, y, schema=BITS, time_limit=AMPLE)
    told = int(audit.reconstruction.outcomes.notna().sum())
    assert f"Leaves store the targets of {told} of 24 rebuilt rows" in str(
        [f.text for f in audit.findings]
    )
    shown = json.loads(audit.to_json(edition="internal"))
    assert valid(shown)["reconstruction"]["status"] == audit.reconstruction.status


@pytest.mark.slow
def test_targets_are_measured_beside_their_rows():
    model, X, y = fitted("tree")
    found = treeleak.audit(model, X, y, schema=BITS, time_limit=AMPLE)
    told = found.reconstruction.outcomes.notna().mean()
    assert 0 < found.measurement.targets <= told
    assert f"The target of {found.measurement.targets:.0%}"[:-1] in str(
        [f.text for f in found.findings]
    )
    assert valid(json.loads(found.to_json(edition="releasable")))["measurement"]["targets"] > 0
    share, what = found.measurement.targets, "rebuilt with their exact target"
    checks = {c.key: c for c in judge(found, Policy("p", {"exact_targets": 0.0})).checks}
    assert checks["exact_targets"].state == "violated"
    assert checks["exact_targets"].found == percent(share, 1)
    # Rows have their own limits.
    assert "leak_shown" in checks
    console = Console(record=True, width=100)
    render(found, console)
    shown = console.export_text()
    assert re.search(f"{what} +{re.escape(percent(share))}", shown)
    assert what in render_html(found, "internal")
    # Other targets than those of training are none of them.
    rebuilt = found.reconstruction
    other = replace(rebuilt, y=rebuilt.y + 1000)
    truth = found.truth
    assert measure(other, truth, found.release, labels=y).targets == 0
    assert measure(rebuilt, truth, found.release).targets is None


@pytest.mark.slow
def test_labels_of_a_boosted_model_follow_from_its_sums_and_are_not_made_up():
    model, X, y = fitted("histogram")
    found = treeleak.reconstruct(model, BITS, time_limit=AMPLE)
    assert found.evidence.startswith("sums of the loss")
    assert found.proved.all()
    assert sorted(found.y) == sorted(y)
    # Of another loss, counts are all there is, and they tell no classes.
    release = to_release(model)
    bare = replace(release, ensemble=replace(release.ensemble, fitting=None))
    alone = treeleak.reconstruct(bare, BITS, time_limit=AMPLE)
    assert alone.y is None
    assert alone.label_confidence is None
    assert any("without labels" in note for note in alone.notes)
    assert valid(alone.to_dict(include_rows=True), "reconstruction")["rows"]["labels"] == []
    # Whoever knows the labels gives them, and they stand in the answer.
    known = pd.DataFrame({"label": np.arange(len(X)) % 2})
    beside = treeleak.reconstruct(model, BITS, time_limit=AMPLE, known_columns=known)
    assert beside.y.tolist() == known["label"].tolist()


@pytest.mark.slow
def test_hidden_draws_of_a_regression_forest():
    X, y = people(20, 7)
    model = RandomForestRegressor(10, random_state=0).fit(X, y)
    release = to_release(model)
    hidden = replace(release, sampling=replace(release.sampling, tree_seeds=(), forest_seed=None))
    found = treeleak.reconstruct(hidden, BITS, bootstrap="hidden", time_limit=10)
    assert found.status in ("likely", "unknown")
    assert found.y is None
    assert found.most_likely[1] is None
    assert found.n_rows == 20
    record = found.membership(X.head(3))
    assert ((record >= 0) & (record <= 1)).all()


@pytest.mark.slow
def test_files_and_pipelines_by_the_command_line(tmp_path):
    X, y = people(60, 9)
    frame = X.assign(t=np.where(X["f"] == 1, "red", np.where(X["e"] == 1, "green", "blue")))
    frame = frame.drop(columns=["e", "f"])
    before = make_column_transformer((OneHotEncoder(), ["t"]), remainder="passthrough")
    model = make_pipeline(before, HistGradientBoostingRegressor(max_iter=20, min_samples_leaf=2))
    path, out = tmp_path / "m.skops", tmp_path / "rows.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skops.io.dump(model.fit(frame, y), path)
    done = run("reconstruct", path, "--out", out, "--space", "input", "--time-limit", "20")
    assert "Targets: leaves disclose those of" in done.output
    rows = pd.read_csv(out)
    assert sorted(rows.columns) == sorted([*frame.columns, "target"])
    assert len(rows) == 60
    grown = DecisionTreeRegressor(random_state=0).fit(X, np.arange(60.0))
    skops.io.dump(grown, tmp_path / "t.skops")
    told = run(
        "reconstruct", tmp_path / "t.skops", "--out", tmp_path / "t.csv", "--time-limit", "9"
    )
    assert "Targets: leaves disclose those of" in told.output
    assert "target" in pd.read_csv(tmp_path / "t.csv").columns


def test_the_inventory_says_in_numbers_what_stands_in_a_file():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 9, 300), rng.normal(size=300), rng.integers(0, 2, 300)])
    y = X[:, 0] + rng.normal(size=300)
    model = HistGradientBoostingRegressor(max_iter=3, early_stopping=True, random_state=0)
    found = {e.what: e for e in take_inventory(snapshot(model.fit(X, y)), Context(270))}
    borders = found["borders of all values of the columns"]
    distinct = [len(np.unique(x)) for x in X[train_rows(model, 300)].T if len(np.unique(x)) < 255]
    assert f"In {len(distinct)} columns" in borders.told
    assert f"{sum(distinct):,} different ones in all and up to {max(distinct)}" in borders.told
    assert found["seed of the rows that were held back"].mark == "leaks"
    assert found["scores after each round"].told == "There is one after each of 4 rounds."
    assert found["gain of each split"].mark == "leaks"
    assert not any(e.unknown for e in found.values())
    # Without early stopping the seed tells nothing.
    plain = HistGradientBoostingRegressor(max_iter=3).fit(X, y)
    entries = take_inventory(snapshot(plain), Context(300))
    assert not any("held back" in e.what for e in entries)


def train_rows(model, n):
    from sklearn.model_selection import train_test_split

    return train_test_split(np.arange(n), test_size=0.1, random_state=model._random_seed)[0]


@pytest.mark.parametrize("name", MODELS)
def test_nothing_in_these_files_is_unknown(name):
    model, X, _ = fitted(name)
    entries = take_inventory(snapshot(model), Context(len(X)))
    assert not any(e.unknown for e in entries)
    assert any(e.mark == "leaks" and e.what == "rows in each node" for e in entries)
