"""Fitted tree models beside the one that is attacked: named, counted, and the verdict is open."""

import functools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.impute import IterativeImputer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.cli import run
from helpers.gate import PARTS, Lab, tried
from treeleak.auditing import Policy, judge
from treeleak.auditing.assessors.counts import of_trees
from treeleak.auditing.case import AuditRequest, AuditResults, Case
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, Finding
from treeleak.auditing.findings.verdict import find, overall
from treeleak.auditing.inventory.other_models import other_models
from treeleak.auditing.prepare import prepare_case
from treeleak.core.clock import Clock
from treeleak.core.errors import NotCovered
from treeleak.core.message import Audience, static_message
from treeleak.release import snapshot, to_release

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

N = 80
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
y = (X["a"] + RNG.normal(size=N) > 0).astype(int).to_numpy()
BOTH = np.c_[y, 1 - y]


def forest():
    return RandomForestClassifier(3, random_state=0)


def stump():
    return DecisionTreeClassifier(max_depth=1, min_samples_leaf=20)


def boosting():
    return GradientBoostingClassifier(n_estimators=2)


def before(step):
    return make_pipeline(step, stump()).fit(X, y)


def with_own(name, value):
    model = stump().fit(X, y)
    setattr(model, name, value)
    return model


def fitted():
    return forest().fit(X, y)


def searched():
    search = GridSearchCV(stump(), {"max_depth": [1]}, cv=2).fit(X, y)
    search.estimator = fitted()
    return search


SELECTED = "steps[0].selectfrommodel.estimator_"
MODELS = {
    "selected": (lambda: before(SelectFromModel(forest())), {SELECTED: 3}),
    "eliminated": (lambda: before(RFE(forest(), step=2)), {"steps[0].rfe.estimator_": 3}),
    "a union": (
        lambda: before(FeatureUnion([("p", "passthrough"), ("s", SelectFromModel(forest()))])),
        {"steps[0].featureunion.transformer_list[1].s.estimator_": 3},
    ),
    "some columns": (
        lambda: before(ColumnTransformer([("s", SelectFromModel(forest()), ["a", "b"])])),
        {"steps[0].columntransformer.transformers_[0].s.estimator_": 3},
    ),
    "embedded": (
        lambda: before(RandomTreesEmbedding(2, random_state=0)),
        {"steps[0].randomtreesembedding": 2},
    ),
    "voting": (
        lambda: VotingClassifier([("a", forest()), ("b", boosting())]).fit(X, y),
        {"estimators_[1]": 2},
    ),
    "bagging of forests": (
        lambda: BaggingClassifier(forest(), 2).fit(X, y),
        {"estimators_[0]": 3, "estimators_[1]": 3},
    ),
    "base of a bagging": (
        lambda: BaggingClassifier(DecisionTreeClassifier().fit(X, y), 2).fit(X, y),
        {"estimator": 1},
    ),
    "start of a boosting": (
        lambda: GradientBoostingClassifier(init=forest(), n_estimators=2).fit(X, y),
        {"init": 3},
    ),
    "search": (searched, {"estimator": 3}),
    "calibrated": (
        lambda: CalibratedClassifierCV(stump(), cv=2).fit(X, y),
        {f"calibrated_classifiers_[{k}].estimator": 1 for k in range(2)},
    ),
    "attribute": (lambda: with_own("backup", fitted()), {"backup": 3}),
    "in containers": (lambda: with_own("backup", ({"x": [fitted()]},)), {"backup[0].x[0]": 3}),
    "array of objects": (
        lambda: with_own("backup", np.array([None, fitted()], dtype=object)),
        {"backup[1]": 3},
    ),
    "a second tree": (lambda: with_own("other_", fitted().estimators_[0].tree_), {"other_": None}),
    "nodes alone": (
        lambda: with_own("other", fitted().estimators_[0].tree_.__getstate__()),
        {"other.nodes": None},
    ),
}
MORE = {
    "a partial function": lambda: with_own("backup", functools.partial(print, fitted())),
    "eliminated by folds": lambda: before(RFECV(forest(), cv=2)),
    "imputed": lambda: before(IterativeImputer(RandomForestRegressor(2), max_iter=1)),
    "stacking": lambda: StackingClassifier([("a", forest())], forest(), cv=2).fit(X, y),
    "one against the rest": lambda: OneVsRestClassifier(forest()).fit(X, y + (X["b"] > 0)),
    "chain": lambda: ClassifierChain(forest()).fit(X, BOTH),
    "several outputs": lambda: MultiOutputClassifier(forest()).fit(X, BOTH),
    "target": lambda: TransformedTargetRegressor(RandomForestRegressor(2)).fit(X, y),
}
ALONE = {
    "tree": lambda: stump().fit(X, y),
    "forest": fitted,
    "random trees": lambda: ExtraTreesClassifier(3).fit(X, y),
    "bagging": lambda: BaggingClassifier(stump(), 2).fit(X, y),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=2).fit(X, y),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=2).fit(X, y),
    "by errors": lambda: AdaBoostClassifier(stump(), n_estimators=2).fit(X, y),
    "isolation": lambda: IsolationForest(n_estimators=2).fit(X),
    "search": lambda: GridSearchCV(forest(), {"max_depth": [1, 2]}, cv=2).fit(X, y),
    "selected in turn": lambda: before(
        SequentialFeatureSelector(stump(), n_features_to_select=2, cv=2)
    ),
    "calibrated": lambda: CalibratedClassifierCV(forest(), ensemble=False, cv=2).fit(X, y),
    "the same tree again": lambda: with_tree(stump().fit(X, y)),
}


def with_tree(model):
    model.again = model.tree_
    return model


def others_of(stored):
    try:
        release = to_release(stored)
    except NotCovered:
        release = None
    return other_models(stored, release)


def told(stored):
    return {o.place: None if o.release is None else len(o.release.trees) for o in others_of(stored)}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_beside_the_one_attacked_is_named_with_its_place(name):
    make, expected = MODELS[name]
    assert told(snapshot(make())) == expected


@pytest.mark.slow
@pytest.mark.each
@pytest.mark.parametrize("name", MORE)
def test_more_that_holds_fitted_models(name):
    assert others_of(snapshot(MORE[name]()))


@pytest.mark.parametrize("name", ALONE)
def test_what_was_attacked_is_no_other_model(name):
    assert told(snapshot(ALONE[name]())) == {}


def begun_with(model):
    given = AuditRequest(
        X=None, y=None, schema=None, seed=0, bootstrap="auto", seed_search=0,
        beside={"known_rows": None, "known_columns": None, "population": None},
        n_rows=None, control=None, threshold=10, sensitive=(), groups=(), trust_pickle=False,
        progress=None,
    )  # fmt: skip
    return prepare_case(Case(given, Clock(60), snapshot(model), AuditResults()))


def test_leaves_of_other_models_count_as_small():
    model = before(SelectFromModel(forest()))
    inner = treeleak.auditing.assessors.counts.count_leaves(to_release(model[0].estimator_)).total
    total = of_trees(begun_with(model)).found.counts.total
    assert total["small"] == inner["small"] > 0
    assert total["leaves"] == inner["leaves"] + 2
    bare = of_trees(begun_with(MODELS["a second tree"][0]())).found.counts.total
    assert bare["small"] > 0


def test_the_verdict_is_open_unless_a_leak_is_shown():
    case = of_trees(begun_with(before(SelectFromModel(forest()))))
    findings = find(case.found)
    (own,) = [f for f in findings if f.code == "models_not_attacked"]
    assert (own.part, own.verdict) == ("inventory", OPEN)
    assert f"{SELECTED} (RandomForestClassifier" in own.text
    none = Finding("reconstruction", NO_LEAK, (static_message("nothing"),))
    leak = Finding("reconstruction", LEAK, (static_message("rows"),))
    assert overall([*findings, none]) == OPEN
    assert overall([*findings, none, leak]) == LEAK
    alone = find(of_trees(begun_with(stump().fit(X, y))).found)
    assert overall([*alone, none]) == NO_LEAK


def test_names_that_somebody_chose_are_not_repeated_to_others():
    (found,) = [
        f for f in find(begun_with(with_own("Zeno_0293", fitted())).found) if "not_att" in f.code
    ]
    assert "Zeno_0293" in found.text
    assert "Zeno_0293" not in json.dumps(found.to_dict(Audience(10)))


def test_no_policy_is_met():
    limits = {"exact_rows": 1.0, "unknown_parts": 100}
    audit = treeleak.audit(stump().fit(X, y), time_limit=1)
    audit = replace(audit, others=others_of(snapshot(searched())))
    ruling = judge(audit, Policy("all", limits=limits))
    (ended,) = [check for check in ruling.checks if check.key == "ended"]
    assert ended.state == "not assessed"
    assert "no attack looked at" in ended.found


@pytest.mark.parametrize(
    ("library", "inside"),
    [
        ("xgboost", False),
        *(
            pytest.param(*one, marks=(pytest.mark.slow, pytest.mark.each))
            for one in [("lightgbm", False), ("lightgbm", True), ("xgboost", True), ("catboost", 1)]
        ),
    ],
)
def test_harden_refuses_archives_of_other_libraries(library, inside, tmp_path):
    module = pytest.importorskip(library)
    quiet = {"lightgbm": {"verbose": -1}, "catboost": {"verbose": 0, "allow_writing_files": False}}
    name = {"lightgbm": "LGBM", "xgboost": "XGB", "catboost": "CatBoost"}[library]
    own = getattr(module, f"{name}Classifier")(n_estimators=2, **quiet.get(library, {}))
    model = before(SelectFromModel(own)) if inside else own.fit(X, y)
    file = tmp_path / "model.skops"
    skops.io.dump(model, file)
    found = run("harden", file, "--out", tmp_path / "out.skops", "--time-limit", "5")
    assert found.exit_code == 2
    assert f"holds a model of {library}" in found.stderr
    assert "save_model" in found.stderr
    assert not (tmp_path / "out.skops").exists()


@pytest.mark.slow
@pytest.mark.each
@pytest.mark.parametrize("name", PARTS)
def test_the_gate_is_shut(name, tmp_path):
    found = tried(name, PARTS[name], Lab(tmp_path, 60), time_limit=20)
    assert (found.status, found.verdict in ("not assessed", "leak shown")) == (4, True), found
