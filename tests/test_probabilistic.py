"""Probabilistic datasets: the papers' examples, what is refused, and odd users."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import BaggingClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from helpers.examples import examples
from helpers.ferry import LIST_X, TOY, TOY_SCHEMA, TOY_X, TOY_Y
from helpers.releases import tree_of
from treeleak.core.errors import BadInput, BadModel, BadSchema, NotCovered, PrivacyWarning
from treeleak.learn import DPForestClassifier
from treeleak.release import (
    AllRows,
    Condition,
    DecisionRule,
    Release,
    RuleList,
    write_rules,
)
from treeleak.schema import AtMost, Binary, Categorical, Numeric, OneHot, Ordinal, Schema
from treeleak.uncertainty import ProbabilisticDataset, from_rule_list, from_tree
from treeleak.uncertainty.regions import FirstMatch

LIST_Y = [1, 1, 0, 0, 1]


def stump(
    counts: list[list[float]], threshold: float = 0.5, names: tuple[str, ...] = ("a",), **more: Any
) -> Release:
    """A tree of one test, of the first column."""
    tree = tree_of((0, threshold), None, None).with_counts(counts=np.array(counts, dtype=float))
    n = int(sum(counts[0]))
    return Release((tree,), names, (0, 1), AllRows(), **{"n_rows": n} | more)


def figure_1() -> ProbabilisticDataset:
    return from_tree(TOY, TOY_SCHEMA)


def values_in(data: ProbabilisticDataset, group: int) -> list[set[float]]:
    """Values of each attribute that are possible by themselves."""
    matches, taking = data.region(group)
    return [
        set(axis.values[mask, 0].tolist())
        for axis, mask in zip(data.space.axes, matches.possible(taking), strict=True)
        if axis.values is not None
    ]


def rule(*conditions: Condition, counts: tuple[int, ...] | None = None) -> DecisionRule:
    return DecisionRule(conditions, 1, counts)


def rules(
    *said: DecisionRule, default: tuple[int, ...] | None = (1, 1), n: int = 3, **more: Any
) -> RuleList:
    columns = tuple(f"a{i + 1}" for i in range(n))
    return RuleList(columns, (0, 1), said, DecisionRule((), 0, default), **more)


def one(column: str, value: float | str = 1, negated: bool = False) -> Condition:
    return Condition(column, (value,), negated=negated)


# What the papers print.


def test_ferrys_tree_cell_by_cell() -> None:
    data = figure_1()
    assert data.names == ("leaf 1", "leaf 3", "leaf 4")
    assert data.counts.tolist() == [[0, 1, 0], [0, 1, 0], [2, 0, 0]]
    assert values_in(data, 0) == [{10, 11, 12, 13, 14, 15}, {0, 1}, {1}]
    assert values_in(data, 1) == [{10, 11}, {0, 1}, {2, 3}]
    assert values_in(data, 2) == [{12, 13, 14, 15}, {0, 1}, {2, 3}]
    assert data.dist() == pytest.approx(0.736, abs=5e-4)
    # x3 alone: a1 is one of two out of six.
    x3 = replace(data, counts=np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]]))
    cell = 3 * x3.dist() - 1 - math.log(2) / math.log(3)
    assert cell == pytest.approx(0.387, abs=5e-4)
    assert data.points == (12, 8, 16)
    assert data.n_worlds == 12 * 8 * 16**2
    assert data.dist_g() == pytest.approx(math.log(12 * 8 * 16**2) / (4 * math.log(36)))
    assert data.contains(TOY_X, TOY_Y)
    assert not data.contains(TOY_X, [0, 1, 0, 1])


# What is refused.


@pytest.mark.parametrize(
    ("given_", "why"),
    [
        ([[3, 2], [1, 2], [2, 1]], r"node 0 counts \[3, 2\] rows, .*\[3, 3\].*do not add up"),
        ([[3, 2], [4, 2], [-1, 0]], "node 2 counts fewer than 0 rows"),
    ],
)
def test_supports_of_a_tree_must_add_up(given_: list[list[float]], why: str) -> None:
    with pytest.raises(BadModel, match=why):
        from_tree(stump(given_), Schema([Binary("a")]))


def test_the_root_counts_the_rows_of_the_model() -> None:
    with pytest.raises(BadModel, match=r"root counts 5 rows, the model says 6.*do not add up"):
        from_tree(stump([[3, 2], [1, 2], [2, 0]], n_rows=6), Schema([Binary("a")]))


def test_rows_in_a_leaf_that_nothing_reaches_are_infeasible() -> None:
    # Two tests of the same 0/1 column of a group, on the way to one leaf.
    counts = np.array([[3, 0], [1, 0], [2, 0], [1, 0], [1, 0]], dtype=float)
    tree = tree_of((0, 0.5), None, (1, 0.5), None, None).with_counts(counts=counts)
    release = Release((tree,), ("a", "b"), (0, 1), AllRows(), 3)
    free = Schema.from_columns(["a", "b"])
    assert from_tree(release, free).n_rows == 3
    grouped = Schema.from_columns(["a", "b"], one_hot=[["a", "b"]])
    ruled = Schema(free.attributes, [AtMost(("a", "b"), 1)])
    for schema in (grouped, ruled):
        with pytest.raises(BadModel, match="infeasible: leaf 4 holds 1 rows"):
            from_tree(release, schema)


def test_groups_of_a_set_must_not_overlap() -> None:
    said = [rule(one("a1"), counts=(0, 1)), rule(one("a2"), counts=(1, 0))]
    with pytest.raises(BadModel, match=r"rules 1 and 2 of a set overlap, and both count"):
        from_rule_list(rules(*said, ordered=False))
    apart = [said[0], rule(one("a2"), one("a1", negated=True), counts=(1, 0))]
    assert from_rule_list(rules(*apart, ordered=False)).points == (4, 2, 2)
    # The schema may keep them apart.
    schema = Schema([OneHot("g", ("a1", "a2", "a3"))])
    assert from_rule_list(rules(*said, ordered=False), schema).points == (1, 1, 1)


def test_a_rule_that_contradicts_itself_is_named() -> None:
    with pytest.raises(BadModel, match=r"rule 1 contradicts itself.*'a1'"):
        rules(rule(one("a1"), one("a1", negated=True), counts=(1, 0)))
    # By the domain only.
    schema = Schema([Ordinal("a1", 1, 3), Binary("a2"), Binary("a3")])
    twice = rule(one("a1", 1, True), one("a1", 2, True), one("a1", 3, True), counts=(0, 0))
    with pytest.raises(BadModel, match="rule 1 contradicts itself in 'a1'"):
        from_rule_list(rules(twice), schema)
    # By a group of columns.
    grouped = Schema([OneHot("g", ("a1", "a2", "a3"))])
    with pytest.raises(BadModel, match="rule 1 contradicts itself in 'a2'"):
        from_rule_list(rules(rule(one("a1"), one("a2"), counts=(0, 0))), grouped)


@pytest.mark.parametrize(
    ("condition", "attribute"),
    [
        (Condition("a1", above=3), Ordinal("a1", 0, 3)),
        (Condition("a1", upto=10), Numeric("a1", 0, 10)),
        (Condition("a1", upto=5000), Ordinal("a1", 0, 4000)),
        (one("a1", 7), Ordinal("a1", 0, 3)),
        (one("a1", "cook"), Categorical("a1", labels=("clerk", "nurse"))),
        (one("a1", 7.5), Ordinal("a1", 0, 4000)),
        (one("a1", 7), Numeric("a1", 0, 10)),
    ],
)
def test_rules_outside_of_the_domain_are_refused(condition: Condition, attribute: Any) -> None:
    with pytest.raises(BadSchema, match="'a1'"):
        from_rule_list(rules(rule(condition, counts=(1, 0)), n=1), Schema([attribute]))


@pytest.mark.parametrize("bounds", [(0, math.inf), (-math.inf, 0), (-math.inf, math.inf)])
def test_columns_without_bounds_are_refused_by_name(bounds: tuple[float, float]) -> None:
    schema = Schema([Numeric("money", *bounds), Binary("a")])
    for make in (
        lambda: from_tree(stump([[1, 1], [0, 1], [1, 0]], names=("a", "money")), schema),
        lambda: from_rule_list(
            RuleList(("money", "a"), (0, 1), (), DecisionRule((), 0, (1, 1))), schema
        ),
    ):
        with pytest.raises(BadSchema, match="column 'money' has no bounds"):
            make()


def models_that_are_refused() -> list[tuple[Any, str]]:
    X, y = LIST_X, LIST_Y
    tree = DecisionTreeClassifier()
    return [
        (RandomForestClassifier(3).fit(X, y), "3 trees"),
        (RandomForestClassifier(1).fit(X, y), "drawn at random"),
        (BaggingClassifier(tree, n_estimators=1).fit(X, y), "drawn at random"),
        (RandomForestClassifier(1, bootstrap=False, max_samples=None).fit(X, y), ""),
        (GradientBoostingClassifier(n_estimators=1).fit(X, y), ""),
        (DecisionTreeClassifier().fit(X, y, sample_weight=[1, 2, 0.5, 1, 1]), "weights, not rows"),
        (rules(), "from_rule_list"),
        (None, "NoneType"),
    ]


@pytest.mark.parametrize(("model", "why"), models_that_are_refused())
def test_other_models_are_refused_with_the_reason(model: Any, why: str) -> None:
    if not why:
        assert from_tree(model, Schema.from_columns(LIST_X)).contains(LIST_X, LIST_Y)
        return
    with pytest.raises(NotCovered, match=why):
        from_tree(model, Schema.from_columns(LIST_X))


def test_rows_without_labels_and_labels_without_rows_are_refused(tmp_path: Path) -> None:
    bare = rules(rule(one("a1")), default=None)
    with pytest.raises(NotCovered, match="give X and y"):
        from_rule_list(bare)
    with pytest.raises(BadInput, match="labels without rows"):
        from_rule_list(bare, y=LIST_Y)
    with pytest.raises(BadInput, match="rows without labels"):
        from_rule_list(bare, X=LIST_X)
    with pytest.raises(BadInput, match="labels without rows"):
        from_tree(stump([[1, 1], [0, 1], [1, 0]]), Schema([Binary("a")]), y=[1])
    with pytest.raises(BadInput, match="5 rows with 2 labels"):
        from_rule_list(bare, X=LIST_X, y=[0, 1])
    with pytest.raises(BadInput, match="label 7 is not a class"):
        from_rule_list(bare, X=LIST_X, y=[0, 1, 7, 0, 0])
    with pytest.raises(BadInput, match="lack 2 columns of the model: 'a1', 'a3'"):
        from_rule_list(bare, X=LIST_X[["a2"]], y=LIST_Y)
    counted = from_rule_list(bare, X=LIST_X, y=LIST_Y)
    assert counted.counts.tolist() == [[1, 3, 0], [1, 0, 0]]
    write_rules(bare.counted(LIST_X, LIST_Y), tmp_path / "rules.json")
    assert from_rule_list(tmp_path / "rules.json").n_worlds == counted.n_worlds
    with pytest.raises(BadModel, match=r"none\.json"):
        from_rule_list(tmp_path / "none.json")
    for odd in (None, 3, DecisionTreeClassifier()):
        with pytest.raises(NotCovered, match="is not a rule list"):
            from_rule_list(odd)


def test_rows_are_counted_by_the_schema() -> None:
    schema = Schema([Categorical("job", labels=("clerk", "nurse"))])
    for value in ("nurse", 1):
        said = RuleList(("job",), (0, 1), (rule(one("job", value)),), DecisionRule((), 0))
        for jobs in (["nurse", "clerk", "nurse"], [1, 0, 1]):
            data = from_rule_list(said, schema, pd.DataFrame({"job": jobs}), [1, 0, 1])
            assert data.counts.tolist() == [[0, 2, 0], [1, 0, 0]]
    with pytest.raises(BadInput, match=r"row 1: the value of 'job' lies outside"):
        from_rule_list(said, schema, pd.DataFrame({"job": [1, 7]}), [1, 0])


def test_rules_of_a_set_that_overlap_are_counted_together() -> None:
    said = rules(rule(one("a1")), rule(one("a2")), default=None, ordered=False)
    data = from_rule_list(said, X=LIST_X, y=LIST_Y)
    assert data.names == ("covered", "default")
    assert data.points == (6, 2)
    assert data.counts.tolist() == [[2, 3, 0], [0, 0, 0]]
    assert data.contains(LIST_X, LIST_Y)


# Rows of which everything is known, and merging.


# Odd users.


# Noise, size, other origins.


@pytest.mark.parametrize("epsilon", [0.5, 50.0])
def test_behind_noise_the_truth_is_near_a_world(epsilon: float) -> None:
    rng = np.random.default_rng(0)
    names = [f"b{i}" for i in range(5)]
    X = pd.DataFrame(rng.integers(0, 2, (200, 5)), columns=names)
    y = rng.integers(0, 2, 200)
    schema = Schema.from_columns(names)
    model = DPForestClassifier(
        1, max_depth=2, epsilon=epsilon, schema=schema, classes=(0, 1), random_state=3
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(X, y)
    data = from_tree(model, schema)
    assert any("noise" in note for note in data.notes)
    exact = bool(epsilon > 10)
    assert data.contains(X, y) == exact
    far = data.distance(X, y)
    assert (far == 0) == exact
    assert far < 0.1
    # At least the rows that are too many or too few.
    assert far >= abs(data.n_rows - 200) / max(data.n_rows, 200)


def test_rows_that_noise_put_where_no_row_can_be_are_left_out() -> None:
    names = ["a", "b", "c", "d"]
    X = pd.DataFrame(np.eye(4, dtype=int)[np.arange(80) % 4], columns=names)
    # Trees from a schema in which columns may be 1 together, and an audit that knows better.
    model = DPForestClassifier(
        1, max_depth=3, epsilon=1, schema=Schema.from_columns(names), classes=(0, 1), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(X, np.arange(80) % 2)
    data = from_tree(model, Schema([OneHot("letter", tuple(names))]))
    assert any("that the noise put into leaves" in note for note in data.notes)
    assert data.support[np.isneginf(data.group_bits)].sum() == 0
    assert 0 <= data.dist_g() <= 1
    assert data.distance(X) < 0.7


@pytest.mark.slow
def test_so_many_rules_or_pairs_are_refused_before_they_take_memory() -> None:
    rule = DecisionRule((Condition("a1", (1.0,)),), 1, (0, 0))
    many = RuleList(("a1",), (0, 1), (rule,) * 2001, DecisionRule((), 0, (1, 0)))
    with pytest.raises(NotCovered, match="2,001 rules; up to 2,000"):
        from_rule_list(many)
    columns = [f"c{i}" for i in range(12)]
    X = pd.DataFrame((np.arange(4096)[:, None] >> np.arange(12)) & 1, columns=columns)
    tree = DecisionTreeClassifier().fit(X, X.sum(axis=1) % 2)
    data = from_tree(tree, Schema.from_columns(columns))
    with pytest.raises(NotCovered, match="4,097 x 4,097"):
        data.distance(X)


# --------------------------------------------------------------- counting what ordered rules take


SEEDS = st.integers(0, 2**32 - 1)


def random_list(rng, n_axes, n_rules, most_atoms=4, width=3, largest=3):
    """Sizes, a box and rules; some rules test nothing, some hold no point."""
    n_atoms = rng.integers(1, most_atoms + 1, n_axes)
    sizes = tuple(rng.integers(0 if rng.random() < 0.1 else 1, largest + 1, n) for n in n_atoms)
    box = tuple(rng.random(n) < 0.9 for n in n_atoms)
    rules = []
    for _ in range(n_rules):
        tested = rng.choice(
            n_axes,
            min(rng.integers(0 if rng.random() < 0.1 else 1, width + 1), n_axes),
            replace=False,
        )
        rules.append({int(k): rng.random(n_atoms[k]) < 0.6 for k in tested})
    return sizes, box, rules


def binary_list(rng, n_axes, n_rules):
    """Rules of width 3 over axes of two values."""
    sizes = (np.ones(2, dtype=np.int64),) * n_axes
    box = (np.ones(2, dtype=bool),) * n_axes
    rules = [
        {int(k): np.arange(2) == rng.integers(2) for k in rng.choice(n_axes, 3, replace=False)}
        for _ in range(n_rules)
    ]
    return sizes, box, rules


def first(rules, point):
    """Find the first rule that holds a point."""
    taking = (j for j, r in enumerate(rules) if all(m[point[k]] for k, m in r.items()))
    return next(taking, len(rules))


def captured(sizes, box, rules):
    return list(FirstMatch(sizes, box, rules).counts)


def by_points(sizes, box, rules):
    """Give every point to the first rule that holds it."""
    out = [0] * (len(rules) + 1)
    for point in itertools.product(*(np.flatnonzero(m) for m in box)):
        out[first(rules, point)] += math.prod(int(s[v]) for s, v in zip(sizes, point, strict=True))
    return out


@examples(150, fast=18)
@given(SEEDS)
def test_every_point_goes_to_the_first_rule_that_holds_it(seed):
    rng = np.random.default_rng(seed)
    sizes, box, rules = random_list(rng, rng.integers(1, 6), rng.integers(0, 9))
    assert captured(sizes, box, rules) == by_points(sizes, box, rules)


@examples(100, fast=12)
@given(SEEDS)
def test_values_and_changes_are_those_of_all_points(seed):
    rng = np.random.default_rng(seed)
    sizes, box, rules = random_list(rng, rng.integers(1, 5), rng.integers(0, 8))
    matches = FirstMatch(sizes, box, rules)
    taken = [[] for _ in range(len(rules) + 1)]
    held = [np.flatnonzero(m & (s > 0)) for m, s in zip(box, sizes, strict=True)]
    for point in itertools.product(*held):
        taken[first(rules, point)].append(point)
    some = rng.choice(len(taken), rng.integers(1, len(taken) + 1), replace=False).tolist()
    points = np.array([p for j in some for p in taken[j]]).reshape(-1, len(box))
    possible = matches.possible(some)
    assert [np.flatnonzero(m).tolist() for m in possible] == [
        np.unique(points[:, k]).tolist() for k in range(len(box))
    ]
    other = np.array([rng.integers(-1, len(m)) for m in box])
    least = (points != other).sum(axis=1).min(initial=len(box) + 1)
    assert matches.changes_to(other, some) == least


@pytest.mark.slow
def test_stops_where_rules_overlap_in_too_many_ways():
    sizes, box, rules = binary_list(np.random.default_rng(0), 60, 120)
    with pytest.raises(NotCovered, match="not counted: 120 rules overlap"):
        captured(sizes, box, rules)
