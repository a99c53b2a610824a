"""Yardsticks without the counts of leaves, the margin over them, and what follows from it."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import treeleak
from helpers.hurried import walk_little
from treeleak import Binary, Numeric, Schema
from treeleak.auditing.assessors.baselines import BaselineComparison, compare, run_baselines
from treeleak.auditing.assessors.compared import measure_in_order
from treeleak.auditing.assessors.comparison import LEVEL, decide
from treeleak.auditing.assessors.measurement import Measurement
from treeleak.auditing.findings.finding import LEAK, NO_LEAK, OPEN, POSSIBLE
from treeleak.auditing.policy import Policy
from treeleak.core.errors import TimeUp
from treeleak.metrics.baseline import guessed_rows, measured_guesses
from treeleak.metrics.scores import Scores, paired_t_test
from treeleak.release import to_release

SCHEMA = treeleak.Schema(
    [
        treeleak.Binary("flag"),
        treeleak.OneHot("colour", ("red", "green", "blue")),
        treeleak.Numeric("age", 0, 100),
        treeleak.Ordinal("visits", 0, 20),
    ]
)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    colour = np.eye(3)[rng.integers(3, size=n)]
    return pd.DataFrame(
        {
            "flag": rng.integers(2, size=n).astype(float),
            "red": colour[:, 0],
            "green": colour[:, 1],
            "blue": colour[:, 2],
            "age": rng.uniform(0, 100, n).round(1),
            "visits": rng.integers(0, 21, size=n).astype(float),
        }
    )


# ------------------------------------------------------------------------------------ the margin


def test_the_margin_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    own, other = rng.random(30), rng.random(30) + 0.1
    expected = stats.ttest_rel(own, other, alternative="less").pvalue
    assert paired_t_test(own, other) == pytest.approx(expected)
    more = np.append(own, np.nan), np.append(other, 0.3)
    assert paired_t_test(*more) == pytest.approx(expected)
    assert paired_t_test(own, other, spread=1.0) > 0.3


@pytest.mark.slow
def test_chance_alone_passes_the_margin_as_rarely_as_it_says():
    """One of ten draws is tested against the others: by chance it is nearer in few cases."""
    X, passed = people(60), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        guess = measured_guesses(
            lambda s, rng: guessed_rows(SCHEMA, len(s), rng), X, SCHEMA, 5, seed
        )
        one = measured_guesses(
            lambda s, _, rng=rng: guessed_rows(SCHEMA, len(s), rng), X, SCHEMA, 1, seed
        )
        spread = guess.errors.std() * np.sqrt(1.2)
        passed += paired_t_test(one.row_errors, guess.row_errors, spread) <= 0.05
    assert passed <= 8  # 3 on average; more than 8 in one of 500 cases.


# ------------------------------------------------------------------------------------- yardsticks


def tried(X, control=None, given_=None):
    y = (X["age"] > 50).astype(int)
    release = to_release(DecisionTreeClassifier(random_state=0).fit(X, y))
    return {t.name: t for t in run_baselines(X, SCHEMA, release, control, 0, given_)}


def test_rows_of_the_population_are_no_nearer_than_the_population():
    X, control = people(80), people(1000, 1)
    own = measured_guesses(lambda s, rng: people(len(s), 7), X, SCHEMA, 1)
    held = compare(list(tried(X, control).values()), own.row_errors, own.row_misses)
    assert {y.name: y.nearer > LEVEL for y in held}["population"]
    perfect = compare(list(tried(X, control).values()), np.zeros(80), np.zeros(80))
    assert all(y.nearer <= LEVEL and y.more_rows <= LEVEL for y in perfect)


# --------------------------------------------------------------------------------------- in order


def test_rows_in_their_places_tell_of_people_or_not():
    X = people(120)
    group = np.arange(120) % 2
    open_ = np.ones(X.shape, dtype=bool)
    right = X.copy()
    right.loc[::3] = people(40, 5).to_numpy()
    found = measure_in_order(right, X, group, open_, SCHEMA, 0)
    assert found.nearer_than_others == 1 / 200
    assert found.nearer_than_usual < LEVEL
    other = measure_in_order(people(120, 9), X, group, open_, SCHEMA, 0)
    assert other.nearer_than_others > 0.005
    assert other.nearer_than_usual > 0.5
    assert measure_in_order(X, X, group, ~open_, SCHEMA, 0) is None


# ----------------------------------------------------------------------------------- the standing


def measured(error, *yardsticks, **more):
    held = tuple(
        BaselineComparison(name, knows, Scores(err, 0.0, err), 0.01, p, rows)
        for name, knows, err, p, rows in yardsticks
    )
    return Measurement(error, 0.0, 0.0, 0.2, 0.01, "so", yardsticks=held, **more)


RANDOM, MIDDLE = ("random", "schema", 0.2, 0.0, 1.0), ("middle", "people", 0.1, 0.0, 1.0)


def test_the_strongest_yardstick_decides():
    assert decide(measured(0.05, RANDOM, MIDDLE)).outcome == "people"
    assert decide(measured(0.09, RANDOM, MIDDLE)).outcome == "perhaps"
    by_chance = (*MIDDLE[:3], 2 * LEVEL, 1.0)
    assert decide(measured(0.05, RANDOM, by_chance)).outcome == "perhaps"
    weak = (*RANDOM[:3], 2 * LEVEL, 1.0)
    assert decide(measured(0.05, weak, MIDDLE)).outcome == "nothing"
    # Without anybody who knows the population nothing is sure.
    assert decide(measured(0.05, RANDOM)).outcome == "perhaps"
    assert decide(measured(0.05)).outcome == "nothing"


def test_rows_that_are_right_throughout_count_by_themselves():
    rows = [(*y[:3], 1.0, 0.0) for y in (RANDOM, MIDDLE)]
    found = decide(measured(0.3, *rows))
    assert found.outcome == "people"
    assert found.ways == ("rows",)


# --------------------------------------------------------------------- alarms that there were none


@pytest.mark.slow
def test_a_column_that_never_varies_does_not_hide_a_leak():
    # No tree can test it. Whoever knows the people knows its value, and the attack cannot.
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc")).round(1)
    X["same"] = 7.0
    y = (X.a > X.b) ^ (rng.random(60) < 0.2)
    model = ExtraTreesClassifier(40, random_state=0).fit(X, y)
    audit = treeleak.audit(model, X, y, time_limit=20)
    assert audit.verdict == LEAK
    assert audit.measurement.located_rows > 0.8
    assert audit.measurement.error < 0.02
    # Nor is its value claimed to be right. Where there is but one, rows and guesses are measured
    # alike: nobody learns it from the model.
    assert (audit.reconstruction.X["same"] != 7.0).all()
    rows, guess = audit.measurement.scores, audit.measurement.yardsticks[0].scores
    assert guess.numbers.exact < 0.3 < 0.7 < rows.numbers.exact


@pytest.mark.parametrize(("load", "control"), [(load_breast_cancer, False), (load_wine, True)])
@pytest.mark.slow
def test_large_leaves_on_raw_numbers_are_no_leak(load, control):
    """A guess spread evenly over each column's range errs far more than the rebuilt rows do."""
    X, y = load(return_X_y=True, as_frame=True)
    X = X.iloc[:, :6]
    own = X.sample(80, random_state=1)
    forest = RandomForestClassifier(30, min_samples_leaf=12, bootstrap=False, random_state=0).fit(
        own, y[own.index]
    )
    others = X.drop(own.index) if control else None
    found = treeleak.audit(forest, own, y[own.index], time_limit=2, control=others)
    m = found.measurement
    assert m.error < m.guess_mean - 3 * m.guess_sd
    # Shadow models of half of the rows may tell who was among them; the rows do not.
    shown = {f.part for f in found.findings if f.verdict == LEAK}
    assert shown <= {"membership"}, found.headline
    assert "values are wrong" not in found.headline


def test_a_table_of_many_alike_is_a_statistic():
    """The file proves all rows, and each is like ten others."""
    X = pd.DataFrame({"a": np.repeat([0, 1], 40), "b": np.tile(np.repeat([0, 1], 20), 2)})
    y = X["a"].to_numpy()
    schema = treeleak.Schema.from_columns(["a", "b"])
    forest = RandomForestClassifier(10, bootstrap=False, random_state=0).fit(X, X["a"] ^ X["b"])
    found = treeleak.audit(forest, schema=schema)
    assert found.reconstruction.status == "unique"
    assert found.verdict == NO_LEAK
    assert "this is a statistic" in found.headline
    # One person more, of whom there are none alike.
    X = pd.concat([X, pd.DataFrame({"a": [1], "b": [1]})], ignore_index=True)
    y = (X["a"] ^ X["b"]).to_numpy().copy()
    y[-1] = 1 - y[-1]
    forest = RandomForestClassifier(10, bootstrap=False, random_state=0).fit(X, y)
    found = treeleak.audit(forest, schema=schema)
    assert found.reconstruction.status == "unique"
    assert found.verdict == LEAK


def test_people_like_nine_others_are_told_of_by_nothing():
    """A fine table of many alike is met exactly: control rows never are, and that is no leak."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (600, 3)), columns=["a", "b", "c"])
    y = rng.integers(0, 2, 600)
    forest = RandomForestClassifier(10, bootstrap=False, min_samples_leaf=20, random_state=0)
    control = pd.DataFrame(rng.integers(0, 2, (2000, 3)), columns=["a", "b", "c"])
    schema = treeleak.Schema.from_columns(["a", "b", "c"])
    found = treeleak.audit(forest.fit(X, y), X, y, schema=schema, control=control, time_limit=10)
    assert found.verdict == NO_LEAK, found.headline
    assert found.measurement.exact_rows > 0.9
    assert all(y.nearer == 1.0 for y in found.measurement.yardsticks)


@pytest.mark.slow
def test_what_was_broken_off_never_reads_as_no_leak(monkeypatch):
    X = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 4)), columns=list("abcd"))
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, X["a"])

    def late(*_args, **_more):
        raise TimeUp("the time limit of 1 s was reached")

    schema = treeleak.Schema.from_columns(list("abcd"))
    assert treeleak.audit(tree, X, X["a"], schema=schema).verdict == NO_LEAK
    for module, part in (
        ("isolation", "proved_alone"),
        ("comparison", "errors_of"),
        ("comparison", "with_baselines"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(sys.modules[f"treeleak.auditing.assessors.{module}"], part, late)
            found = treeleak.audit(tree, X, X["a"], schema=schema)
        assert found.verdict == OPEN, part
        ruling = treeleak.judge(found, Policy("p", {"proved_alone": 0.0}))
        assert not ruling.passed


def test_a_possible_leak_fails_a_policy_that_does_not_allow_it(leaking, tmp_path):
    found = replace(leaking, verdict=POSSIBLE)
    (tmp_path / "p.toml").write_text('name = "p"\n[limits]\nstored_rows = 0\n')
    ruling = treeleak.judge(found, treeleak.read_policy(tmp_path / "p.toml"))
    assert not ruling.passed
    assert {c.key: c.state for c in ruling.checks}["possible_leak"] == "violated"
    (tmp_path / "q.toml").write_text(
        'name = "q"\nallow_possible_leak = true\n[limits]\nstored_rows = 0\n'
    )
    ruling = treeleak.judge(found, treeleak.read_policy(tmp_path / "q.toml"))
    assert {c.key: c.state for c in ruling.checks}["possible_leak"] == "met"


# --------------------------------------------------------------------- columns that no tree tests


def _people(seed: int, free: int, n: int = 50) -> tuple[pd.DataFrame, np.ndarray, Schema]:
    """Make people with two numbers, and flags that are half ones."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"x{k}": rng.normal(50.0, 15.0, n).round(1) for k in range(2)})
    y = ((X["x0"] + X["x1"] > 100) ^ (rng.random(n) < 0.1)).to_numpy(dtype=int)
    flags = [f"b{k}" for k in range(free)]
    X[flags] = (rng.random((n, free)) < 0.5).astype(float)
    attributes = [Numeric(c, 0.0, 110.0) for c in ("x0", "x1")]
    return X, y, Schema([*attributes, *map(Binary, flags)])


def _audit(X: pd.DataFrame, y: np.ndarray, schema: Schema, **settings: object) -> treeleak.Audit:
    """Audit trees that looked at the numbers alone."""
    seen = X.assign(**{c: 0.0 for c in X if c.startswith("b")})
    trees = ExtraTreesClassifier(20, random_state=0, **settings).fit(seen, y)
    return treeleak.audit(trees, X, y, schema=schema, time_limit=10.0)


@pytest.fixture(scope="module")
def leaking() -> treeleak.Audit:
    with pytest.MonkeyPatch.context() as patch:
        walk_little(patch)
        return _audit(*_people(0, free=12))


def test_columns_that_no_tree_tests_hide_no_leak(leaking):
    m = leaking.measurement
    assert decide(m).outcome == "people"
    assert decide(replace(m, on_tested=None)).outcome != "people"
    assert m.on_tested.left_out == 12
    assert m.on_tested.pairs.columns == ("x0", "x1")
    # Over all columns, half of the flags are wrong, and the usual values of like people are nearer.
    assert m.error > min(y.scores.error for y in m.yardsticks) > 0.05 > m.on_tested.error
    said = [str(text) for f in leaking.findings if f.verdict == LEAK for text in f.messages]
    assert sum("holds nothing of 12 of the 14 columns" in text for text in said) == 1
