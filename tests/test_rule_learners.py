"""Rule lists: the greedy one takes the best rule at each step, the optimal one is optimal."""

from __future__ import annotations

import itertools
import os
import signal
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import experiments.learners.subcubes as subcubes
from experiments.learners import GreedyRuleList, OptimalRuleList
from helpers.examples import examples
from helpers.tables import Rows, errors, random_table, shared_file, tables
from treeleak.core.errors import BadInput, NotProvedWarning


def captured(rule: Any, X: np.ndarray) -> np.ndarray:
    met = np.ones(len(X), dtype=bool)
    for c in rule.conditions:
        met &= X[:, int(c.column[1:])] == c.values[0]
    return met


def greedy_score(y: np.ndarray, met: np.ndarray) -> Fraction:
    def gini(part: np.ndarray) -> Fraction:
        return 1 - sum(Fraction(int(n), len(part)) ** 2 for n in np.bincount(part))

    return sum(gini(part) * len(part) for part in (y[met], y[~met]) if len(part))


# ----------------------------------------------------------------------------------- greedy


@examples(80, fast=10)
@given(tables(), st.integers(1, 3), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
def test_each_rule_is_the_first_of_the_best(
    rows: Rows, width: int, support: float, negations: bool
):
    X, y = rows
    n = len(y)
    model = GreedyRuleList(5, max_width=width, min_support=support, negations=negations).fit(X, y)
    sides = (1, 0) if negations else (1,)
    left = np.ones(n, dtype=bool)
    steps = iter([*model.rule_list_.rules, None])
    for _ in range(6):
        best, chosen = greedy_score(y[left], left[left]), None
        for w in range(1, width + 1):
            for columns in itertools.combinations(range(X.shape[1]), w):
                for values in itertools.product(sides, repeat=w):
                    met = (X[left][:, columns] == values).all(axis=1)
                    if met.sum() < 1 or met.sum() / n < support:
                        continue
                    score = greedy_score(y[left], met)
                    if score < best:
                        best, chosen = score, tuple(zip(columns, values, strict=True))
        rule = next(steps)
        if rule is None:
            assert chosen is None or len(model.rule_list_.rules) == 5
            break
        assert chosen is not None
        assert [(f"x{c}", (float(v),)) for c, v in chosen] == [
            (c.column, c.values) for c in rule.conditions
        ]
        left &= ~captured(rule, X)


def test_the_rest_may_be_smaller_than_the_support():
    X = np.array([[1]] * 9 + [[0]])
    model = GreedyRuleList(min_support=0.5).fit(X, [0] * 9 + [1])
    assert [r.counts for r in model.rule_list_.rules] == [(9, 0)]
    assert model.rule_list_.default.counts == (0, 1)
    assert model.score(X, [0] * 9 + [1]) == 1.0


def test_a_share_that_is_no_whole_number_of_rows_is_rounded_up():
    X = np.array([[1]] * 3 + [[0]] * 7)
    y = [1] * 3 + [0] * 7
    for learner in (GreedyRuleList, OptimalRuleList):
        sizes = {
            support: sum(learner(min_support=support).fit(X, y).rule_list_.rules[0].counts)
            for support in (0.3, 0.31)
        }
        assert sizes == {0.3: 3, 0.31: 7}


# ---------------------------------------------------------------------------------- optimal


def best_list(X: np.ndarray, y: np.ndarray, rules: int, least: int) -> int:
    """Least error over all lists, by trying them all."""
    best = errors(y)
    if rules:
        for j, v in itertools.product(range(X.shape[1]), (0, 1)):
            met = X[:, j] == v
            if met.sum() >= least:
                rest = best_list(X[~met], y[~met], rules - 1, least)
                best = min(best, errors(y[met]) + rest)
    return best


@examples(150, fast=18)
@given(tables(), st.integers(1, 4), st.sampled_from([0.0, 0.1, 0.25, 0.5]))
def test_no_list_is_better_and_none_as_good_is_shorter(rows: Rows, rules: int, support: float):
    X, y = rows
    least = max(1, next(k for k in range(len(y) + 1) if k / len(y) >= support))
    path = OptimalRuleList(rules, min_support=support).path(X, y)
    shortest = [best_list(X, y, k, least) for k in range(rules + 1)]
    for k, model in enumerate(path, 1):
        assert model.max_rules == k
        assert model.optimal_
        assert round((1 - model.score(X, y)) * len(y)) == shortest[k]
        assert round((1 - model.bound_) * len(y)) == shortest[k]
        found = model.rule_list_
        assert len(found.rules) == shortest.index(shortest[k])
        assert all(sum(rule.counts) >= least for rule in found.rules)
    one = OptimalRuleList(rules, min_support=support).fit(X, y)
    assert one.rule_list_.rules == path[-1].rule_list_.rules
    assert one.n_states_ == path[-1].n_states_


@pytest.mark.parametrize("learner", [GreedyRuleList, OptimalRuleList])
@pytest.mark.parametrize("classes", [2, 3])
def test_counts_are_those_of_the_rows_and_predictions_their_majority(learner: Any, classes: int):
    X, y = random_table(300, 6, classes=classes)
    model = learner(4, min_support=0.05).fit(X, y)
    frame = pd.DataFrame(X, columns=model.feature_names_in_)
    again = model.rule_list_.counted(frame, y)
    assert [r.counts for r in again.rules] == [r.counts for r in model.rule_list_.rules]
    assert again.default.counts == model.rule_list_.default.counts
    for rule in (*again.rules, again.default):
        assert rule.prediction == np.argmax(rule.counts)
    assert model.rule_list_.n_rows == 300
    assert np.array_equal(model.predict(X), model.rule_list_.predict(frame))


@pytest.mark.parametrize("learner", [GreedyRuleList, OptimalRuleList])
def test_more_rules_are_never_worse(learner: Any):
    X, y = random_table(400, 8)
    scores = [learner(k, min_support=0.02).fit(X, y).score(X, y) for k in range(1, 7)]
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]


def test_more_columns_than_fit_one_word():
    X, y = random_table(200, 5, classes=3)
    blank = np.zeros((200, 40), dtype=int)
    wide = np.hstack([blank, X, blank, X])
    narrow = OptimalRuleList(4, min_support=0.05).fit(X, y)
    model = OptimalRuleList(4, min_support=0.05).fit(wide, y)
    assert model.score(wide, y) == narrow.score(X, y)
    assert model.n_states_ == narrow.n_states_
    # Of columns that are equal, the first is taken.
    used = [int(c.column[1:]) - 40 for r in model.rule_list_.rules for c in r.conditions]
    assert used == [int(c.column[1:]) for r in narrow.rule_list_.rules for c in r.conditions]


def test_permuted_rows_and_repeated_runs_give_the_same_list():
    X, y = random_table(300, 8)
    order = np.random.default_rng(1).permutation(300)
    for learner in (GreedyRuleList(max_width=2), OptimalRuleList(5)):
        lists = [clone(learner).fit(X[o], y[o]).rule_list_ for o in (order, slice(None))]
        assert lists[0].rules == lists[1].rules


def test_arrays_that_grow_change_nothing(monkeypatch: pytest.MonkeyPatch):
    X, y = random_table(300, 8)
    before = OptimalRuleList(5, min_support=0.0).fit(X, y)
    monkeypatch.setattr(subcubes, "FIRST_ROOM", 1)
    monkeypatch.setattr(subcubes, "WORK", 1)
    after = OptimalRuleList(5, min_support=0.0).fit(X, y)
    assert after.rule_list_.rules == before.rule_list_.rules
    assert after.n_states_ == before.n_states_ > 1000


# ------------------------------------------------------------------------------ interruption


@pytest.mark.parametrize("limits", [{"max_states": 1}, {"time_limit": 0}, {"max_states": 60}])
def test_a_search_that_is_ended_hands_over_its_best_and_says_so(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
):
    monkeypatch.setattr(subcubes, "WORK", 1)
    X, y = random_table(500, 9, seed=3, classes=3)
    best = OptimalRuleList(6).fit(X, y)
    greedy = GreedyRuleList(6).fit(X, y)
    with pytest.warns(NotProvedWarning, match="max_rules=6 may not be the best"):
        model = OptimalRuleList(6, **limits).fit(X, y)
    assert not model.optimal_
    assert model.n_states_ < best.n_states_
    assert greedy.score(X, y) <= model.score(X, y) <= best.score(X, y) <= model.bound_


def test_what_is_proved_before_the_end_stays_proved():
    X, y = random_table(500, 9, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotProvedWarning)
        path = OptimalRuleList(6, max_states=1).path(X, y)
    assert path[0].optimal_
    assert not path[-1].optimal_


def test_ctrl_c_keeps_the_best(monkeypatch: pytest.MonkeyPatch):
    expand = subcubes.expand

    def interrupted(*args: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return int(expand(*args))

    X, y = random_table(500, 9, seed=3)
    monkeypatch.setattr(subcubes, "WORK", 1)
    monkeypatch.setattr(subcubes, "expand", interrupted)
    with pytest.warns(NotProvedWarning):
        model = OptimalRuleList(6).fit(X, y)
    assert model.score(X, y) >= GreedyRuleList(6).fit(X, y).score(X, y)


# ------------------------------------------------------------------------------------ input


@pytest.mark.parametrize("learner", [GreedyRuleList, OptimalRuleList])
@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        ([[0.0, 1.0], [1.0, np.nan]], [0, 1], "column 'x1', row 1: no value"),
        ([[0, 1], [2, 0]], [0, 1], "column 'x0', row 1: 2, neither 0 nor 1"),
        ([["a", 1], [0, 0]], [0, 1], "column 'x0', row 0: a, neither 0 nor 1"),
        (np.zeros((0, 2)), [], "nothing to train on"),
        ([0, 1], [0, 1], "shape"),
        ([[0], [1]], [0, 1, 1], "y has shape"),
        ([[0], [1]], [0, np.nan], "row 1 has no label"),
        ([[0], [1]], np.array([0, "a"], dtype=object), "labels are of several kinds"),
        (pd.DataFrame([[0, 1]], columns=["a", "a"]), [0], "two columns have one name: 'a'"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_by_column(learner: Any, X: Any, y: Any, says: str):
    with pytest.raises(BadInput, match=says):
        learner().fit(X, y)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (GreedyRuleList(0), "max_rules must be from 1 to"),
        (OptimalRuleList(2.0), "max_rules must be a whole number"),
        (GreedyRuleList(max_width=0), "max_width must be at least 1"),
        (GreedyRuleList(min_support=1.5), "min_support must be a share"),
        (OptimalRuleList(min_support=float("nan")), "min_support must be a share"),
        (GreedyRuleList(negations="no"), "negations must be True or False"),
        (OptimalRuleList(max_states=0), "max_states must be at least 1"),
        (OptimalRuleList(time_limit=-1), "time_limit must be a number of seconds"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused_by_name(model: Any, says: str):
    with pytest.raises(BadInput, match=says):
        model.fit([[0], [1]], [0, 1])


@pytest.mark.parametrize("learner", [GreedyRuleList, OptimalRuleList])
def test_columns_are_found_by_name(learner: Any):
    X, y = random_table(200, 5)
    frame = pd.DataFrame(X.astype(bool), columns=list("abcde"))
    model = learner(3).fit(frame, np.where(y, "yes", "no"))
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(model.predict(frame[list("edcba")]), model.predict(frame))
    assert np.array_equal(model.predict(X), model.predict(frame))
    with pytest.raises(BadInput, match="not those of the model"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(BadInput, match="5 columns"):
        model.predict(X[:, :3])
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.shared
def test_lists_on_compas_are_proved_optimal():
    table = pd.read_csv(shared_file("corels_compas.csv"))
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
    path = OptimalRuleList(4, min_support=0.03).path(X, y)
    assert all(model.optimal_ for model in path)
    greedy = GreedyRuleList(4, min_support=0.03).fit(X, y)
    assert path[-1].score(X, y) > greedy.score(X, y)
