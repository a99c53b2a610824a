"""DRAFT-DP's experiments: what a run does, and what tables say of runs."""

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.studies import dp_runs
from experiments.studies.dp_cells import point
from experiments.studies.dp_runs import (
    attack,
    attack_closely,
    informed_attack,
)
from experiments.studies.draft_dp import (
    TABLE_1,
)
from helpers.releases import tree_of
from helpers.tables import shared_file, small_table
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import AllRows, Release
from treeleak.release.noise.laws import Laplace

pytestmark = pytest.mark.slow

# ------------------------------------------------------------------------------------------ runs


def forest_of(counts, noise=None):
    """One tree that tests column a, so that leaf 1 holds a = 0, leaf 2 holds a = 1."""
    tree = tree_of((0, 0.5), None, None).with_counts(counts=np.array(counts, dtype=float))
    return Release((tree,), ("a", "b", "c"), (0, 1), AllRows(), None, noise)


def answer(**given):
    data = small_table()
    own = {
        "X": data.X, "y": data.y, "status": "likely", "numbers": {}, "expected_error": 0.1,
        "most_likely": None, "without_population": None, "row_count": None,
    }  # fmt: skip
    return SimpleNamespace(**{**own, **given})


@pytest.fixture
def run_noisy(instead):
    """Run an experiment on a small table, whose attack answers as the test says."""
    return partial(_run_noisy, instead)


def _run_noisy(instead, result, run=attack, **given):
    asked = {}

    def reconstruct(model, schema, **told):
        asked.update(told)
        if isinstance(result, Exception):
            raise result
        return result

    release = forest_of(np.zeros((3, 2)), Laplace(1.0, "nearest"))
    instead("draft", lambda _: small_table(), dp_runs)
    instead("paper_forest", lambda _: release, dp_runs)
    instead("reconstruct", reconstruct)
    small = {"dataset": "small", "n_trees": 1, "depth": 1, "epsilon": 1.0}
    return run(point(**small, **given)), asked


def test_rows_too_many_or_too_few_are_scored_as_in_the_paper(run_noisy):
    data = small_table()
    counted = SimpleNamespace(n=2, between=(1, 4))
    short = answer(X=data.X[:2], y=data.y[:2], row_count=counted)
    record, asked = run_noisy(short, n_rows=4, told_n=False)
    assert "n_rows" not in asked
    assert (record["n"], record["between"]) == (2, [1, 4])
    # Rows 010 and 110, twice each, against 010, 110, 101 and 001: 2 values of 3 wrong in two rows.
    assert record["error"] == pytest.approx(4 / 12)
    record, asked = run_noisy(answer(), n_rows=6)
    assert asked["n_rows"] == 6
    assert record["error"] == 0


def test_a_run_without_an_answer_has_all_that_is_measured(run_noisy):
    lost = answer(X=None, y=None, status="unknown")
    record, _ = run_noisy(lost, attack_closely, n_rows=4)
    assert {record[name] for name in (*dp_runs.ROW_BY_ROW, "error")} == {None}
    assert 0 <= record["train"] <= 1


@pytest.mark.parametrize("result", [answer(X=None, y=None, status="unknown"), NotCovered("no")])
def test_without_an_answer_there_is_no_error(run_noisy, result):
    record, _ = run_noisy(result, n_rows=4)
    assert record["error"] is None
    assert record["status"] in ("unknown", "refused")
    json.dumps(record)


def test_forests_that_are_not_there_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TREELEAK_DATA", str(tmp_path))
    with pytest.raises(BadInput, match=r"dp_forests_adult\.npz: no such file; TREELEAK_DATA"):
        TABLE_1.check()


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setenv("TREELEAK_DATA", str(shared_file("dp_forests_compas.npz").parent))


def tiny(run, **changed):
    return run(point(n_trees=5, depth=3, epsilon=30.0, time_limit=3.0, **changed))


def test_a_run_is_measured_from_all_sides(data):
    record = tiny(attack_closely)
    assert 0 < record["error"] < record["guess"]
    assert len(record["others"]) == 100
    assert 0 <= record["tail"] <= 1
    assert 0.4 < record["train"] <= 1
    assert record["inliers"] <= record["worst"]
    json.dumps(record)


def test_the_missing_row_is_told_better_by_a_larger_budget(data):
    own = {"dataset": "compas", "seed": 0, "mechanism": "draft-dp", "n_targets": 10, "n_trees": 10,
           "depth": 5}  # fmt: skip
    far, near = (informed_attack(own | {"epsilon": e}) for e in (0.1, 1000.0))
    assert near["error"] < far["error"]
    assert near["perfect"] > far["perfect"]
