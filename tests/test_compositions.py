"""Several models of one table in one file: attacked together where they can be, else each alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.older import frozen
from helpers.patient import AMPLE
from treeleak.auditing import Policy, judge
from treeleak.core.errors import NotCovered
from treeleak.reconstruction import run
from treeleak.reconstruction.folds import rows_of_folds, with_fold_rows
from treeleak.release import AllRows, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.sampling import Joined
from treeleak.verification.counts import check_rows

pytestmark = pytest.mark.usefixtures("short_walks_throughout")

N = 60
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.integers(0, 2, size=(N, 6)), columns=list("abcdef"))
y = (X["a"] ^ (X["b"] & X["c"]) ^ (RNG.random(N) < 0.2)).to_numpy().astype(int)
LABELS = np.array(["no", "yes"])[y]


def forest(seed=0, trees=8):
    return RandomForestClassifier(trees, random_state=seed)


def tree(seed=0):
    return DecisionTreeClassifier(max_depth=3, random_state=seed)


def linear():
    return LogisticRegression()


JOINED = {
    "two forests": lambda: VotingClassifier([("a", forest(1)), ("b", forest(2))]),
    "a forest and a tree": lambda: VotingClassifier([("a", forest()), ("b", tree())]),
    "stacked": lambda: StackingClassifier([("a", forest()), ("b", tree())], linear(), cv=2),
    "bagged": lambda: VotingClassifier([("a", BaggingClassifier(tree(), 5)), ("b", forest())]),
    "beside a linear one": lambda: VotingClassifier(
        [("a", linear()), ("b", forest()), ("c", forest(3))]
    ),
    "folds": lambda: CalibratedClassifierCV(forest(), cv=KFold(4)),
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize("labels", [y, LABELS], ids=["numbers", "texts"])
def test_the_training_rows_meet_all_counts_of_joined_models(name, labels):
    release = to_release(JOINED[name]().fit(X, labels))
    assert isinstance(release.sampling, Joined)
    assert len(release.trees) == sum(len(part.release.trees) for part in release.parts)
    assert release.n_rows == N
    draws = known_draws(release, seed_search=0).counts
    numbers = release.class_numbers(labels)
    assert check_rows(release, X.to_numpy(float), numbers, draws).misfit == 0
    # The check can fail.
    other = X.to_numpy(float)[::-1]
    assert check_rows(release, other, numbers, draws).misfit > 0


def test_models_that_saw_every_row_stay_without_draws():
    model = VotingClassifier([("a", tree(1)), ("b", ExtraTreesClassifier(3, random_state=0))])
    release = to_release(model.fit(X, y))
    assert isinstance(release.sampling, AllRows)
    assert check_rows(release, X.to_numpy(float), y).misfit == 0


def test_regressions_are_joined():
    parts = [("a", RandomForestRegressor(3, random_state=0)), ("b", RandomForestRegressor(2))]
    release = to_release(VotingRegressor(parts).fit(X, RNG.normal(size=N)))
    draws = known_draws(release, seed_search=0).counts
    assert check_rows(release, X.to_numpy(float), None, draws).misfit == 0


def scaled(scaler, seed=0):
    return make_pipeline(scaler, tree(seed))


APART = {
    "scaled and not": lambda: [scaled(StandardScaler()), tree(1)],
    "scaled in two ways": lambda: [scaled(StandardScaler()), scaled(MinMaxScaler((0, 3)), 1)],
    "filled in two ways": lambda: [
        scaled(SimpleImputer(strategy="constant", fill_value=v), v + 1) for v in (-1, 2)
    ],
    "by a step that nothing is known of": lambda: [
        scaled(FunctionTransformer(f), k) for k, f in enumerate((np.negative, np.asarray))
    ],
    "frozen": lambda: [frozen_in(lambda model: model), tree()],
    "a part of folds": lambda: [CalibratedClassifierCV(forest(), cv=KFold(2)), tree()],
    "frozen in a pipeline": lambda: [frozen_in(make_pipeline), tree()],
    "frozen in a vote": lambda: [
        frozen_in(lambda model: VotingClassifier([("inner", model)])),
        tree(),
    ],
    "frozen and calibrated": lambda: [frozen_in(CalibratedClassifierCV), tree()],
}


def frozen_in(outer):
    return outer(frozen(tree().fit(1 - X.to_numpy(), 1 - y)))


@pytest.mark.parametrize("name", APART)
def test_models_of_other_values_or_rows_are_not_joined(name):
    models = [(f"m{k}", model) for k, model in enumerate(APART[name]())]
    rows = X.to_numpy(float).copy()
    if name == "filled in two ways":
        rows[::7, 0] = np.nan
    release = to_release(VotingClassifier(models).fit(rows, y))
    places = {part.place for part in release.parts}
    assert not {"estimators_[0]", "estimators_[1]"} <= places


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 2), min_size=8, max_size=40), st.integers(3, 5), st.integers(0, 10**6)
)
def test_rows_of_folds_follow_from_their_labels(labels, k, seed):
    labels = np.array(labels + [0, 1, 2] * k)
    np.random.default_rng(seed).shuffle(labels)
    true = [rows for rows, _ in StratifiedKFold(k).split(labels, labels)]
    found = rows_of_folds([labels[rows] for rows in true], 3)
    for one, other in zip(found, true, strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_of_no_table_have_no_folds():
    labels = np.tile([0, 1], 20)
    seen = [labels[rows] for rows, _ in StratifiedKFold(4).split(labels, labels)]
    seen[1] = seen[1][::-1]
    with pytest.raises(NotCovered, match="do not agree"):
        rows_of_folds(seen, 2)


def test_the_models_of_all_folds_give_back_the_table_in_order():
    model = CalibratedClassifierCV(forest(trees=20), cv=4).fit(X, LABELS)
    found = treeleak.reconstruct(model)
    assert found.ordered
    assert found.misfit == 0
    assert any("4 folds" in note for note in found.notes)
    proved = found.proved.to_numpy()
    assert proved.mean() > 0.5
    assert (found.X[list(X)].to_numpy() == X.to_numpy())[proved].all()
    assert (found.y.to_numpy() == LABELS).all()


def test_labels_without_an_order_leave_the_folds_open():
    release = to_release(CalibratedClassifierCV(forest(), cv=3).fit(X, y))
    rows = treeleak.reconstruct(tree().fit(X, y))
    with pytest.raises(NotCovered, match="do not agree"):
        with_fold_rows(release, lambda *_, **__: rows, treeleak.core.clock.Clock(60))


def test_an_answer_of_one_model_comes_where_all_together_give_none(monkeypatch):
    model = VotingClassifier([("a", forest(trees=15)), ("b", forest(1))]).fit(X, y)
    release = to_release(model)
    one, two = release.parts
    # Counts of another table: together they are of none.
    other = to_release(forest(1).fit(X.to_numpy()[::-1], y))
    wrong = replace(two, release=replace(other, feature_names=release.feature_names))
    mixed = replace(release, trees=(*one.release.trees, *wrong.release.trees), parts=(one, wrong))
    found = treeleak.reconstruct(mixed, time_limit=AMPLE)
    assert found.status in ("unique", "feasible")
    assert any("alone" in note for note in found.notes)


def selected():
    inner = RandomForestClassifier(30, random_state=0)
    last = DecisionTreeClassifier(max_depth=1, min_samples_leaf=20)
    return make_pipeline(SelectFromModel(inner), last).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("with_rows", [False, True])
def test_a_forest_in_a_step_is_attacked(with_rows):
    rows = {"X": X, "y": y} if with_rows else {}
    audit = treeleak.audit(selected(), **rows, time_limit=30)
    assert audit.verdict == "leak shown"
    assert audit.others == ()
    (part,) = audit.parts
    assert part.place == "steps[0].selectfrommodel.estimator_"
    (finding,) = [f for f in audit.findings if f.code == "model_attacked_alone"]
    assert part.place in finding.text
    assert (part.audit.measurement is not None) == with_rows
    if with_rows:
        ruling = judge(audit, Policy("few", limits={"exact_rows": 0.95}))
        (check,) = [check for check in ruling.checks if check.key == "exact_rows"]
        assert check.state == "violated"
        assert "RandomForestClassifier" in check.found


@pytest.mark.slow
def test_each_class_against_the_rest_is_attacked():
    three = y + (X["d"] & X["e"]).to_numpy()
    model = OneVsRestClassifier(GradientBoostingClassifier(n_estimators=10)).fit(X, three)
    audit = treeleak.audit(model, X, three, time_limit=40)
    looked_at = {part.place for part in audit.parts}
    assert looked_at == {"estimators_[1]", "estimators_[2]"}
    assert audit.verdict == "leak shown"


@pytest.mark.slow
def test_models_of_folds_without_an_order_are_attacked_one_by_one(breaks):
    breaks(run, "with_fold_rows", NotCovered("no order"))
    model = CalibratedClassifierCV(forest(trees=15), cv=3).fit(X, y)
    audit = treeleak.audit(model, time_limit=30)
    assert len(audit.parts) == 3
    assert audit.verdict == "leak shown"
