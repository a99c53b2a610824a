"""The benchmark of known draws on raw tables: what it trains, measures and asks."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import known_raw, known_raw_tables
from treeleak.core.errors import BadInput, TimeUp


def test_floors_are_of_tables_that_there_are_and_each_line_stands_once():
    floors = known_raw.floors()
    assert set(floors.table) == {*known_raw_tables.TABLES, "mixed"}
    assert not floors.duplicated(["table", "rows"]).any()
    assert set(floors.claim.dropna()) == {"answered", "verified", "listed", "decided"}
    # What is asked for without a claim would never be said.
    assert floors[floors.claim.isna()].iloc[:, 2:].isna().all(axis=None)


def test_lines_of_other_sizes_have_no_floor():
    asked = known_raw.lines(["stroke", "mixed"], [300, 500], quick=False)
    assert asked[["table", "rows"]].to_numpy().tolist() == [
        ["stroke", 300], ["stroke", 500], ["mixed", 300], ["mixed", 500],
    ]  # fmt: skip
    assert asked.claim.fillna("").tolist() == ["", "verified", "", "decided"]
    assert (known_raw.lines(["stroke"], None, quick=True).rows <= known_raw.SMALL).all()


def test_runs_have_less_time_than_their_floor_allows():
    asked = known_raw.lines(["diabetes"], [200, 300, 768], quick=False)
    found = list(known_raw.cases(asked, range(2), None))
    assert [(c.n_rows, c.seed) for c in found] == [(n, s) for n in (200, 300, 768) for s in (0, 1)]
    assert [c.time_limit for c in found[::2]] == [57.0, 60.0, 300.0]
    assert {c.time_limit for c in known_raw.cases(asked, [0], 7.0)} == {7.0}


@pytest.mark.parametrize(
    ("floor", "run", "lacks"),
    [
        ({"claim": "answered"}, {"status": "unknown", "misfit": 3.0}, []),
        ({"claim": "answered"}, {"labels": None}, ["answered"]),
        ({"claim": "verified"}, {}, []),
        ({"claim": "verified"}, {"misfit": 1.0}, ["verified"]),
        ({"claim": "verified"}, {"status": "unknown"}, ["verified"]),
        ({"claim": "listed"}, {}, []),
        ({"claim": "listed"}, {"listed": 9.0}, ["listed"]),
        ({"claim": "listed"}, {"listed": 9.0, "status": "unique"}, []),
        ({"claim": "decided"}, {"left_open": 5.0}, []),
        ({"claim": "decided"}, {"left_open": 4.0}, ["decided"]),
        ({"claim": "decided"}, {"proved": 1.0}, []),
        ({"claim": "decided"}, {}, ["decided"]),
        ({"claim": "verified", "seconds": 4.0}, {}, ["4 s"]),
        ({"claim": "verified", "error": 0.03, "seconds": 5.0}, {}, ["error 0.03"]),
        ({"claim": "verified", "in_order": 1.0}, {}, ["placed 1"]),
        ({"claim": "verified", "near_5": 0.9, "near": 0.9}, {"near": np.nan}, ["near 0.9"]),
        ({}, {"status": "unknown"}, []),
        ({}, {"wrong": 1.0}, ["proved what is false"]),
    ],
)
def test_what_a_run_misses_is_named(floor, run, lacks):
    nothing = dict.fromkeys(known_raw.floors().columns, np.nan)
    good = {
        "status": "feasible", "misfit": 0.0, "labels": 1.0, "wrong": 0.0, "listed": 10.0,
        "n_rows": 10, "proved": 0.5, "open_rows": 1.0, "left_open": 0.0, "seconds": 5.0,
        "error": 0.04, "placed": 0.9, "near": 0.95, "near_5": 0.95, "categories": 1.0,
    }  # fmt: skip
    line = SimpleNamespace(**nothing | floor)
    assert known_raw.missed(line, SimpleNamespace(**good | run)) == lacks
    assert bool(known_raw.said(line)) == ("claim" in floor)


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
    line = known_raw.lines(["mixed"], [40], quick=False)
    assert known_raw.floor_table(line, [kept]) == 0
    asked = line.assign(claim="verified", seconds=1e-9)
    assert known_raw.floor_table(asked, [kept]) == 1
    assert "mixed 40, seed 1 misses: 1e-09 s" in capsys.readouterr().out


@pytest.mark.parametrize("told", [True, False])
def test_the_schema_is_told_only_if_it_is_asked_for(told, monkeypatch):
    given = []

    def note(model, schema, **_):
        given.append(schema)
        raise TimeUp("enough")

    monkeypatch.setattr(known_raw.treeleak, "reconstruct", note)
    line = known_raw.lines(["cancer"], [40], quick=True)
    (case,) = known_raw.cases(line, [0], 1.0, told)
    known_raw.run(replace(case, n_trees=2))
    assert (given[0] is not None) == told


def test_a_run_without_an_answer_says_why_and_meets_no_floor(monkeypatch, capsys):
    def refuse(*_, **__):
        raise TimeUp("too late")

    monkeypatch.setattr(known_raw.treeleak, "reconstruct", refuse)
    case = known_raw.Case("mixed", 40, 1, 20.0, n_trees=2)
    kept = {"case": vars(case), "results_version": 1, "peak_mb": 1.0, **known_raw.run(case)}
    json.dumps(kept)
    line = known_raw.lines(["mixed"], [40], quick=False)
    asked = line.assign(claim="answered", near=0.1, error=0.1)
    assert known_raw.floor_table(asked, [kept]) == 1
    said = capsys.readouterr().out
    assert "mixed 40, seed 1 misses: answered, error 0.1, near 0.1" in said
    assert "mixed 40, seed 1: too late" in said


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


def test_words_are_encoded_as_by_an_encoder_that_saw_the_rows():
    data = known_raw_tables.sample("adult", 30, 0, n_trees=2)
    groups = [a for a in data.schema.attributes if a.kind == "one-hot"]
    assert len(groups) == 8
    assert all((data.X[list(a.columns)].sum(axis=1) == 1).all() for a in groups)
    assert all(data.X[list(a.columns)].any().all() for a in groups)
    assert data.schema.valid(data.X.to_numpy(dtype=float), data.X.columns).all()


def test_tables_that_are_not_there_or_too_small_are_skipped_with_a_reason(monkeypatch, capsys):
    def absent():
        raise BadInput("no such file")

    tables = {"stroke": absent, "cancer": lambda: SimpleNamespace(X=range(569))}
    monkeypatch.setattr(known_raw, "TABLES", tables)
    asked = known_raw.lines(["stroke", "cancer", "mixed"], [569, 570], quick=False)
    chosen = known_raw.present(asked)
    assert chosen[["table", "rows"]].to_numpy().tolist() == [
        ["cancer", 569], ["mixed", 569], ["mixed", 570],
    ]  # fmt: skip
    said = capsys.readouterr().out
    assert "stroke 569 skipped: no such file" in said
    assert "cancer 570 skipped: the table has 569 rows" in said
