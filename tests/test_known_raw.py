"""The benchmark of known draws on raw tables: what it trains, measures and asks."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import known_raw, known_raw_tables
from experiments.benchmarks.frame import floors_of, lines_of


@pytest.mark.parametrize(
    ("floor", "run", "lacks"),
    [
        ({"claim": "answered"}, {"status": "unknown", "misfit": 3.0}, []),
        ({"claim": "answered"}, {"labels": None}, ["answered 1"]),
        ({"claim": "verified"}, {}, []),
        ({"claim": "verified"}, {"misfit": 1.0}, ["verified 1"]),
        ({"claim": "verified"}, {"status": "unknown"}, ["verified 1"]),
        ({"claim": "listed"}, {}, []),
        ({"claim": "listed"}, {"listed": 9.0}, ["listed 1"]),
        ({"claim": "decided"}, {"left_open": 4.0}, ["decided 1"]),
        ({"claim": "decided"}, {}, ["decided 1"]),
        ({"claim": "verified", "error": 0.03, "seconds": 5.0}, {}, ["error 0.03"]),
        ({"claim": "verified", "near_5": 0.9, "near": 0.9}, {"near": np.nan}, ["near 0.9"]),
        ({}, {"status": "unknown"}, []),
        ({}, {"wrong": 1.0}, ["wrong 0"]),
    ],
)
def test_what_a_run_misses_is_named(floor, run, lacks):
    nothing = dict.fromkeys(floors_of("known_raw").columns, np.nan)
    good = {
        "status": "feasible", "misfit": 0.0, "labels": 1.0, "wrong": 0.0, "listed": 10.0,
        "n_rows": 10, "proved": 0.5, "open_rows": 1.0, "left_open": 0.0, "seconds": 5.0,
        "error": 0.04, "placed": 0.9, "near": 0.95, "near_5": 0.95, "categories": 1.0,
    }  # fmt: skip
    line = SimpleNamespace(**nothing | floor)
    runs = known_raw.with_claims(pd.DataFrame([good | run]))
    assert known_raw.asked(line).missed(runs) == lacks


@pytest.mark.slow
def test_a_run_is_measured_row_by_row_behind_a_pipeline(capsys):
    case = known_raw.Case("mixed", 40, 1, 20.0, n_trees=12, warm=True)
    record = known_raw.run(case)
    assert (record["status"], record["misfit"], record["wrong"]) == ("feasible", 0, 0)
    assert record["cells"].startswith("generated")
    assert record["listed"] == 40
    assert 0.5 < record["placed"] <= record["labels"] <= 1
    assert 0 < record["near"] <= 1
    assert 0 < record["near_5"] <= 1
    json.dumps(record)
    kept = {"case": vars(case), "results_version": 1, "peak_mb": 1.0, **record}
    line = lines_of("known_raw", {"table": ["mixed"]}, [40], None)
    runs = known_raw.flat([kept], known_raw._FIGURES)
    assert known_raw.floor_table(line.itertuples(), runs)
    asked = line.assign(claim="verified", seconds=1e-9)
    assert not known_raw.floor_table(asked.itertuples(), runs)
    assert "mixed, 40, 1 misses: seconds 1e-09" in capsys.readouterr().out


def test_a_right_answer_is_right_in_every_figure():
    data = known_raw_tables.sample("mixed", 40, 0, n_trees=5)
    assert data.X.age.isna().any()

    def figures(X, y):
        proved = pd.Series(np.ones(len(y), dtype=bool))
        found = SimpleNamespace(X=X, y=y, proved=proved, expected_error=0.2)
        return known_raw.measured(data, found)

    assert figures(data.filled(), data.y) == {
        "labels": 1, "placed": 1, "wrong": 0, "near": 1, "near_5": 1, "categories": 1, "error": 0,
        "expected": 0.2,
    }  # fmt: skip
    # In another order all is there, and little in its place.
    turned = figures(
        data.filled()[::-1].reset_index(drop=True), data.y[::-1].reset_index(drop=True)
    )
    assert turned["error"] == 0
    assert turned["placed"] < 0.5
    assert turned["wrong"] > 20
    assert turned["near"] < 0.5
    # A label that is wrong is wrong, wherever the row lies.
    assert figures(data.filled(), 1 - data.y)["placed"] == 0
