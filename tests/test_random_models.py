"""What answers claim as proved about random models, and about those whose proofs were wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import treeleak
from experiments.benchmarks.random_models import faults, run
from experiments.benchmarks.random_settings import Trained, trained
from helpers.examples import seeds
from treeleak.core.errors import NotCovered
from treeleak.reconstruction.rows import _once_each
from treeleak.release import to_release
from treeleak.schema import Binary, Ordinal, Schema
from treeleak.side_information.known_tables import Filled

catboost = pytest.importorskip("catboost")
xgboost = pytest.importorskip("xgboost")


def fitted(model, X, y, **given):
    model.fit(X, y, **given)
    return Trained("", model, X, y, lambda rows: to_release(model).leaves(rows))


def bits(n, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.integers(0, 2, (n, columns)), columns=[f"c{j}" for j in range(columns)])


@pytest.mark.parametrize("weight", [[2.0] * 12, [1.0, 2.0, 3.0] * 4, [0.0, 2.0] * 6])
@pytest.mark.parametrize("library", ["xgboost", "catboost"])
def test_a_row_that_weighs_two_is_not_two_proved_rows(library, weight):
    X = bits(12)
    y = (4 * X.c0 + 2 * X.c1 + X.c2).astype(float)
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    model = (
        xgboost.XGBRegressor(n_estimators=3, n_jobs=1, min_child_weight=0, reg_lambda=0)
        if library == "xgboost"
        else catboost.CatBoostRegressor(iterations=5, depth=3, **quiet)
    )
    case = fitted(model, X, y, sample_weight=weight)
    schema = Schema([treeleak.Binary(c) for c in X])
    found = treeleak.reconstruct(model, schema, time_limit=10)
    assert found.status != "unknown"
    assert len(found.X) != len(X) or min(weight) == 0
    assert found.proved.any()
    assert not faults(found, case)
    assert any("weighs 2" in note for note in found.notes)


def test_a_row_that_weighs_two_is_not_two_proved_rows_of_classes_that_are_guessed():
    """Two rows of one leaf, of which nothing tells the classes, may be one of either class."""
    X = bits(30)
    y = np.random.default_rng(5).integers(0, 2, 30)
    weight = np.random.default_rng(6).choice([1.0, 2.0, 3.0], 30)
    model = catboost.CatBoostClassifier(
        iterations=1, depth=3, leaf_estimation_method="Gradient", verbose=0,
        allow_writing_files=False, thread_count=1,
    )  # fmt: skip
    case = fitted(model, X, y, sample_weight=weight)
    schema = Schema([treeleak.Binary(c) for c in X])
    known = X.assign(label=y)[:8].rename_axis("row")
    for given in ({}, {"known_rows": known}):
        found = treeleak.reconstruct(model, schema, time_limit=10, **given)
        assert found.proved.any()
        assert not faults(found, case)
        assert not found.X[found.proved][8 * len(given) :].duplicated().any()
        if given:
            # Whoever gave them knows that they are there, whatever else looks like them.
            assert found.proved[:8].all()
            assert (found.confidence[:8] == 1).all(axis=None)


def test_a_guessed_class_does_not_tell_a_row_from_its_copy():
    X = bits(40)
    release = to_release(DecisionTreeRegressor().fit(X, X.c0))  # c1 and c2 are not told apart
    table = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=float)
    label, proved = np.array([0, 1, 0, 1]), np.ones(4, dtype=bool)
    guessed = np.array([0.5, 0.5, 1.0, 1.0])
    rows = Filled(table, label, np.ones((4, 3)), np.ones((4, 3)), guessed, proved)
    found, copies = _once_each(rows, release, np.zeros(4, dtype=bool))
    assert found.proved.tolist() == [True, False, True, True]
    assert copies == 1
    assert (found.sure[1] < 1).all()
    # Beside a row whose class is certain, one whose class is guessed may be its copy.
    mixed = replace(rows, label_sure=np.array([0.5, 1.0, 1.0, 0.5]))
    assert _once_each(mixed, release, ~proved)[0].proved.tolist() == [False, True, True, False]
    assert _once_each(mixed, release, proved)[0].proved.all()


@pytest.mark.parametrize("library", ["xgboost", "catboost"])
def test_targets_are_not_proved_where_nothing_shows_that_rows_had_scores_of_their_own(library):
    X = pd.DataFrame([list(f"{k:04b}") for k in range(16)], columns=list("abcd")).astype(float)
    rng = np.random.default_rng(0)
    y, scores = (X @ [1.0, 2.0, 4.0, 8.0] + rng.normal(size=16)).round(2), rng.normal(size=16)
    schema = Schema([treeleak.Binary(c) for c in X])

    def answer(given, **fit):
        model = (
            xgboost.XGBRegressor(max_depth=6, n_jobs=1, reg_lambda=0, min_child_weight=0, **given)
            if library == "xgboost"
            else catboost.CatBoostRegressor(
                iterations=40, verbose=0, allow_writing_files=False, thread_count=1, **given
            )
        )
        case = fitted(model, X, y, **fit)
        found = treeleak.reconstruct(model, schema, time_limit=20)
        assert found.proved.all()
        assert not faults(found, case)
        shown = not any(note.code == "targets_minus_offsets" for note in found.notes)
        return shown, found.label_confidence

    own = "base_margin" if library == "xgboost" else "baseline"
    fixed = {"base_score": 0.3} if library == "xgboost" else {"boost_from_average": False}
    assert (answer({})[1] == 1).all()
    for given, fit in ((fixed, {}), (fixed, {own: scores})):
        shown, sure = answer(given, **fit)
        assert not shown
        assert (sure < 1).all()
        assert (sure > 0.9).all()
    # Else the file shows it: no targets, or, in CatBoost, whose average is then gone, none proved.
    _, sure = answer({}, **{own: scores})
    assert sure is None or (sure < 1).all()


@pytest.mark.slow
def test_rows_that_early_stopping_left_are_not_in_the_order_of_the_training_set():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.integers(0, 4, (40, 3)), columns=list("abc")).astype(float)
    y = X.a * 4 + X.b + rng.normal(size=40).round(1)
    settings = {"subsample": 0.8, "n_iter_no_change": 3, "validation_fraction": 0.3}
    model = GradientBoostingRegressor(n_estimators=10, max_depth=4, random_state=1, **settings)
    case = fitted(model, X, y)
    found = treeleak.reconstruct(model, time_limit=10)
    assert found.draws is not None
    assert found.proved.any()
    assert not found.ordered
    assert not faults(found, case)
    for given in ({"known_columns": X[["a"]][:28]}, {"known_rows": X[:3].rename_axis("row")}):
        with pytest.raises(NotCovered, match="another order"):
            treeleak.reconstruct(model, time_limit=10, **given)


def test_rows_that_weigh_two_and_are_drawn_once_are_no_contradiction():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 4, (48, 3)), columns=list("abc"))
    y = (X.a + X.b > 3) * 1
    model = GradientBoostingClassifier(n_estimators=3, subsample=0.5, random_state=0)
    model.fit(X, y, sample_weight=np.full(48, 2.0))
    with pytest.raises(NotCovered, match="weighted"):
        treeleak.reconstruct(model, time_limit=5)


def test_means_of_weighted_rows_are_no_sums_of_targets():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"c0": rng.integers(0, 2, 30), "c1": rng.integers(0, 5, 30)})
    y = rng.normal(size=30).round(2)
    weight = np.repeat([1.0, 3.0, 2.0], 10)
    case = fitted(DecisionTreeRegressor(min_samples_leaf=2), X, y, sample_weight=weight)
    found = treeleak.reconstruct(case.model, time_limit=10)
    assert found.misfit == 0
    assert not faults(found, case)
    plain = fitted(DecisionTreeRegressor(min_samples_leaf=2), X, y)
    assert treeleak.reconstruct(plain.model, time_limit=10).y_lower is not None


def test_ends_that_were_guessed_from_thresholds_are_open():
    X = pd.DataFrame({"c0": [-30, -20, -10, 0, 1, 2, 9], "c1": [0, 1, 0, 1, 0, 1, 0]})
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, min_child_weight=0, reg_lambda=0)
    case = fitted(model, X, [1.0, 5.0, 2.0, 9.0, 3.0, 4.0, 8.0])
    found = treeleak.reconstruct(model, time_limit=10)
    assert any(isinstance(a, Ordinal) for a in found.schema.attributes)
    assert not faults(found, case)
    assert np.isneginf(found.lower.c0).any()
    assert np.isposinf(found.upper.c0).any()
    told = Schema([Ordinal("c0", -30, 9), Ordinal("c1", 0, 1)])
    assert np.isfinite(treeleak.reconstruct(model, told, time_limit=10).lower.to_numpy()).all()


def test_wrong_proofs_are_found():
    """The benchmark's own check fails on rows that are not there, and on a false contradiction."""
    X = bits(12)
    model = xgboost.XGBClassifier(n_estimators=3, n_jobs=1, min_child_weight=0)
    case = fitted(model, X, (X.c0 + X.c1 > 0) * 1)
    found = treeleak.reconstruct(case.model, Schema([treeleak.Binary(c) for c in X]))
    assert not faults(found, case)
    other = Trained("", case.model, 0 * X, case.y, case.leaves)
    assert faults(found, other)


def test_values_of_an_untested_column_are_no_surer_to_be_missing_than_counts_say():
    """A test for missing values in one branch says nothing of the rows of the other."""
    c1 = [np.nan] * 24 + [1.0] * 6 + [np.nan] * 15 + [1.0] * 15
    X = pd.DataFrame({"c0": np.repeat([0, 1], 30), "c1": c1})
    y = (X.c0 == 0) & X.c1.isna()
    model = HistGradientBoostingClassifier(
        max_iter=1, min_samples_leaf=1, class_weight="balanced", early_stopping=False
    )
    case = fitted(model, X, y)
    schema = Schema([treeleak.Binary("c0"), treeleak.Binary("c1", missing=True)])
    found = treeleak.reconstruct(model, schema, time_limit=10)
    assert found.status == "feasible"
    assert not faults(found, case)
    assert case.model._predictors[0][0].nodes["feature_idx"][0] == 0
    missing, sure = found.X.c1.isna(), found.confidence.c1 == 1
    assert missing[found.X.c0 == 1].any()
    assert sure[missing & (found.X.c0 == 0)].all()
    assert not sure[found.X.c0 == 1].any()
    assert not sure[~missing].any()


@seeds(200, fast=2)
def test_no_proof_about_a_random_model_is_wrong(seeds):
    for outcome in map(run, seeds):
        assert outcome.end != "crash", outcome.said
        assert not outcome.wrong, (outcome.seed, outcome.model)


@pytest.mark.filterwarnings("ignore")  # settings that libraries give up
def test_random_models_are_of_all_libraries():
    made = []
    for seed in range(12):
        try:
            made.append(type(trained(seed).model).__module__.split(".")[0])
        except Exception:  # settings that do not go together, in each library's own words
            continue
    assert set(made) == {"sklearn", "xgboost", "lightgbm", "catboost"}


@pytest.mark.parametrize(
    ("seed", "library"), [(710, "catboost"), (1022, "lightgbm"), (1142, "sklearn")]
)
def test_what_was_once_proved_wrongly_is_not(seed, library):
    # Weights of two; a code for any other category; gaps that no test shows.
    pytest.importorskip(library)
    found = run(seed)
    assert found.end in ("feasible", "unique")
    assert not found.wrong


@pytest.mark.parametrize(
    "model",
    [
        HistGradientBoostingRegressor(early_stopping=True, min_samples_leaf=3),
        GradientBoostingRegressor(n_iter_no_change=3),
    ],
    ids=["histogram", "gradient"],
)
def test_rows_held_back_from_the_trees_are_not_among_those_that_an_answer_is_about(model):
    X = bits(21)
    case = fitted(model, X, X.c0 + 2.0 * X.c1)
    assert case.fitted == 18
    found = treeleak.reconstruct(case.model, time_limit=5)
    assert found.n_rows == 18
    assert not faults(found, case)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("weights", ["ones", "whole", "halves"])
def test_a_proof_about_people_that_rests_on_weights_is_a_possible_leak(weights, regression):
    """Two people of weight 1/2 look like one."""
    X = bits(60, columns=7, seed=3)
    rng = np.random.default_rng(4)
    y, weight = rng.integers(0, 2, 60), np.ones(60)
    if weights == "whole":
        weight = rng.choice([1, 2, 3], 60).astype(float)
    elif weights == "halves":
        X, y = pd.concat([X, X[:20]], ignore_index=True), np.append(y, y[:20])
        weight = np.r_[np.full(20, 0.5), np.ones(40), np.full(20, 0.5)]
    kind = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
    model = kind(n_estimators=30, min_child_weight=0, n_jobs=1).fit(X, y, sample_weight=weight)
    release, schema = to_release(model), Schema([Binary(c) for c in X])
    result = treeleak.audit(release, schema=schema, time_limit=20)
    assert result.reconstruction.weights_open
    assert result.verdict == "possible leak"
    if weights == "ones":
        sure = treeleak.audit(release, schema=schema, time_limit=20, n_rows=60)
        assert (sure.verdict, sure.reconstruction.weights_open) == ("leak shown", False)
