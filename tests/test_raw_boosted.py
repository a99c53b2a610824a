"""The benchmark of boosted models on raw tables: what it trains, measures and asks."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import treeleak
from experiments import raw_boosted_models as models
from experiments.benchmarks import raw_boosted
from experiments.benchmarks.frame import lines_of
from treeleak.core.errors import TimeUp


@pytest.fixture
def cancer():
    return models.sample(raw_boosted.Case("HistGB", "cancer", 60, 0, 5.0))


def test_rows_are_matched_where_most_values_are_right():
    X = pd.DataFrame({"a": [0.0, 10.0, 20.0], "b": [5.0, 6.0, 7.0]})
    release = SimpleNamespace(thresholds=[np.array([5.0, 15.0]), np.array([])],
                              float_type="float64", trees=[])  # fmt: skip
    data = SimpleNamespace(X=X, spread=X.std(ddof=0), release=release)
    given = pd.DataFrame({"a": [20.0, 0.0, 9.0], "b": [6.0, 5.0, 6.0]})
    assert models.best(models.exact, given, data) == pytest.approx(4 / 6)
    # Nothing tests b: all of its values are on the right side of every threshold.
    assert models.best(models.between, given, data) == 1.0


def test_a_table_with_values_exchanged_between_two_thresholds_has_the_same_file():
    case = raw_boosted.Case("HistGB", "cancer", 60, 0, 5.0)
    data = models.sample(case)
    y, names = data.y, list(data.X.columns)

    def nodes(X: pd.DataFrame) -> bytes:
        model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
        return b"".join(one.nodes.tobytes() for (one,) in model._predictors)

    first, twin, sides = nodes(data.X), data.X.copy(), models.sides_of(data.X, data)
    j = int(np.argmin([len(np.unique(side)) for side in sides.T]))
    i = np.flatnonzero(sides[:, j] == sides[0, j])
    twin.iloc[i, j] = twin.iloc[i[::-1], j].to_numpy()
    assert nodes(twin) == first
    assert models.best(models.exact, twin, data) < 1.0, names[j]


@pytest.mark.slow
def test_a_run_is_measured_beside_what_the_population_gives(capsys):
    case = raw_boosted.Case("HistGB", "cancer", 60, 1, 1.0)
    record = raw_boosted.run(case)
    json.dumps(record)
    assert record["status"] in ("feasible", "unknown", "unique")
    assert 0 < record["shuffled"] < 1
    assert 0 < record["others"] < 1
    assert 0 < record["near"] <= 1
    assert 0 <= record["rows"] <= record["between"] <= 1
    assert 0 < record["ceiling"] <= 1
    kept = {"case": vars(case), "results_version": 1, "peak_mb": 1.0, **record}
    line = lines_of("raw_boosted", {"model": ["HistGB"], "table": ["cancer"]}, [60], None)
    runs = raw_boosted.flat([kept], raw_boosted.FIGURES)
    assert raw_boosted.floor_table(line.itertuples(), runs)
    asked = line.assign(figure="exact", share=1.01, seconds=1e-9)
    assert not raw_boosted.floor_table(asked.itertuples(), runs)
    assert "NOT met" in capsys.readouterr().out


def test_a_run_without_an_answer_says_why_and_meets_no_floor(breaks, capsys):
    breaks(treeleak, "reconstruct", TimeUp("too late"))
    case = raw_boosted.Case("HistGB", "cancer", 60, 1, 1.0)
    kept = {"case": vars(case), "results_version": 1, "peak_mb": 1.0, **raw_boosted.run(case)}
    line = lines_of("raw_boosted", {"model": ["HistGB"], "table": ["cancer"]}, [60], None)
    asked = line.assign(figure="near", share=0.1)
    runs = raw_boosted.flat([kept], raw_boosted.FIGURES)
    assert not raw_boosted.floor_table(asked.itertuples(), runs)
    assert "too late" in capsys.readouterr().out


def test_what_answers_state_is_held_against_all_runs_together(capsys):
    def said(error, ninety, n):
        return {"expected": 0.1, "error": error, "ninety": ninety, "n_ninety": n}

    some = pd.DataFrame([said(0.05, 1.0, 10.0), said(0.15, 0.88, 90.0), said(np.nan, np.nan, 0.0)])
    # 0.2 / 0.2, and (10 + 79.2) / 100; a run that states nothing counts for neither.
    assert raw_boosted.as_stated(some)
    assert capsys.readouterr().out.splitlines() == [
        "expected over true error, in sums of 2 runs: 1.000, floor 0.8 to 1.2: met",
        "held of 100 values said to be about .9 sure: 0.892, floor 0.87 to 0.93: met",
    ]
    assert not raw_boosted.as_stated(some[2:])
    assert capsys.readouterr().out.count("NOT met") == 2
