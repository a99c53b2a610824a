"""Studies of Ferry et al. (2024) and Gambs et al. (2012): records, tables, claims."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from experiments import STUDIES, Run, find_study
from experiments.runner import as_frame
from experiments.studies import ferry, gambs
from experiments.study import AGREES, DIFFERS
from treeleak.core.errors import BadInput
from treeleak.schema import Schema
from treeleak.uncertainty import from_tree

pytestmark = pytest.mark.slow

GRID = [
    {"dataset": dataset, "share": share, "method": method, "support": support, "seed": seed}
    for dataset, share in (("adult", 0.5), ("compas", 1.0))
    for method in ferry.LEARNT
    for support in (0.01, 0.1)
    for seed in (0, 1)
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, n in (("adult", 800), ("compas", 400)):
        rng = np.random.default_rng(n)
        table = pd.DataFrame(rng.integers(0, 2, (n, 5)), columns=list("abcde"))
        table["label"] = table.a ^ (table.b & table.c) ^ (rng.random(n) < 0.1)
        table.to_csv(folder / f"corels_{name}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def runs(tables):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREELEAK_DATA", str(tables))
        own = [Run("ferry", p, 1, ferry.path_of_models(p)) for p in GRID]
    # Runs of the other methods are stored: these stand for them.
    return as_frame(
        Run("ferry", {**run.parameters, "method": method}, 1, run.record)
        for method in ferry.METHODS
        for run in own
    )


# --------------------------------------------------------------------------------------- Ferry


def test_records_are_what_models_leave_open(runs, tables):
    table = pd.read_csv(tables / "corels_compas.csv")
    X, X_test, y, y_test = train_test_split(
        table[list("abcde")], table.label, test_size=0.2, random_state=1
    )
    schema = Schema.from_columns(X.columns)
    chosen = (runs.dataset == "compas") & (runs.method == "CART")
    record = runs[chosen & (runs.support == 0.1) & (runs.seed == 1)].iloc[0]
    model = DecisionTreeClassifier(max_depth=3, min_samples_leaf=32, random_state=2).fit(X, y)
    direct = from_tree(model, schema)
    assert (record.left[2], record.dist[2]) == (direct.dist_g(), direct.dist())
    assert record.train[2] == (model.predict(X) == y).mean()
    assert record.test[2] == (model.predict(X_test) == y_test).mean()
    assert record["size"][2] == len(direct.counts) - 1


def test_runs_of_other_learners_are_stored_and_not_made_anew():
    study = find_study("ferry-figure-3")
    assert not study.grid(quick=False)
    assert {p["method"] for p in study.whole} == set(ferry.LISTS)
    with pytest.raises(BadInput, match="its runs are stored"):
        study.run(study.whole[0])


@pytest.mark.parametrize("number", range(2, 8))
def test_every_figure_has_points_and_claims(runs, number):
    study = find_study(f"ferry-figure-{number}")
    own = runs[runs.method.isin({p["method"] for p in study.whole})]
    shown = study.tables(own)
    assert len({t.name for t in shown}) == len(shown)
    claims = shown[-1].frame
    assert set(claims.verdict) <= {AGREES, DIFFERS}
    assert claims["the paper says"].notna().all()


def hand_made(optimal, greedy):
    """Runs of ten lists each: size, accuracy and what is left, in straight lines."""
    sizes = np.arange(1, 11)
    return pd.DataFrame(
        [
            {
                "dataset": "adult", "method": method, "support": 0.01, "seed": 0, "size": sizes,
                "left": 1 - slope * sizes, "dist": 1 - slope * sizes, "train": 0.7 + gain * sizes,
                "test": sizes * 0.0, "proved": sizes > 0,
            }
            for method, (slope, gain) in (("optimal list", optimal), ("greedy list", greedy))
        ]
    )  # fmt: skip


def test_models_of_no_equal_accuracy_are_not_compared():
    own = hand_made((0.04, 0.02), (0.03, 0.01))
    own["train"] = [0.9 + 0.001 * np.arange(10), 0.7 + 0.001 * np.arange(10)]
    claims = find_study("ferry-figure-3").tables(own)[-1].frame
    assert claims["the paper says"].tolist() == ["of equal size, optimal models usually leave less"]


def test_a_missing_table_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TREELEAK_DATA", str(tmp_path))
    with pytest.raises(
        BadInput, match=r"corels_adult\.csv: no such file; TREELEAK_DATA .* publish"
    ):
        STUDIES["ferry-figure-2"].check()


# --------------------------------------------------------------------------------------- Gambs


@pytest.fixture(scope="module")
def records():
    grid = [{"learner": gambs.CART, "n_rows": 100, "seed": seed} for seed in (0, 1)]
    return as_frame(Run("gambs", p, 1, gambs.trees_on_more_and_more(p)) for p in grid)


def test_more_records_are_nearer_and_the_true_ones_a_world(records):
    record = records.iloc[0]
    assert all(record.worlds)
    assert record.dist[0] == 1.0
    assert record.dist[-1] < record.dist[5] < 1.0
    assert record.dist[-1] == pytest.approx(record.own[-1])


def test_distances_are_those_of_the_tree(records):
    schema, table, y = gambs.raw_adult()
    chosen = np.random.default_rng(1).permutation(len(table))[:100]
    X, y = table.iloc[chosen].reset_index(drop=True), y.iloc[chosen].reset_index(drop=True)
    tree = DecisionTreeClassifier(criterion="entropy", random_state=0).fit(X[:50], y[:50])
    direct = from_tree(tree, schema)
    record = records.iloc[1]
    at = record.trained_on.index(50)
    assert record.dist[at] == (50 * direct.dist() + 50) / 100
    assert (record.own[at], record.joint[at]) == (direct.dist(), direct.dist_g())
