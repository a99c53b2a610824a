"""Studies of boosted models: their grids, what a run measures, and what is shown of runs."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import treeleak
from experiments import STUDIES, boosted_models
from experiments.headline import boosted_models as headline
from experiments.headline import boosted_results, boosted_states, boosted_values
from experiments.overview import overview
from experiments.standing import Standing
from experiments.studies import boosted, boosted_raw, boosted_shown
from experiments.study import AHEAD, BEHIND, OWN, no_figures
from toy_study import study

SKLEARN = ("HistGradientBoosting", "GradientBoosting")


@pytest.fixture
def small(monkeypatch):
    """COMPAS as the package brings it, which is not downloaded."""
    own = treeleak.datasets.load_compas()
    monkeypatch.setattr(boosted_models, "table", lambda _: own)


def point(**changed):
    return {**boosted.defaults_grid()[0], "model": "HistGradientBoosting", **changed}


def test_a_stopped_study_is_a_fair_part():
    grid = boosted.growth_grid()
    assert len({tuple(p.items()) for p in grid}) == len(grid)
    assert grid[: 5 * 45] == boosted.defaults_grid()
    first = grid[:45]
    assert {(p["model"], p["table"], p["n_rows"]) for p in first} == {
        (m, t, n) for m in boosted.LIBRARIES for t in boosted.DATASETS for n in boosted.SMALL
    }
    assert {p["seed"] for p in first} == {0}
    assert ("compas", 10_000) not in {(p["table"], p["n_rows"]) for p in grid}


def test_no_run_changes_a_parameter_to_its_default():
    grid = boosted.settings_grid()
    shared = {str(p) for p in boosted.defaults_grid()}
    assert sum(str(p) in shared for p in grid) == 4
    for p in grid:
        swept = boosted.SETTINGS.get(p["model"], {}).get(p["setting"])
        assert swept is None or p["value"] in swept[1:]


def test_each_seed_of_the_raw_study_runs_before_the_next():
    grid = boosted_raw.whole_grid()
    assert [p["seed"] for p in grid] == sorted(p["seed"] for p in grid)
    assert {p["model"] for p in grid if p["seed"]} == {"XGB"}
    assert len(grid) == 5 * 3 + 5 * 2


def test_without_a_library_its_runs_are_left_out_and_the_extra_is_named(monkeypatch, capsys):
    def only_sklearn(name):
        return name == "sklearn" or None

    monkeypatch.setattr("experiments.attempt.find_spec", only_sklearn)
    monkeypatch.setattr(boosted, "have_tables", lambda: None)
    monkeypatch.setattr(boosted_raw, "TABLES", dict.fromkeys(boosted_raw.SIZES, lambda: None))
    assert {p["model"] for p in boosted_raw.quick_grid()} == {"HistGB"}
    for own in boosted.STUDIES:
        assert own.kept_as == "boosted-models"
        assert {p["model"] for p in own.grid(quick=False)} == set(SKLEARN)
        assert {p["model"] for p in own.grid(quick=True)} <= set(SKLEARN)
        assert {p["model"] for p in own.whole} == set(boosted.LIBRARIES)
    for check in (boosted.have_all, boosted_raw.have_all):
        check()
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


def test_a_run_without_an_answer_is_a_record_too(small, monkeypatch):
    def refuse(*_, **__):
        raise treeleak.errors.TimeUp("too late")

    monkeypatch.setattr(boosted_models.treeleak, "reconstruct", refuse)
    record = boosted.attack(point(n_rows=40))
    assert record["status"] == "refused"
    assert record["notes"] == ["too late"]
    assert record["right"] is record["error"] is None
    assert record["guess"] > 0


def test_settings_reach_the_model(small):
    case = boosted_models.Case("GradientBoosting", "compas", 40, 0, 5.0)
    release, *_ = boosted_models.trained(case, {"n_estimators": 7})
    assert len(release.trees) == 7
    drawn = boosted._given(
        point(model="LGBMClassifier", setting="subsample", value=0.5, n_rows=300)
    )
    assert drawn == {"subsample": 0.5, "subsample_freq": 1}
    # Where rows were drawn, and the file does not say which, the attack is told nothing.
    silent = SimpleNamespace(sampling=SimpleNamespace(kind="unknown"))
    assert boosted_models._sampling(case, silent, {}) == "none"
    assert boosted_models._sampling(case, silent, drawn) == "auto"
    unknown = boosted._given(point(setting=boosted_models.VALUES_ALONE))
    assert unknown == {}


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
    by_rows, _, _ = (t.frame for t in boosted_shown.by_rows(plain))
    (growth,) = (t.frame for t in boosted_shown.growth(plain))
    settings, values = (t.frame for t in boosted_shown.by_setting(runs))
    last = by_rows[(by_rows.rows == 1000)].iloc[0]
    assert (last.right, last["no answer"], last.runs) == (0.5, 1, "2 of 5")
    plain = plain.assign(
        error=[0.1, 0.1, 0.2, None, 0.0], expected_error=0.1, proved=[0, 0, 0, 0, 1]
    )
    calibration = boosted_shown.by_rows(plain)[1].frame.set_index("model")
    assert calibration.loc["all", "runs not proved"] == 3
    assert calibration.loc["all", "expected / true"] == pytest.approx(0.3 / 0.4)
    line = growth[growth.model == "HistGradientBoosting"].iloc[0]
    # The run that its limit ended takes its size out: two are left, too few to fit.
    assert line.exponent is None or np.isnan(line.exponent)
    assert line["runs ended by their limit"] == 1
    assert settings["compas, right"].tolist() == [0.7, 0.25, 0.7, "refused"]
    assert settings["adult, right"].isna().all()
    assert values["no answer"].tolist() == [1]
    assert values["left"].tolist() == [boosted_models.VALUES_ALONE]


def test_growth_is_fitted_where_no_limit_ended_a_run(runs):
    plain = runs[(runs.setting == boosted.DEFAULT) & (runs.seed == 0)]
    large = pd.DataFrame([made(n_rows=3000, seconds=30.0, time_limit=60.0)])
    growth, beside = boosted_shown.growth(pd.concat([plain, large], ignore_index=True))
    line = growth.frame[growth.frame.model == "HistGradientBoosting"].iloc[0]
    assert line.exponent == pytest.approx(1.0)
    assert beside.frame.rows.tolist() == [3000]


def test_a_part_of_the_runs_can_be_shown(runs):
    assert [t.name for t in boosted_shown.by_setting(runs[:1])] == []
    for drawn in (boosted_shown.drawn, boosted_shown.drawn_growth):
        (figure,) = drawn(runs[:1]).values()
        assert len(figure.axes) == 3


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


def test_the_table_of_statistics_says_what_no_run_assessed():
    left = {"setting": "counts alone", "n_rows": 100, "others": 0.25}
    values = {**left, "setting": boosted_models.VALUES_ALONE}
    runs = [made(**left), made(**left, seed=1, right=None), made(**values, right=None)]
    (line,) = boosted_states(pd.DataFrame(runs)).to_dict("records")
    assert line["counts alone"] == "50.0 %, 1 of 2 not assessed"
    assert line["hessians and leaf values"] == "not in the file"
    assert line["gains and leaf values"] == "not run"
    assert line[boosted_models.VALUES_ALONE] == "not assessed"
    assert line["other rows"] == "25.0 %"


def test_each_statistic_is_left_alone_where_files_hold_it():
    grid = [p for p in boosted.settings_grid() if p["setting"] in boosted_models.LEFT]
    own = {(p["model"], p["setting"]) for p in grid}
    assert ("XGBClassifier", "counts alone") not in own
    assert ("HistGradientBoosting", "counts alone") in own
    assert len({str(p) for p in grid}) == len(grid)


def raw_line(table, near, seed=0, model="XGB"):
    return {
        "model": model, "table": table, "n_rows": 205, "seed": seed, "seconds": 1.0, "near": near,
        **dict.fromkeys(("shuffled", "others", "exact", "other_exact", "ceiling", "rows"), 0.5),
        "labels": None,
    }  # fmt: skip


def test_only_answers_of_all_seeds_can_be_ahead_of_the_published_best():
    runs = pd.DataFrame(
        [
            raw_line("stroke", 0.95), raw_line("stroke", None, seed=1),
            raw_line("diabetes", 0.74), raw_line("diabetes", 0.9, model="LGBM"),
        ]
    )  # fmt: skip
    every, published = boosted_raw.tables(runs)
    assert every.frame.answered.tolist() == ["1 of 1", "1 of 1", "1 of 2"]
    assert published.frame.verdict.tolist() == [AHEAD, BEHIND]
    assert published.frame.published.tolist() == [73.37, 87.63]


def test_what_has_no_paper_stands_before_the_papers():
    stand = [
        Standing(study(name=name, paper=paper), 20, 20, (), (1,))
        for name, paper in (("old", "Old 2012"), ("own", OWN))
    ]
    lines = overview(stand).splitlines()
    assert lines[2].startswith("| treeleak, no paper | 1 |")
    assert STUDIES["boosted-raw"].figures is no_figures
