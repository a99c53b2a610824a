"""Shadow models: whether models trained in the same way tell who was among their rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.documents import valid
from treeleak.auditing.assessors.shadow_models import MATERIAL
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, POSSIBLE
from treeleak.auditing.findings.verdict import of_auc
from treeleak.core.errors import BadInput, NotCovered
from treeleak.learn.confidence import of_model, of_trees
from treeleak.learn.refit import refit_of
from treeleak.metrics.inference import Interval
from treeleak.metrics.membership import Bounded, auc
from treeleak.metrics.shadow_models import (
    ShadowScore,
    at_full_size,
    direct,
    halves,
    left_out_of,
    scored,
)
from treeleak.release import snapshot, to_release


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 5)).round(2), columns=list("abcde"))
    y = (X["a"] + rng.normal(size=n) > 0).astype(int)
    return X, y


def test_scores_that_do_not_depend_on_members_tell_nobody():
    """Over many tables, the interval holds a half about as often as it promises."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        _, inside = halves(np.zeros(120), 60, 4, rng)
        # People differ in how easy they are, and models in how sure they are.
        easy, sure = rng.normal(size=120), rng.normal(size=8)
        found = scored(easy + sure[:, None] + rng.normal(size=(8, 120)), inside)
        held += found.auc.interval.low <= 0.5 <= found.auc.interval.high
    assert held >= 178  # Of 200 with 95 %, fewer by chance once in a thousand times.


def test_people_outside_are_no_more_certain_than_members():
    """Skewed scores that tell nothing tell nothing, though fewer models left out each member."""
    rng = np.random.default_rng(0)
    pairs, n = 4, 400
    above = []
    for _ in range(40):
        scores = -(rng.exponential(size=(2 * pairs, 2 * n)) ** 3)
        _, inside = halves(np.zeros(n), n // 2, pairs, rng)
        members = np.where(inside, 0.0, scores[:, :n]).sum(axis=0) / pairs
        difficulty = np.concatenate([members, left_out_of(scores[:, n:], rng)])
        target = -(rng.exponential(size=2 * n) ** 3) - difficulty
        above.append(direct(target[:n], target[n:], 2 * pairs).auc.value)
    assert abs(np.mean(above) - 0.5) < 4 * np.std(above) / np.sqrt(len(above))


@pytest.mark.parametrize(("shift", "low", "high"), [(-9.0, 0.0, 0.02), (9.0, 0.98, 1.0)])
def test_none_or_all_of_the_members_caught_leave_an_interval(shift, low, high):
    """The rule of three: of 200 people none means up to about three."""
    people = np.linspace(0, 1, 200)
    caught = direct(people + shift, people, 0).caught
    assert low <= caught.interval.low < caught.interval.high <= high
    assert caught.value in (caught.interval.low, caught.interval.high)


def score(rows, low, value, high):
    return ShadowScore(rows, 4, Bounded(value, Interval(low, high)), None)


def test_smaller_models_bound_that_of_all_rows():
    sizes = [score(100, 0.7, 0.8, 0.9), score(200, 0.6, 0.7, 0.8)]
    assert at_full_size(sizes, 400) is sizes[-1].auc
    full = at_full_size(sizes, 1600)
    # Two doublings from 200 to half of the rows, each of which may halve the excess over chance or
    # more: by the ends of the intervals, to a quarter.
    assert full.interval.low == pytest.approx(0.5 + 0.1 * 0.25**2)
    assert full.interval.high == 0.8
    assert at_full_size(sizes[:1], 1600) is None
    assert at_full_size([], 1600) is None


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.6, 0.7, LEAK), (0.5, 0.59, NO_LEAK), (0.55, 0.65, POSSIBLE), (0.45, 0.65, None)],
)
def test_membership_is_disclosed_where_the_interval_says_so(low, high, verdict):
    assert of_auc(Bounded(low, Interval(low, high))) == verdict
    assert of_auc(None) is None
    assert MATERIAL == 0.6


@pytest.mark.slow
def test_a_default_forest_tells_its_members_and_large_leaves_do_not():
    X, y = people(160)
    verdicts = {}
    for leaf in (1, 40):
        model = RandomForestClassifier(20, min_samples_leaf=leaf, random_state=0).fit(X, y)
        audit = treeleak.audit(model, X, y, time_limit=2)
        found = next(f for f in audit.findings if f.part == "membership")
        verdicts[leaf] = found.verdict
        document = audit.to_dict()["shadows"]
        assert document["sizes"][0]["rows"] == 80
        assert document["trained"] == "RandomForestClassifier"
    assert verdicts[1] == "leak shown"
    assert verdicts[40] != "leak shown"


@pytest.mark.slow
def test_rows_that_are_not_the_models_say_nothing_of_it():
    X, y = people(160)
    model = DecisionTreeClassifier().fit(X, y)
    other, labels = people(160, 1)
    audit = treeleak.audit(model, other, labels, time_limit=10, on_mismatch="report")
    assert audit.mismatch is not None
    assert not any(f.part == "membership" for f in audit.findings)


@pytest.mark.parametrize("make", [
    lambda: make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["kind"]),
                                remainder="passthrough"),
        ExtraTreesClassifier(5),
    ),
    lambda: CalibratedClassifierCV(RandomForestClassifier(5), cv=3),
    lambda: GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, None]}, cv=3),
    lambda: HistGradientBoostingClassifier(max_iter=5),
    lambda: GradientBoostingRegressor(n_estimators=5),
])  # fmt: skip
def test_the_same_seed_trains_the_same_models_and_leaves_global_draws_alone(make):
    X, y = people(120)
    model = make()
    if hasattr(model, "steps"):
        X = X.assign(kind=np.where(X["b"] > 0, "u", "v"))
    model.fit(X, y)
    refit = refit_of(model, None)
    np.random.seed(0)  # noqa: NPY002
    drawn = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    chosen = np.arange(60)
    first, again = (refit.scores(X, y.to_numpy(), chosen, 7) for _ in range(2))
    assert np.array_equal(first, again)
    assert np.random.random() == drawn  # noqa: NPY002
    assert np.isfinite(first).all()
    assert len(first) == 120


def test_the_trees_of_a_file_are_trained_again_by_their_settings():
    X, y = people(120)
    model = RandomForestClassifier(7, max_depth=3, min_samples_leaf=2, random_state=1).fit(X, y)
    stored = snapshot(model)
    refit = refit_of(None, stored, to_release(stored))
    made = refit.make(5)
    assert refit.like is not None
    wanted = model.get_params() | {"random_state": 5}
    assert made.get_params() == wanted


@pytest.mark.parametrize(("model", "why"), [
    (CalibratedClassifierCV(DecisionTreeClassifier(), cv="prefit"), "fitted before"),
    (object(), "cannot be cloned"),
])  # fmt: skip
def test_what_cannot_be_trained_again_says_why(model, why):
    with pytest.raises(NotCovered, match=why):
        refit_of(model, None)


def test_settings_of_a_file_take_no_more_than_its_trees_and_name_no_paths():
    X, y = people(60)
    stored = snapshot(RandomForestClassifier(3, max_depth=2).fit(X, y))
    release = to_release(stored)
    stored = replace(stored, state=stored.state | {
        "criterion": "../../somewhere", "n_estimators": 10**9, "class_weight": {0: 1},
        "max_leaf_nodes": 10**6, "max_depth": 10**9,
    })  # fmt: skip
    made = refit_of(None, stored, release).make(0)
    assert (made.n_estimators, made.criterion, made.class_weight) == (3, "gini", None)
    assert made.max_leaf_nodes <= 4
    assert made.max_depth is None


def test_settings_that_do_not_make_such_trees_are_refused():
    """A file may state large leaves that its trees do not have."""
    X, y = people(160)
    stored = snapshot(RandomForestClassifier(10, random_state=0).fit(X, y))
    release = to_release(stored)
    labels, half = y.to_numpy(), np.arange(0, 160, 2)
    assert len(refit_of(None, stored, release).scores(X, labels, half, 0)) == 160
    stored.state["max_leaf_nodes"] = 2
    stated = refit_of(None, stored, replace(release, trees=release.trees * 3))
    with pytest.raises(NotCovered, match="another size"):
        stated.scores(X, labels, half, 0)


OTHERS = ["xgboost", "lightgbm", "catboost"]


def models_of(library, target):
    """Models of a library for classes ("two", "three") or numbers."""
    if library == "sklearn":
        return {
            "number": [
                RandomForestRegressor(9, min_samples_leaf=3), GradientBoostingRegressor(),
                HistGradientBoostingRegressor(max_iter=9),
            ],
            "two": [
                RandomForestClassifier(9), ExtraTreesClassifier(9, max_depth=4),
                GradientBoostingClassifier(n_estimators=9), BaggingClassifier(n_estimators=9),
                HistGradientBoostingClassifier(max_iter=9),
            ],
            "three": [
                RandomForestClassifier(9, min_samples_leaf=4, class_weight="balanced"),
                HistGradientBoostingClassifier(max_iter=9),
            ],
        }[target]  # fmt: skip
    module = pytest.importorskip(library, reason=f"needs {library}")
    kind = {"xgboost": "XGB", "lightgbm": "LGBM", "catboost": "CatBoost"}[library]
    quiet = {"catboost": {"verbose": 0, "allow_writing_files": False}, "lightgbm": {"verbose": -1}}
    name = kind + ("Regressor" if target == "number" else "Classifier")
    return [getattr(module, name)(n_estimators=9, **quiet.get(library, {}))]


@pytest.mark.parametrize("target", ["two", "three", "number"])
@pytest.mark.parametrize("library", ["sklearn", *OTHERS])
def test_trees_of_a_file_are_as_sure_as_the_model_itself(library, target):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    z = X[:, 0] + rng.normal(size=200)
    y = {"two": (z > 0).astype(int), "three": np.digitize(z, [-0.5, 0.5]), "number": z}[target]
    for model in models_of(library, target):
        sure = of_model(model.fit(X, y), X, y)
        assert len(np.unique(sure.round(9))) > 5
        if (library, target) == ("catboost", "three"):
            with pytest.raises(NotCovered, match="come to a prediction"):
                of_trees(to_release(model), X, y)
        else:
            assert of_trees(to_release(model), X, y) == pytest.approx(sure, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("live", "seed"), [(True, 0), (False, 1)])
def test_labelled_control_rows_let_the_model_itself_be_attacked(live, seed):
    X, y = people(700, seed)
    X, others, y, labels = X[:300], X[300:], y[:300], y[300:]
    model = RandomForestClassifier(40, random_state=seed).fit(X, y)
    source = model if live else snapshot(model)
    found = treeleak.audit(source, X, y, control=others, control_y=labels, time_limit=2)
    direct = found.shadows.direct
    assert (direct.members, direct.others) == (300, 400)
    assert direct.models == found.shadows.sizes[-1].models
    # Without difficulty: how the library itself would be attacked.
    sure = [of_model(model, rows, np.asarray(t)) for rows, t in ((X, y), (others, labels))]
    assert direct.auc.value > auc(*sure).value - 0.01
    assert found.shadows.auc == direct.auc
    assert found.shadows.auc.interval.low > 0.7
    (finding,) = (f for f in found.findings if f.part == "membership")
    assert finding.verdict == LEAK
    assert "own predictions tell training rows from control rows" in found.to_html()
    valid(found.to_dict(), "audit")


@pytest.mark.slow
def test_predictions_that_learned_nobody_tell_nobody():
    X, y = people(900)
    model = DecisionTreeClassifier(max_depth=2, min_samples_leaf=60).fit(X[:300], y[:300])
    found = treeleak.audit(
        model, X[:300], y[:300], control=X[300:], control_y=y[300:], time_limit=2
    )
    assert found.shadows.auc.interval.low < 0.55
    assert of_auc(found.shadows.auc) != LEAK


def test_labels_of_control_rows_are_one_for_each():
    X, y = people(100)
    model = RandomForestClassifier(3).fit(X[:50], y[:50])
    with pytest.raises(BadInput, match="without these"):
        treeleak.audit(model, X[:50], y[:50], control_y=y[50:])
    with pytest.raises(BadInput, match="49 labels of 50 control rows"):
        treeleak.audit(model, X[:50], y[:50], control=X[50:], control_y=y[51:])
