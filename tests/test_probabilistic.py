"""Probabilistic datasets: the papers' examples, what is refused, and odd users."""

from __future__ import annotations

import itertools
import math
import tracemalloc
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
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

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
    Tree,
    write_rules,
)
from treeleak.schema import AtMost, Binary, Categorical, Numeric, OneHot, Ordinal, Schema
from treeleak.uncertainty import ProbabilisticDataset, from_rule_list, from_tree
from treeleak.uncertainty.regions import FirstMatch

J48 = Path(__file__).parent / "models" / "j48"

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
        (Condition("a1", above=-1), Ordinal("a1", 0, 3)),
        (Condition("a1", upto=10), Numeric("a1", 0, 10)),
        (Condition("a1", above=10, upto=20), Numeric("a1", 0, 10)),
        (Condition("a1", upto=5000), Ordinal("a1", 0, 4000)),
        (one("a1", 7), Ordinal("a1", 0, 3)),
        (one("a1", "cook"), Categorical("a1", labels=("clerk", "nurse"))),
        (one("a1", "1"), Binary("a1")),
        (one("a1", 4001), Ordinal("a1", 0, 4000)),
        (one("a1", 7.5), Ordinal("a1", 0, 4000)),
        (one("a1", "7"), Ordinal("a1", 0, 4000)),
        (one("a1", 7), Numeric("a1", 0, 10)),
    ],
)
def test_rules_outside_of_the_domain_are_refused(condition: Condition, attribute: Any) -> None:
    with pytest.raises(BadSchema, match="'a1'"):
        from_rule_list(rules(rule(condition, counts=(1, 0)), n=1), Schema([attribute]))


def test_trees_outside_of_the_domain_are_refused() -> None:
    with pytest.raises(BadSchema, match=r"column 'a': the schema allows 5 to 9.*'a' <= 0\.5"):
        from_tree(stump([[1, 1], [0, 1], [1, 0]]), Schema([Ordinal("a", 5, 9)]))


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


def test_of_a_regression_tree_leaves_are_known_and_no_class() -> None:
    tree = DecisionTreeRegressor(max_depth=1, random_state=0).fit(LIST_X, [0.5, 0.5, 0, 0, 0])
    data = from_tree(tree, Schema.from_columns(LIST_X))
    assert data.classes == ()
    assert data.contains(LIST_X)
    assert data.support.tolist() == np.bincount(tree.apply(LIST_X))[1:].tolist()
    assert data.dist_g() == pytest.approx(2 / 3)


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


def test_questions_about_other_tables_name_what_is_wrong() -> None:
    data = figure_1()
    for ask in (data.contains, data.distance):
        with pytest.raises(BadInput, match="'a3'"):
            ask(TOY_X[["a1", "a2"]])
        with pytest.raises(BadInput, match=r"row 1 of the rows: column 'a2'"):
            ask(TOY_X.assign(a2=["1", "many", None, "0"]))
        with pytest.raises(BadInput, match=r"row 1 of the rows: column 'a2'"):
            ask(TOY_X.assign(a2=[0, [1], [0, 1], 1]))
        with pytest.raises(BadInput, match="'a1' appears twice"):
            ask(TOY_X.set_axis(["a1", "a1", "a3"], axis=1))
    with pytest.raises(BadInput, match="4 rows have 2 labels"):
        data.contains(TOY_X, [0, 1])


# Rows of which everything is known, and merging.


@given(st.integers(0, 2**32 - 1))
@examples(25, fast=4)
def test_measures_of_trees_with_other_thresholds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "x": rng.random(30),
            "big": np.round(1.6e9 + 2e5 * rng.random(30)),
            "many": rng.integers(0, 9000, 30),
        }
    )
    y = rng.integers(0, 2, 30)
    schema = Schema(
        [Numeric("x", 0, 1), Numeric("big", 1.6e9, 1.6e9 + 2e5), Ordinal("many", 0, 9000)]
    )
    m, k = rng.integers(1, 30, 2)
    trees = [DecisionTreeClassifier(random_state=seed % 99).fit(X[:n], y[:n]) for n in (m, k)]
    a, b = (from_tree(t, schema) for t in trees)
    for data, n in ((a, m), (b, k)):
        assert data.contains(X[:n], y[:n])
        assert data.distance(X[:n], y[:n]) == 0
    unknown = from_tree(
        DecisionTreeClassifier(max_depth=1).fit(X[:m] * 0 + X.iloc[0], y[:m]), schema
    )
    assert unknown.dist() == unknown.dist_g() == 1


@pytest.mark.parametrize(
    "attribute", [Numeric("a1", 0, 100), Ordinal("a1", 0, 100), Ordinal("a1", 0, 99_999)]
)
@pytest.mark.parametrize("missing", [False, True])
def test_rules_with_bounds_on_one_side_on_both_and_beyond_the_domain(
    attribute: Any, missing: bool
) -> None:
    attribute = replace(attribute, missing=missing)
    whole = {"numeric": 1000, "ordinal": int(attribute.bounds[1]) + 1}[attribute.kind]
    upto = {"numeric": 200, "ordinal": 21}[attribute.kind]
    for condition, met in (
        (Condition("a1", upto=20), upto),
        (Condition("a1", above=20), whole - upto),
        (Condition("a1", above=-5, upto=20), upto),
        (Condition("a1", above=20, upto=10**7), whole - upto),
        (Condition("a1", upto=20, negated=True), whole - upto + missing),
        (Condition("a1", above=20, negated=True), upto + missing),
    ):
        data = from_rule_list(
            rules(rule(condition, counts=(1, 0)), default=(0, 1), n=1), Schema([attribute])
        )
        assert data.points == (met, whole + missing - met)


# Odd users.


@pytest.mark.parametrize("odd", [7, {"a": [0, 1]}, [Binary("a")]])
def test_what_is_no_schema_is_refused(odd: Any) -> None:
    for ask in (
        lambda: from_tree(stump([[1, 1], [0, 1], [1, 0]]), odd),
        lambda: from_rule_list(rules(n=1), odd),
    ):
        with pytest.raises(BadInput, match=r"must be a treeleak\.Schema, not"):
            ask()


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


@pytest.mark.slow
def test_a_million_rows_are_never_listed() -> None:
    rng = np.random.default_rng(0)
    n_inner, n = 9_999, 19_999
    feature = np.full(n, -1)
    feature[:n_inner] = rng.integers(0, 100, n_inner)
    threshold = np.where(feature >= 0, rng.random(n), np.nan)
    left, right = np.full(n, -1), np.full(n, -1)
    left[:n_inner] = 2 * np.arange(n_inner) + 1
    right[:n_inner] = left[:n_inner] + 1
    counts = np.zeros((n, 2))
    counts[n_inner:] = 50
    # Where the tests on the way contradict each other, no row is.
    bounds = np.tile([0.0, 1.0], (n, 100, 1))
    for v in range(n_inner):
        f, c = feature[v], threshold[v]
        for child, side in ((left[v], 1), (right[v], 0)):
            bounds[child] = bounds[v]
            bounds[child, f, side] = (min if side else max)(bounds[v, f, side], c)
    counts[(bounds[:, :, 0] >= bounds[:, :, 1]).any(axis=1)] = 0
    del bounds
    for v in range(n_inner - 1, -1, -1):
        counts[v] = counts[left[v]] + counts[right[v]]
    tree = Tree(feature, threshold, left, right, np.zeros(n, dtype=bool)).with_counts(counts=counts)
    names = tuple(f"x{i}" for i in range(100))
    release = Release((tree,), names, (0, 1), AllRows(), int(counts[0].sum()))
    assert release.n_rows is not None
    assert release.n_rows > 800_000
    schema = Schema([Numeric(name, 0, 1) for name in names])
    tracemalloc.start()
    data = from_tree(release, schema)
    left_over = data.dist_g()
    by_value = data.dist()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(data.names) == 10_000
    assert data.n_rows == release.n_rows
    assert 0.9 < left_over < 1
    assert left_over == pytest.approx(by_value, abs=0.01)
    # A million rows of a hundred values would take 100 million bytes even at a byte for each.
    assert peak < 60e6


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


def test_rules_that_take_nothing_or_all():
    sizes, box = (np.array([2, 3]),), (np.array([True, True]),)
    low, high, none = np.array([True, False]), np.array([False, True]), np.array([False, False])
    assert captured(sizes, box, []) == [5]
    assert captured(sizes, box, [{}, {0: low}]) == [5, 0, 0]
    assert captured(sizes, box, [{0: none}, {0: low}, {0: low}, {0: high}]) == [0, 2, 0, 3, 0]
    assert captured(sizes, (none,), [{0: low}]) == [0, 0]


@pytest.mark.slow
def test_stops_where_rules_overlap_in_too_many_ways():
    sizes, box, rules = binary_list(np.random.default_rng(0), 60, 120)
    with pytest.raises(NotCovered, match="not counted: 120 rules overlap"):
        captured(sizes, box, rules)
