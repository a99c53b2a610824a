"""Studies of boosted models: their grids, what a run measures, and what is shown of runs."""

import json
import sys

import pandas as pd
import pytest

import treeleak
from experiments import boosted_models
from experiments.headline import boosted_models as headline
from experiments.headline import boosted_results, boosted_values
from experiments.studies import boosted, boosted_shown

SKLEARN = ("HistGradientBoosting", "GradientBoosting")


@pytest.fixture
def small(instead):
    """COMPAS as the package brings it, which is not downloaded."""
    own = treeleak.datasets.load_compas()
    instead("table", lambda _: own, boosted_models)


def point(**changed):
    return {**boosted.defaults_grid()[0], "model": "HistGradientBoosting", **changed}


def test_without_a_library_its_runs_are_left_out_and_the_extra_is_named(monkeypatch, capsys):
    for library in ("xgboost", "lightgbm", "catboost"):  # As where they are not installed.
        monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(boosted, "have_tables", lambda: None)
    for own in boosted.STUDIES:
        assert own.kept_as == "boosted-models"
        assert {p["model"] for p in own.grid(quick=False)} == set(SKLEARN)
        assert {p["model"] for p in own.grid(quick=True)} <= set(SKLEARN)
        assert {p["model"] for p in own.whole} == set(boosted.LIBRARIES)
    boosted.have_all()
    told = capsys.readouterr().err
    assert "xgboost" in told
    assert "treeleak[boosted]" in " ".join(told.split())


@pytest.mark.parametrize("model", SKLEARN)
def test_a_run_is_measured_beside_other_rows_and_random_ones(small, model):
    record = boosted.attack(point(model=model, n_rows=40, time_limit=10.0))
    json.dumps(record)
    assert record["right"] == 1.0
    assert record["wrong"] == 0
    assert 0 < record["others"] < 1
    assert 0 <= record["error"] < record["guess"]
    assert record["expected_error"] is not None
    assert record["library"]


def test_a_run_without_an_answer_is_a_record_too(small, instead):
    def refuse(*_, **__):
        raise treeleak.errors.TimeUp("too late")

    instead("reconstruct", refuse)
    record = boosted.attack(point(n_rows=40))
    assert record["status"] == "refused"
    assert record["notes"] == ["too late"]
    assert record["right"] is record["error"] is None
    assert record["guess"] > 0


def made(**changed):
    figures = dict.fromkeys(boosted_models.FIGURES, 0.5)
    return {
        **point(), **figures, "wrong": 0, "seconds": 1.0, "error": 0.1, "expected_error": 0.1,
        "guess": 0.2, "status": "feasible", "results_version": 1, **changed,
    }  # fmt: skip


@pytest.fixture
def runs():
    """Three sizes, one of them with a run without an answer; one setting; leaf values alone."""
    none = dict.fromkeys((*boosted_models.FIGURES, "error", "expected_error"))
    lines = [made(n_rows=n, seconds=n / 100) for n in (100, 300, 1000)]
    lines += [made(n_rows=1000, seed=1, **none, seconds=29.9)]
    swept = {"model": "XGBClassifier", "n_rows": 300}
    lines += [
        made(**swept, right=0.7),
        made(**swept, setting="subsample", value=0.5, **none),
        made(**swept, setting="max_depth", value=2, right=0.25),
        made(setting=boosted_models.VALUES_ALONE, n_rows=1000, right=1.0),
        made(setting=boosted_models.VALUES_ALONE, n_rows=1000, seed=1, **none),
    ]
    return pd.DataFrame(lines)


def test_means_are_over_answers_and_say_how_many_are_missing(runs):
    plain = runs[runs.setting == boosted.DEFAULT]
    by_rows, _ = (t.frame for t in boosted_shown.by_rows(plain))
    settings, values = (t.frame for t in boosted_shown.by_setting(runs))
    last = by_rows[(by_rows.rows == 1000)].iloc[0]
    assert (last.right, last["no answer"], last.runs) == (0.5, 1, "2 of 5")
    plain = plain.assign(
        error=[0.1, 0.1, 0.2, None, 0.0], expected_error=0.1, proved=[0, 0, 0, 0, 1]
    )
    calibration = boosted_shown.by_rows(plain)[1].frame.set_index("model")
    assert calibration.loc["all", "runs not proved"] == 3
    assert calibration.loc["all", "expected / true"] == pytest.approx(0.3 / 0.4)
    assert settings["compas, right"].tolist() == [0.7, 0.25, 0.7, "refused"]
    assert settings["adult, right"].isna().all()
    assert values["no answer"].tolist() == [1]
    assert values["left"].tolist() == [boosted_models.VALUES_ALONE]


def test_headline_tables_round_no_share_up_to_all():
    lines = [
        made(model=m, table=t, n_rows=1000, right=r)
        for t in boosted.DATASETS
        for m, r in (("XGBClassifier", 1.0), ("GradientBoosting", 0.9999))
    ]
    runs = pd.DataFrame(
        [*lines, made(setting=boosted_models.VALUES_ALONE, n_rows=1000, right=None)]
    )
    assert headline(runs)["adult"].tolist() == ["99.9 %, 1.0 s", "100 %, 1.0 s", "50.0 %"]
    assert boosted_results(runs).right.tolist() == ["99.9 %"] * 3 + ["100 %"] * 3
    assert boosted_values(runs).iloc[0, 3] == "no answer"
