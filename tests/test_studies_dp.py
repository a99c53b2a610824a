"""DRAFT-DP's experiments: what a run does, and what tables say of runs."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import treeleak
from experiments.draft_tables import draft_sample, draft_schema, load_draft
from experiments.studies import dp_cells, dp_runs
from experiments.studies.dp_cells import point
from experiments.studies.dp_runs import (
    accuracy,
    attack,
    attack_closely,
    informed_attack,
    known_names,
    log_likelihood,
    paper_forest,
    with_noise,
)
from experiments.studies.draft_dp import (
    FIGURE_10,
    FIGURE_12,
    FIGURE_13,
    TABLE_1,
    TABLE_4,
    TABLE_5,
    TABLE_7,
)
from experiments.studies.published import read_published
from helpers.releases import tree_of
from helpers.tables import shared_file, small_table
from treeleak.core.errors import BadInput, NotCovered
from treeleak.release import AllRows, Release
from treeleak.release.noise.laws import Laplace

pytestmark = pytest.mark.slow

# ------------------------------------------------------------------------------------------ runs


def test_known_attributes_are_whole_groups_and_grow_one_by_one():
    data = small_table()
    for seed in range(5):
        first, both = (known_names(data, k, seed) for k in (1, 2))
        assert first in (["a"], ["b", "c"])
        assert both == ["a", "b", "c"]
    assert known_names(data, 0, 0) == []
    assert {len(known_names(data, 1, s)) for s in range(5)} == {1, 2}


@pytest.mark.parametrize("learner", ["discrete-laplace", "draft-dp", "sklearn"])
def test_accuracy_is_measured_on_the_rows_trained_on_and_on_all_others(monkeypatch, learner):
    monkeypatch.setattr(dp_runs, "draft", lambda name: small_table())
    record = accuracy(
        {"dataset": "small", "learner": learner, "seed": 0, "epsilon": 1000.0, "n_trees": 10,
         "depth": 5, "n_rows": 2}
    )  # fmt: skip
    # Both rows of class 0: without noise, each known leaf names it, and so do half of the others.
    assert record["train"] == 1.0
    assert record["test"] < 1.0
    cost = {"sklearn": None, "discrete-laplace": 1000.0, "draft-dp": 1000 + 10 * np.log(2)}
    assert record["cost"] == pytest.approx(cost[learner])


def forest_of(counts, noise=None):
    """One tree that tests column a, so that leaf 1 holds a = 0, leaf 2 holds a = 1."""
    tree = tree_of((0, 0.5), None, None).with_counts(counts=np.array(counts, dtype=float))
    return Release((tree,), ("a", "b", "c"), (0, 1), AllRows(), None, noise)


def test_noise_is_added_to_leaves_only_and_its_law_is_told():
    true = forest_of([[3, 3], [2, 1], [1, 2]])
    drawn = [with_noise(true, 0.5, np.random.default_rng(s)) for s in range(400)]
    counts = np.array([release.trees[0].counts for release in drawn])
    assert drawn[0].noise == Laplace(0.5, "towards zero")
    assert (counts[:, 0] == 0).all()
    noise = (counts - true.trees[0].counts)[:, 1:]
    assert (noise == np.round(noise)).all()
    assert abs(noise.mean()) < 4 * (drawn[0].noise.variance / noise.size) ** 0.5
    assert noise.var() == pytest.approx(drawn[0].noise.variance, rel=0.3)
    # Two trees share the budget.
    twice = replace(true, trees=true.trees * 2)
    assert with_noise(twice, 0.5, np.random.default_rng(0)).noise.epsilon == 0.25


def test_log_likelihood_is_that_of_what_the_rows_leave_over():
    law = Laplace(1.0, "towards zero")
    release = forest_of([[0, 0], [2, 0], [-1, 4]], law)
    data = small_table()
    # a = 0: classes 0, 1, 1; a = 1: classes 0, 1, 1.
    left = [2 - 1, 0 - 2, -1 - 1, 4 - 2]
    own = log_likelihood(release, data.X[["c", "a", "b"]], data.y)
    assert own == pytest.approx(law.log_prob(left).sum())


def test_cases_with_noise_of_their_own_share_none_and_can_be_drawn_again(monkeypatch):
    loaded = []

    def load(path, n_trees, depth, seed, epsilon):
        loaded.append((path.name, seed, epsilon))
        return forest_of(np.zeros((3, 2)))

    monkeypatch.setattr(dp_runs, "load_dp_forest", load)
    monkeypatch.setattr(dp_runs, "forest_path", lambda name: Path(f"dp_forests_{name}.npz"))
    case = point(dataset="adult", n_trees=1, depth=3, epsilon=0.1, seed=7, forest="fresh")
    others = [case | {"seed": 2}, case | {"dataset": "compas"}, case | {"depth": 5}]
    first, again, *rest = (paper_forest(c).trees[0].counts.tolist() for c in [case, case, *others])
    assert first == again
    assert first not in rest
    assert loaded[0] == ("dp_forests_adult.npz", 2, None)
    loaded.clear()
    paper_forest(case | {"forest": "shared", "seed": 4})
    assert loaded == [("dp_forests_adult.npz", 4, 0.1)]


def answer(**given):
    data = small_table()
    own = {
        "X": data.X, "y": data.y, "status": "likely", "numbers": {}, "expected_error": 0.1,
        "most_likely": None, "without_population": None, "row_count": None,
    }  # fmt: skip
    return SimpleNamespace(**{**own, **given})


def run_noisy(monkeypatch, result, **given):
    asked = {}

    def reconstruct(model, schema, **told):
        asked.update(told)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(dp_runs, "draft", lambda name: small_table())
    monkeypatch.setattr(
        dp_runs, "paper_forest", lambda _: forest_of(np.zeros((3, 2)), Laplace(1.0, "nearest"))
    )
    monkeypatch.setattr(dp_runs.treeleak, "reconstruct", reconstruct)
    small = {"dataset": "small", "n_trees": 1, "depth": 1, "epsilon": 1.0}
    return attack(point(**small, **given)), asked


def test_rows_too_many_or_too_few_are_scored_as_in_the_paper(monkeypatch):
    data = small_table()
    counted = SimpleNamespace(n=2, between=(1, 4))
    short = answer(X=data.X[:2], y=data.y[:2], row_count=counted)
    record, asked = run_noisy(monkeypatch, short, n_rows=4, told_n=False)
    assert "n_rows" not in asked
    assert (record["n"], record["between"]) == (2, [1, 4])
    # Rows 010 and 110, twice each, against 010, 110, 101 and 001: 2 values of 3 wrong in two rows.
    assert record["error"] == pytest.approx(4 / 12)
    record, asked = run_noisy(monkeypatch, answer(), n_rows=6)
    assert asked["n_rows"] == 6
    assert record["error"] == 0
    assert record["log_likelihood"] == record["log_likelihood_true"]


def test_the_population_told_holds_no_training_row_and_known_columns_are_theirs(monkeypatch):
    data = small_table()
    without = answer(X=1 - data.X[:4])
    result = answer(X=data.X[:4], y=data.y[:4], without_population=without)
    record, asked = run_noisy(monkeypatch, result, n_rows=4, population=2, known=1)
    assert sorted(asked["population"].index) == [4, 5]
    assert asked["population"].columns.tolist() == ["a", "b", "c", "label"]
    pd.testing.assert_frame_equal(
        asked["known_columns"], data.X[asked["known_columns"].columns][:4]
    )
    assert record["error_without"] == treeleak.metrics.reconstruction_error(
        1 - data.X[:4], data.X[:4], data.schema
    )


def test_a_run_without_an_answer_has_all_that_is_measured(monkeypatch):
    monkeypatch.setattr(dp_runs, "draft", lambda name: small_table())
    monkeypatch.setattr(
        dp_runs, "paper_forest", lambda _: forest_of(np.zeros((3, 2)), Laplace(1.0, "nearest"))
    )
    lost = answer(X=None, y=None, status="unknown")
    monkeypatch.setattr(dp_runs.treeleak, "reconstruct", lambda *_, **__: lost)
    record = attack_closely(point(dataset="small", n_trees=1, n_rows=4))
    assert {record[name] for name in (*dp_runs.ROW_BY_ROW, "error")} == {None}
    assert 0 <= record["train"] <= 1


@pytest.mark.parametrize("result", [answer(X=None, y=None, status="unknown"), NotCovered("no")])
def test_without_an_answer_there_is_no_error(monkeypatch, result):
    record, _ = run_noisy(monkeypatch, result, n_rows=4)
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


def test_rows_trained_on_are_drawn_by_the_seed_and_are_not_tested_on(data, monkeypatch):
    seen = {}

    def scored(forest, data, chosen):
        seen["chosen"] = chosen
        return {"train": 1.0, "test": 1.0}

    monkeypatch.setattr(dp_runs, "_accuracy", scored)
    table = load_draft("compas")
    TABLE_7.run(point(n_trees=1, depth=2, forest="trained", n_rows=30, seed=3, time_limit=1.0))
    X, _ = draft_sample(table, 30, 3)
    assert table.X.iloc[seen["chosen"]].to_numpy().tolist() == X.to_numpy().tolist()


def test_the_missing_row_is_told_better_by_a_larger_budget(data):
    own = {"dataset": "compas", "seed": 0, "mechanism": "draft-dp", "n_targets": 10, "n_trees": 10,
           "depth": 5}  # fmt: skip
    far, near = (informed_attack(own | {"epsilon": e}) for e in (0.1, 1000.0))
    assert near["error"] < far["error"]
    assert near["perfect"] > far["perfect"]


# ---------------------------------------------------------------------------------------- tables


def cell(error, **changed):
    extra = {"tail": 0.01, "train": 0.7, "majority": 0.6, "guess": 0.25, "worst": 0.5,
             "inliers": error, "outliers": error, "perfect": 0.5, "perfect_inliers": 0.5,
             "perfect_outliers": 0.5, "others": [0.2, 0.3, 0.25]}  # fmt: skip
    own = point(dataset="adult", **changed)
    return own | {"error": error, "status": "likely", "seconds": 2.0, **extra}


def tables(study, lines):
    return {t.name: t.frame for t in study.tables(pd.DataFrame(lines))}


@pytest.mark.parametrize(
    ("error", "said"), [(0.1249, "ahead"), (0.12, "ahead"), (0.126, "BEHIND"), (None, "BEHIND")]
)
def test_a_cell_is_ahead_if_it_rounds_to_no_more_than_the_published_one(error, said):
    (line,) = tables(TABLE_1, [cell(error)])["draft-dp-table-1"].to_dict("records")
    assert (line["published"], line["verdict"]) == (0.12, said)


def test_cells_that_the_paper_lacks_are_in_no_mean():
    lines = [cell(0.3, n_trees=30, depth=7, epsilon=0.1), cell(0.3, n_trees=30, epsilon=0.1)]
    made = tables(TABLE_1, lines)
    lacking = made["draft-dp-table-1"].set_index("depth").loc[7]
    assert np.isnan(lacking.published)
    assert lacking.verdict == "ahead"
    (sums,) = made["draft-dp-table-1-summary"].to_dict("records")
    assert (sums["cells"], sums["published"], sums["treeleak"]) == (2, 0.35, 0.3)
    assert sums["ratio"] == pytest.approx(0.35 / 0.3)


def test_answers_that_are_not_there_are_counted():
    lines = [cell(0.1), cell(None, seed=1) | {"status": "unknown"}]
    (line,) = tables(TABLE_1, lines)["draft-dp-table-1"].to_dict("records")
    assert (line["treeleak"], line["runs"], line["open"]) == (0.1, 2, 1)


def test_leaks_are_counted_by_budget():
    lines = [cell(0.1) | {"tail": 0.06}, cell(0.1, depth=3) | {"tail": 0.01}]
    (line,) = tables(TABLE_1, lines)["draft-dp-table-2"].to_dict("records")
    # The paper has 0.001 and 0.077.
    assert (line["published"], line["treeleak"], line["verdict"]) == (1, 1, "ahead")


PARTS = ("errors", "perfect")


def test_rows_one_by_one_are_judged_by_their_error_and_their_number():
    both = [(0.12, 0.07), (0.13, 0.07), (0.12, 0.06)]
    made = [tables(TABLE_1, [cell(e) | {"perfect": p}]) for e, p in both]
    said = {n: [m[f"draft-dp-table-3-{n}"].verdict.item() for m in made] for n in PARTS}
    assert said == {"errors": ["ahead", "BEHIND", "ahead"], "perfect": ["ahead", "ahead", "BEHIND"]}
    assert made[0]["draft-dp-table-3-perfect"]["% perfect"].item() == pytest.approx(7)


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [(0.84, 0.77, "ahead"), (0.821, 0.9, "ahead"), (0.81, 0.9, "BEHIND"), (0.9, 0.74, "BEHIND")],
)
def test_accuracy_is_no_worse_if_neither_mean_is_far_below_the_published_one(train, test, said):
    lines = [
        {"dataset": "adult", "learner": "draft-dp", "seed": s, "cost": 30.0, "train": t,
         "test": test}
        for s, t in enumerate([train - 0.05, train + 0.05])
    ]  # fmt: skip
    (line,) = tables(TABLE_5, lines)["draft-dp-table-5"].to_dict("records")
    assert line["verdict"] == said


def test_more_rows_are_beside_the_published_error():
    lines = [
        cell(e, forest="trained", n_rows=n) | {"test": 0.77} for n, e in ((100, 0.1), (500, 0.09))
    ]
    frame = tables(TABLE_7, lines)["draft-dp-table-7"].set_index("n_rows")
    assert frame.verdict.to_dict() == {100: "ahead", 500: "BEHIND"}
    assert frame.published.to_dict() == {100: 0.123, 500: 0.085}
    assert frame["published test"].to_dict() == {100: 0.766, 500: 0.773}


def informed_lines():
    return [
        {"dataset": d, "epsilon": e, "seed": s, "mechanism": "draft-dp", "n_targets": 50,
         "error": 0.2 / e, "majority": 0.2, "inliers": 0.1, "outliers": 0.2, "perfect": 0.5,
         "perfect_inliers": 0.6, "perfect_outliers": 0.4, "seconds": 3.0}
        for d in dp_cells.DATASETS for e in (1.0, 10.0) for s in (0, 1)
    ]  # fmt: skip


def test_seconds_for_a_missing_row_are_those_of_a_hundred():
    frame = tables(FIGURE_13, informed_lines())["draft-dp-figure-13"]
    assert frame.s.eq(6.0).all()
    assert frame.set_index("dataset").verdict.to_dict() == {
        "adult": "ahead", "compas": "BEHIND", "default_credit": "ahead",
    }  # fmt: skip


def test_forests_are_counted_by_their_use_and_by_what_they_tell():
    # Majority 0.6, guess 0.25.
    lines = [
        cell(error, n_trees=n) | {"train": train}
        for n, (error, train) in enumerate(
            [(0.3, 0.7), (0.1, 0.7), (0.3, 0.5), (0.1, 0.5), (0.3, 0.65)], start=1
        )
    ]
    (line,) = tables(TABLE_1, lines)["draft-dp-figures-4-7-8"].to_dict("records")
    assert line == {
        "dataset": "adult", "depth": 5, "forests": 5, "useful, told": 1, "useful, not told": 2,
        "of these single trees": 1, "not useful, told": 1, "neither": 1,
    }  # fmt: skip


def test_what_was_not_run_is_not_drawn_and_what_was_is():
    lines = [cell(0.1 / e, epsilon=e, n_trees=10) for e in (0.1, 1.0, 30.0)]
    drawn = TABLE_1.figures(pd.DataFrame(lines))
    assert set(drawn) == {
        "draft-dp-figure-2", "draft-dp-figure-3", "draft-dp-figures-4-7-8", "draft-dp-figure-9",
    }  # fmt: skip
    points = drawn["draft-dp-figures-4-7-8"].axes[1].lines
    assert [line.get_xdata()[0] for line in points[:3]] == [1.0, 0.1, pytest.approx(0.1 / 30)]
    assert len(drawn["draft-dp-figure-9"].axes) == 3
    assert "draft-dp-figure-9" not in TABLE_1.figures(pd.DataFrame(lines).assign(seed=1))
    informed = FIGURE_13.figures(pd.DataFrame(informed_lines()))
    assert set(informed) == {f"draft-dp-figure-{n}" for n in (13, 14, 16)}
    known = FIGURE_12.figures(
        pd.DataFrame([cell(0.1, known=k, seed=s) for k in (0, 1) for s in (0, 1)])
    )
    assert known["draft-dp-figure-12"].axes[0].lines[0].get_ydata().tolist() == [0.1, 0.1]


def test_no_answer_yet_counts_as_a_guess_when_time_is_drawn():
    lines = [
        cell(e, n_rows=25, time_limit=t, method=m) | {"seconds": t}
        for m in ("auto", "reference-cp") for t, e in ((1.0, None), (3.0, 0.1))
    ]  # fmt: skip
    drawn = FIGURE_10.figures(pd.DataFrame(lines))["draft-dp-figure-10"]
    assert drawn.axes[0].lines[0].get_ydata().tolist() == [0.25, 0.1]
    frame = tables(FIGURE_10, lines)["draft-dp-figure-10"]
    assert set(frame.method) == {"treeleak", "CP"}


def test_grids_are_the_papers():
    full = TABLE_1.grid(quick=False)
    assert len([p for p in full if p["epsilon"] is not None]) == 1350
    assert len(TABLE_4.grid(quick=False)) == 1350
    assert {p["told_n"] for p in TABLE_4.grid(quick=True)} == {False}
    assert len(TABLE_7.grid(quick=False)) == 3 * 7 * 5
    assert len(FIGURE_13.grid(quick=False)) == 3 * 7 * 10
    # Attributes of the three tables, as the adversary may know none to all but one.
    assert len(FIGURE_12.grid(quick=False)) == 5 * sum(
        len(draft_schema(d).attributes) for d in dp_cells.DATASETS
    )


def test_published_tables_are_the_papers():
    for number, name in ((1, "error"), (2, "tail"), (4, "error"), (6, "seconds")):
        table = read_published(f"draft_dp_table_{number}")
        assert len(table.drop_duplicates(dp_cells.CELL)) == 270
        assert table[name].isna().sum() == (4 if number == 4 else 3)
    compas = read_published("draft_dp_table_1").query("dataset == 'compas' and epsilon == 5")
    assert compas.query("n_trees == 10").error.tolist() == [0.07, 0.06, 0.06]
