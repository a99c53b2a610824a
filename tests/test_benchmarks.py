"""The benchmarks' store: one run is one record, no run is repeated, none is lost."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from benchmarks.known import BINS, Case, Floor, calibration, cases, side_by_side, verdicts
from benchmarks.store import Store, flat, seed_range


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
    return tmp_path / "folder" / "sums.jsonl"


def collect(path, cases, *, fresh=False, run=add):
    return Store(path, fresh).collect(cases, run, lambda _: Sum(0, 0), lambda _: False)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_run_is_one_record(path):
    records = collect(path, [Sum(1), Sum(2, 5)])
    assert lines(path) == records
    assert [r["case"] for r in records] == [{"a": 1, "b": 1}, {"a": 2, "b": 5}]
    assert [r["sum"] for r in records] == [2, 7]
    for record in records:
        assert record["code"]
        assert record["peak_mb"] > 1
        assert record["versions"]["numpy"] == np.__version__
    assert flat(records)[["a", "b", "sum"]].to_numpy().tolist() == [[1, 1, 2], [2, 5, 7]]


def test_a_run_in_the_store_is_not_repeated_and_others_are(path):
    first = collect(path, [Sum(1), Sum(2)])
    ran.clear()
    again = collect(path, [Sum(2), Sum(3), Sum(1), Sum(2, 2)])
    assert ran == [Sum(0, 0), Sum(3), Sum(2, 2)]
    assert [r["sum"] for r in again] == [3, 4, 2, 4]
    assert again[0] == first[1]
    assert len(lines(path)) == 4
    ran.clear()
    assert collect(path, [Sum(3), Sum(2)])[0] == again[1]
    assert ran == []
    assert len(lines(path)) == 4


def test_a_case_named_twice_runs_once(path):
    records = collect(path, [Sum(1), Sum(1)])
    assert ran == [Sum(0, 0), Sum(1)]
    assert records[0] == records[1]
    assert len(lines(path)) == 1


def test_what_ran_before_a_failure_is_kept(path):
    def failing(case):
        if case.a == 2:
            raise KeyboardInterrupt
        return add(case)

    with pytest.raises(KeyboardInterrupt):
        collect(path, [Sum(1), Sum(2), Sum(3)], run=failing)
    assert [r["case"]["a"] for r in lines(path)] == [1]
    ran.clear()
    assert len(collect(path, [Sum(1), Sum(2), Sum(3)])) == 3
    assert ran == [Sum(0, 0), Sum(2), Sum(3)]


def test_fresh_runs_replace_those_in_the_store_and_erase_none(path):
    old = collect(path, [Sum(1)], run=lambda case: {"sum": -1})
    new = collect(path, [Sum(1)], fresh=True)
    assert lines(path) == old + new
    ran.clear()
    assert collect(path, [Sum(1)]) == new
    assert ran == []


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_line_that_was_cut_off_is_named_and_run_again(path, capsys, kept):
    collect(path, [Sum(1), Sum(2)])
    whole = path.read_text()
    last = whole.splitlines()[-1]
    path.write_text(whole.removesuffix(last + "\n") + last[: int(kept * len(last))])
    ran.clear()
    capsys.readouterr()
    records = collect(path, [Sum(1), Sum(2)])
    assert f"{path}, line 2: not a record, skipped" in capsys.readouterr().err
    assert ran == [Sum(0, 0), Sum(2)]
    # The new record does not go down with the half line before it.
    ran.clear()
    assert collect(path, [Sum(1), Sum(2)]) == records
    assert ran == []


@pytest.mark.parametrize("line", ["[]", "3", '{"sum": 2}', "\x00"])
def test_a_line_that_is_no_record_is_named(path, capsys, line):
    collect(path, [Sum(1)])
    path.write_text(line + "\n" + path.read_text())
    ran.clear()
    collect(path, [Sum(1)])
    assert ran == []
    assert f"{path}, line 1:" in capsys.readouterr().err


def test_a_run_apart_has_a_process_and_a_peak_of_its_own(path):
    held = np.ones(400 * 2**17)
    store = Store(path)
    big, small = store.collect([Sum(300), Sum(1)], allocate, lambda case: replace(case, a=1))
    assert held.all()
    assert len({big["pid"], small["pid"], os.getpid()}) == 3
    # Only the warm-up ran before it, there.
    assert big["runs"] == small["runs"] == 1
    assert ran == []
    assert big["peak_mb"] - small["peak_mb"] > 200


def test_seeds_are_read_with_both_ends():
    assert seed_range("5-9") == range(5, 10)
    assert seed_range("3") == range(3, 4)


def test_confidence_is_binned_with_what_is_proved_apart():
    sure = np.array([0.0, 0.05, 0.55, 0.999, 1.0, 1.0])
    bins = np.array(calibration(sure, np.array([0, 1, 1, 0, 1, 1], dtype=bool)))
    assert bins.shape == (len(BINS) + 1, 3)
    assert bins[[0, 5, -2, -1]].tolist() == [[2, 0.05, 1], [1, 0.55, 1], [1, 0.999, 0], [2, 2, 2]]
    assert bins.sum(axis=0).tolist() == pytest.approx([6, sure.sum(), 4])


def runs(**columns):
    given = {"seconds": 1.0, "order_error": 0.0, "in_order": 1.0, "status": "unique"}
    return pd.DataFrame({k: columns.get(k, [v, v, v]) for k, v in given.items()})


@pytest.mark.parametrize(
    ("floor", "columns", "said"),
    [
        (Floor(1, 2), {}, "met"),
        (Floor(1, 2), {"seconds": [1, 2, 9]}, "met"),
        (Floor(1, 2), {"seconds": [1, 3, 3]}, "NOT met"),
        (Floor(1, 2), {"order_error": [0, 0, 0.0006]}, "NOT met"),
        (Floor(0.9, slowest=2), {"in_order": [0.9, 1, 1]}, "met"),
        (Floor(0.9, slowest=2), {"in_order": [0.8, 1, 1]}, "on average"),
        (Floor(0.9, slowest=2), {"in_order": [0.8, 0.8, 1]}, "NOT met"),
        (Floor(0.9, slowest=2), {"seconds": [1, 1, 2.1]}, "NOT met"),
        (Floor(None, slowest=2), {"status": ["unique", "feasible", "likely"]}, "met"),
        (Floor(None, slowest=2), {"status": ["unique", "feasible", "unknown"]}, "NOT met"),
        (Floor(None), {"status": ["unique", "feasible", "feasible"],
                       "order_error": [0, 0.1, 0.1]}, "met"),
        (Floor(None), {"order_error": [0, 0, 0.1]}, "NOT met"),
    ],
)  # fmt: skip
def test_a_floor_is_met_by_every_seed(floor, columns, said):
    assert floor.judge(runs(**columns)) == said


def test_parts_hold_each_case_once_and_the_reference_runs_beside_treeleak():
    shallow = list(cases("shallow", range(2), (True, False), None))
    assert len(set(shallow)) == len(shallow) == 3 * 2 * 2 * 2
    assert {c.time_limit for c in cases("small", range(1), (True,), 7.0)} == {7.0}
    pairs = list(side_by_side(range(2), None))
    assert len(set(pairs)) == len(pairs) == 12
    for own, other in zip(pairs[::2], pairs[1::2], strict=True):
        assert isinstance(own, Case)
        assert (own.method, own.distinct) == ("auto", False)
        assert replace(own, method="reference-cp") == other
    first, second = set(verdicts(0, None)), set(verdicts(1, 60.0))
    assert len(first) == len(second) == 400
    assert not first & second
