"""The benchmarks' store: one run is one record, no run is repeated, none is lost."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import treeleak
from experiments.benchmarks import raw
from experiments.benchmarks.frame import Floor, Lost, _warmed, collect, flat, in_processes
from experiments.benchmarks.published import beside, depth_name, published
from experiments.results_version import RESULTS_VERSION
from experiments.store import Store
from treeleak.core.errors import NotCovered
from treeleak.datasets import Dataset
from treeleak.schema import Categorical, Numeric, Ordinal, Schema

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Sum:
    a: int
    b: int = 1


ran: list[Sum] = []


def add(case: Sum):
    ran.append(case)
    return {"sum": case.a + case.b}


def allocate(case: Sum):
    held = np.ones(case.a * 2**17)
    return {"sum": case.a, "pid": os.getpid(), "runs": len(ran), "held": held.nbytes, **add(case)}


@pytest.fixture
def path(tmp_path):
    ran.clear()
    _warmed.cache_clear()
    return tmp_path / "folder"


def collected(path, cases, *, fresh=False, run=add, **how):
    given = SimpleNamespace(fresh=fresh, out=path)
    return collect("sums", cases, run, lambda _: Sum(0, 0), given, **how)


def kept(path):
    runs = Store(path / "runs.sqlite").runs("sums")
    return [{"case": run.parameters, **run.record} for run in runs]


def test_one_run_is_one_record(path):
    records = collected(path, [Sum(1), Sum(2, 5)])
    assert kept(path) == records
    assert [r["case"] for r in records] == [{"a": 1, "b": 1}, {"a": 2, "b": 5}]
    assert [r["sum"] for r in records] == [2, 7]
    for record in records:
        assert record["results_version"] == RESULTS_VERSION
        assert record["peak_mb"] > 1
        assert record["versions"]["numpy"] == np.__version__
    assert flat(records)[["a", "b", "sum"]].to_numpy().tolist() == [[1, 1, 2], [2, 5, 7]]


def test_what_ran_before_a_failure_is_kept(path):
    def failing(case):
        if case.a == 2:
            raise KeyboardInterrupt
        return add(case)

    with pytest.raises(KeyboardInterrupt):
        collected(path, [Sum(1), Sum(2), Sum(3)], run=failing)
    assert [r["case"]["a"] for r in kept(path)] == [1]
    ran.clear()
    assert len(collected(path, [Sum(1), Sum(2), Sum(3)])) == 3
    assert ran == [Sum(0, 0), Sum(2), Sum(3)]


def test_fresh_runs_replace_those_in_the_store(path):
    collected(path, [Sum(1)], run=lambda case: {"sum": -1})
    new = collected(path, [Sum(1)], fresh=True)
    assert kept(path) == new
    assert new[0]["sum"] == 2
    ran.clear()
    assert collected(path, [Sum(1)]) == new
    assert ran == []


@pytest.mark.slow
def test_a_run_apart_has_a_process_and_a_peak_of_its_own(path):
    held = np.ones(400 * 2**17)
    big, small = collected(path, [Sum(300), Sum(1)], run=allocate, apart=True)
    assert held.all()
    assert len({big["pid"], small["pid"], os.getpid()}) == 3
    # Only the warm-up ran before it, there.
    assert big["runs"] == small["runs"] == 1
    assert ran == []
    assert big["peak_mb"] - small["peak_mb"] > 200


def die(case: Sum):
    if case.a == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if case.a == 3:
        time.sleep(600)
    return case.a


@pytest.mark.slow
def test_a_process_that_dies_or_hangs_ends_no_other():
    found = {c.a: r for c, r in in_processes(die, [Sum(1), Sum(2), Sum(4)], 2)}
    assert found == {1: 1, 2: Lost("crash"), 4: 4}
    assert list(in_processes(die, [Sum(3)], longest=0)) == [(Sum(3), Lost("hang"))]


def write_published(folder, monkeypatch):
    text = (
        "dataset,n_trees,max_depth,seed,status,error,seconds\n"
        "adult,10,None,0,FEASIBLE,0.1,100\n"
        "adult,10,None,1,FEASIBLE,0.3,200\n"
        "adult,10,None,2,UNKNOWN,,600\n"
        "adult,10,3,0,UNKNOWN,,600\n"
    )
    (folder / "some.csv").write_text(text)
    monkeypatch.setenv("TREELEAK_PUBLISHED", str(folder))


def test_published_means_are_of_answered_runs_and_ours_of_the_same_seeds(tmp_path, monkeypatch):
    write_published(tmp_path, monkeypatch)
    theirs = published("some.csv")
    ours = pd.DataFrame({"seed": [0, 1, 2], "error": [0.0, 0.1, 0.5]})
    point = beside(theirs, ours, dataset="adult", n_trees=10, depth=depth_name(None))
    assert point == pytest.approx((0.2, 200, 2, 0.05))
    # Other seeds than theirs all count; so do all where there is no answer.
    point = beside(theirs, ours.assign(seed=[5, 6, 7]), dataset="adult", depth="None")
    assert (point.answered, point.ours) == (2, pytest.approx(0.2))
    point = beside(theirs, ours, dataset="adult", depth=depth_name(3.0))
    assert (point.answered, point.seconds, point.ours) == (0, 600, pytest.approx(0.2))
    assert np.isnan(point.error)


def test_an_answer_that_lacks_is_no_error_of_zero(tmp_path, monkeypatch):
    write_published(tmp_path, monkeypatch)
    ours = pd.DataFrame({"seed": [0, 1], "error": [0.0, np.nan]})
    assert np.isnan(beside(published("some.csv"), ours, depth="None").ours)
    assert np.isnan(beside(None, ours).ours)


FAST = Floor({"error": 0.01}, {"seconds": 5})
WHOLE = Floor(most={"peak_mb": 100}, least={"exact_rows": 0.9})


@pytest.mark.parametrize(
    ("floor", "columns", "met"),
    [
        (FAST, {}, True),
        (FAST, {"error": [0.0, 0.0, 0.03]}, True),
        (FAST, {"error": [0.0, 0.0, 0.031]}, False),
        (FAST, {"error": [0.0, 0.0, np.nan]}, False),
        (FAST, {"seconds": [1, 5, 9]}, True),
        (FAST, {"seconds": [1, 6, 9]}, False),
        (WHOLE, {"exact_rows": [0.9, 0.9, 1.0]}, True),
        (WHOLE, {"exact_rows": [0.89, 1.0, 1.0]}, False),
        (WHOLE, {"peak_mb": [50, 50, 101]}, False),
        (WHOLE, {"exact_rows": [1.0, 1.0, np.nan]}, False),
    ],
)
def test_a_floor_is_met_in_the_mean_or_by_each_run(floor, columns, met):
    given = {"error": 0.0, "seconds": 1.0, "exact_rows": 1.0, "peak_mb": 50.0}
    table = pd.DataFrame({k: columns.get(k, [v, v, v]) for k, v in given.items()})
    assert floor.judge(table) == met


def raw_runs(**columns):
    good = {"status": "feasible", "misfit": 0.0, "error": 0.1, "guess": 0.3, "seconds": 10.0}
    good["verified"] = 1.0
    return pd.DataFrame({**good, **columns}, index=range(2))


@pytest.mark.parametrize(
    ("goal", "columns", "met"),
    [
        (raw.goal(10, 0.1), {}, True),
        (raw.goal(10, 0.1), {"error": [0.05, 0.15]}, True),
        (raw.goal(10, 0.1), {"error": [0.1, 0.11]}, False),
        (raw.goal(10, 0.1), {"seconds": [1.0, 10.1]}, False),
        (raw.goal(10), {"verified": [1.0, 0.0]}, False),
        (raw.goal(10), {"status": "likely", "misfit": 9.0}, True),
        (raw.goal(10, verified=False), {"status": "unknown", "misfit": 5.0}, True),
        (raw.goal(10, verified=False), {"error": [0.1, np.nan]}, False),
        (raw.goal(ratio=0.4, verified=False), {"status": "likely", "misfit": 9.0}, True),
        (raw.goal(ratio=0.3, verified=False), {"status": "likely"}, False),
    ],
)
def test_a_goal_on_raw_columns_is_met_in_the_mean_and_in_time_by_each(goal, columns, met):
    assert goal.judge(raw_runs(**columns)) == met


def raw_table(n=60):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "number": rng.normal(size=n).round(2), "whole": rng.integers(0, 9, n),
        "kind": rng.integers(0, 3, n),
    })  # fmt: skip
    number = Numeric("number", float(X.number.min()), float(X.number.max()))
    schema = Schema([number, Ordinal("whole", 0, 8), Categorical("kind", (0, 1, 2))])
    return Dataset("mixed", X, (X.number + X.whole > 4).astype(int), schema, "here", "none")


@pytest.mark.parametrize("draws", ["none", "known"])
def test_a_run_on_raw_columns_is_measured_against_rows_and_guesses(instead, draws):
    instead("table", lambda _: raw_table(), raw)
    record = raw.run(raw.Case("mixed", draws, 12, 0, 20.0, n_trees=8))
    assert record["status"] in ("unique", "feasible")
    assert (record["misfit"], record["verified"]) == (0, 1)
    assert 0 <= record["error"] < record["guess"]
    assert 0 <= record["near"] <= 1
    assert (record["labels"] is not None) == (draws == "known")
    json.dumps(record)


def test_what_is_refused_on_raw_columns_is_recorded_with_the_reason(instead, breaks):
    instead("table", lambda _: raw_table(), raw)
    breaks(treeleak, "reconstruct", NotCovered("too much"))
    record = raw.run(raw.Case("mixed", "none", 12, 0, 20.0, n_trees=2))
    assert (record["status"], record["notes"], record["error"]) == ("refused", ["too much"], None)


def test_the_likeliest_dataset_is_held_against_the_forest_itself():
    data = raw_table()
    model = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(data.X, data.y)
    found = treeleak.reconstruct(model, data.schema, time_limit=20)
    other = data.X.assign(number=data.X.number[::-1].to_numpy())
    for rows, met in ((data.X, True), (other, False)):
        between = replace(found, status="likely", misfit=2.0, most_likely=(rows, data.y))
        assert between.between_datasets
        assert raw.verified(model, between) == met
    for status, misfit, met in (("feasible", 0.0, True), ("feasible", 1.0, False),
                                ("unknown", 0.0, False)):  # fmt: skip
        assert raw.verified(model, replace(found, status=status, misfit=misfit)) == met


def test_parts_on_raw_columns_hold_each_case_once():
    everything = [line for lines in raw.PARTS.values() for line in lines]
    todo = list(raw.cases(everything, range(2), None))
    assert len(set(todo)) == len(todo) == 2 * len(everything)
    for line in everything:
        assert line.time_limit < line.floor.most.get("seconds", 301)
    assert {c.time_limit for c in raw.cases(everything, [0], 7.0)} == {7.0}
