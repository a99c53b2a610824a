"""Probabilistic datasets against brute force: every row, and every world, of tiny instances."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from helpers.examples import examples
from helpers.grids import all_points, values_of
from helpers.releases import counted, leaves_of, random_tree
from treeleak.release import Condition, DecisionRule, RuleList
from treeleak.schema import (
    AtMost,
    Attribute,
    Binary,
    Categorical,
    Implies,
    Linear,
    OneHot,
    Ordinal,
    Rule,
    Schema,
)
from treeleak.uncertainty import ProbabilisticDataset, from_rule_list, from_tree

FEW = (
    Binary("b"),
    Binary("b?", missing=True),
    OneHot("h", ("h 1", "h 2", "h 3")),
    OneHot("i", ("i 1", "i 2"), at_most_one=True),
    OneHot("j", ("j 1",), at_most_one=True),
    Ordinal("o", 1, 4),
    Ordinal("o?", -1, 1, missing=True),
    Categorical("c", labels=("red", "blue", "green")),
    Categorical("c?", (0.5, 7, 2), ("half", "seven", "two"), missing=True),
    Categorical("d", (0.1, 0.5, 3)),
    Ordinal("single", 5, 5),
    Ordinal("24 bits", 2**24 - 2, 2**24 + 3),
)
MANY = (Ordinal("m", 10, 2100), Ordinal("m?", 2**24 - 1100, 2**24 + 1100, missing=True))
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Toy:
    """A small model, the rows that it was trained on, and all rows by the group they fall in."""

    data: ProbabilisticDataset
    schema: Schema
    points: np.ndarray  # All rows that the schema allows, as codes in the schema's columns.
    group: np.ndarray  # Group of each point.
    truth: np.ndarray  # Points that are the training rows.
    y: np.ndarray

    @property
    def counts(self) -> Counter[tuple[int, int]]:
        return Counter(zip(self.group[self.truth].tolist(), self.y.tolist(), strict=True))

    def table(self, rows: Sequence[int] | np.ndarray) -> pd.DataFrame:
        return table(self.schema, self.points[np.asarray(rows, dtype=int)])

    def of(self, group: int) -> np.ndarray:
        return np.flatnonzero(self.group == group)

    def possible(self, group: int, attribute: Attribute) -> set[tuple[float, ...]]:
        return cells(self.schema, self.points[self.of(group)], attribute)


def table(schema: Schema, rows: np.ndarray) -> pd.DataFrame:
    """Rows as a person would write them: with labels for codes."""
    out = pd.DataFrame(rows, columns=list(schema.columns))
    for a in schema.attributes:
        if isinstance(a, Categorical) and a.labels is not None:
            label = dict(zip(a.values, a.labels, strict=True))
            out[a.name] = pd.Series([label.get(v) for v in out[a.name]], dtype=object)
    return out


def cells(schema: Schema, rows: np.ndarray, attribute: Attribute) -> set[tuple[float, ...]]:
    """Values of an attribute that stand in some rows; a missing one as -inf."""
    at = [schema.columns.index(c) for c in attribute.columns]
    return set(map(tuple, np.nan_to_num(rows[:, at], nan=-math.inf).tolist()))


def random_rules(rng: np.random.Generator, attributes: Sequence[Attribute]) -> list[Rule]:
    small = [a for a in attributes if a not in MANY]
    pairs = [(a, b) for a in small for b in small if a is not b]
    out: list[Rule] = []
    if pairs and rng.random() < 0.5:
        a, b = pairs[rng.integers(len(pairs))]
        p, q = (values_of(a)[0][0], values_of(b)[-1][0])
        if not math.isnan(q):
            out.append(Implies({a.columns[0]: p}, {b.columns[0]: q}))
        else:
            out.append(Linear({a.columns[0]: 1, b.columns[0]: 2}, low=p))
    zero_one = [c for a in small if isinstance(a, (Binary, OneHot)) for c in a.columns]
    if len(zero_one) > 2 and rng.random() < 0.3:
        out.append(AtMost(tuple(zero_one[-3:]), 1))
    return out


def random_schema(rng: np.random.Generator, most: int = 4) -> Schema:
    attributes = list(rng.permutation(np.array(FEW, dtype=object))[: rng.integers(1, most + 1)])
    if most > 2 and rng.random() < 0.2:
        attributes = [*attributes[:2], MANY[rng.integers(len(MANY))]]
    return Schema(attributes, random_rules(rng, attributes))


def cuts_of(schema: Schema) -> list[list[float]]:
    """Thresholds that a tree may use, of each column."""
    out: list[list[float]] = []
    for a in schema.attributes:
        for i in range(len(a.columns)):
            values = values_of(a)[:, i]
            known = np.unique(np.float32(values[~np.isnan(values)])).astype(float)
            every = max(1, len(known) // 7)
            out.append(((known[:-1] + known[1:]) / 2)[::every].tolist())
    return out


def drawn_rows(
    rng: np.random.Generator, points: np.ndarray, most: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    n = int(rng.integers(1, most + 1))
    return rng.integers(len(points), size=n), rng.integers(2, size=n)


def tree_toy(seed: int, most: int = 4, schema: Schema | None = None) -> Toy | None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng, most) if schema is None else schema
    points = all_points(schema, schema.columns)
    if not len(points):
        return None
    truth, y = drawn_rows(rng, points)
    tree = random_tree(rng, cuts_of(schema), 4)
    release = counted([tree], schema.columns, points[truth], y, 2)
    nodes = leaves_of(release, points)[:, 0]
    group = np.searchsorted(tree.leaves, nodes)
    return Toy(from_tree(release, schema), schema, points, group, truth, y)


def random_condition(rng: np.random.Generator, schema: Schema) -> Condition | None:
    a = schema.attributes[rng.integers(len(schema.attributes))]
    i = int(rng.integers(len(a.columns)))
    known = np.unique(values_of(a)[:, i])
    known = known[~np.isnan(known)]
    negated = bool(rng.random() < 0.4)
    labels = getattr(a, "labels", None)
    if a in MANY or (labels is None and rng.random() < 0.5):
        ends = np.sort(rng.choice([-math.inf, *known, math.inf], 2))
        if not ends[0] < ends[1] or np.isinf(ends).all():
            return None
        condition = Condition(a.columns[i], above=ends[0], upto=ends[1], negated=negated)
    else:
        some = rng.choice(labels or known, rng.integers(1, len(known) + 1), replace=False).tolist()
        condition = Condition(a.columns[i], tuple(some), negated=negated)
    met = condition.holds(table(Schema([a]), values_of(a))[a.columns[i]])
    return condition if 0 < met.sum() < len(met) else None


def random_rule(rng: np.random.Generator, schema: Schema) -> tuple[Condition, ...] | None:
    """Conditions that some value of each attribute meets."""
    found = [c for _ in range(rng.integers(1, 4)) if (c := random_condition(rng, schema))]
    for a in schema.attributes:
        own = table(Schema([a]), values_of(a))
        tests = [c.holds(own[c.column]) for c in found if c.column in own]
        if tests and not np.logical_and.reduce(tests).any():
            return None
    return tuple(found) or None


def list_toy(
    seed: int, most: int = 4, schema: Schema | None = None, ordered: bool = True
) -> Toy | None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng, most) if schema is None else schema
    points = all_points(schema, schema.columns)
    if not len(points):
        return None
    truth, y = drawn_rows(rng, points)
    said = [r for _ in range(rng.integers(1, 6)) if (r := random_rule(rng, schema))]
    bare = RuleList(
        schema.columns,
        (0, 1),
        tuple(DecisionRule(c, 1) for c in said),
        DecisionRule((), 0),
        ordered,
    )
    group = bare.apply(table(schema, points))
    if ordered:
        rules = bare.counted(table(schema, points[truth]), y)
    else:
        group = (group == len(said)).astype(int)
        own = [np.bincount(y[group[truth] == g], minlength=2).tolist() for g in (0, 1)]
        rules = replace(
            bare, default=DecisionRule((), 0, tuple(own[1])), covered=tuple(own[0]), n_rows=len(y)
        )
    return Toy(from_rule_list(rules, schema), schema, points, group, truth, y)


def set_toy(seed: int, most: int = 4, schema: Schema | None = None) -> Toy | None:
    return list_toy(seed, most, schema, ordered=False)


makers = st.sampled_from([tree_toy, list_toy, set_toy])


@given(makers, seeds)
@examples(100, fast=6)
@pytest.mark.slow
def test_groups_entropies_and_worlds_are_those_of_all_rows(maker: Any, seed: int) -> None:
    toy = maker(seed)
    if toy is None:
        return
    data, n = toy.data, len(toy.y)
    n_groups = len(data.names)
    sizes = [len(toy.of(g)) for g in range(n_groups)]
    assert list(data.points) == sizes
    assert [
        [toy.counts[g, 0], toy.counts[g, 1], 0] for g in range(n_groups)
    ] == data.counts.tolist()
    own = [math.log2(sizes[g]) for g in np.repeat(range(n_groups), data.support)]
    np.testing.assert_allclose(np.repeat(data.group_bits, data.support), own, atol=1e-9)
    assert data.n_worlds == math.prod(sizes[g] for g in toy.group[toy.truth])
    assert data.log2_worlds == pytest.approx(math.log2(data.n_worlds), abs=1e-6)
    whole = n * math.log2(len(toy.points))
    assert data.dist_g() == pytest.approx(sum(own) / whole if whole else 0, abs=1e-9)
    several = [a for a in toy.schema.attributes if len(values_of(a)) > 1]
    terms = [
        math.log2(len(toy.possible(g, a))) / math.log2(len(values_of(a)))
        for g in toy.group[toy.truth]
        for a in several
    ]
    assert data.dist() == pytest.approx(np.mean(terms) if several else 0, abs=1e-9)


def cost_of(toy: Toy, rows: np.ndarray, labels: Sequence[int] | None) -> float:
    """Least share of changed values, by trying every point for every row."""
    d = len(toy.schema.attributes)
    parts = [
        np.nan_to_num(b, nan=-1e300)
        for a in toy.schema.attributes
        for b in [[toy.schema.columns.index(c) for c in a.columns]]
    ]
    differ = np.zeros((len(rows), len(toy.points)))
    for columns in parts:
        at = columns.astype(int)
        mine, theirs = (np.nan_to_num(x[:, at], nan=-1e300) for x in (rows, toy.points))
        differ += (mine[:, None] != theirs[None]).any(axis=2)
    cost = np.array(
        [[differ[i, toy.of(g)].min() for g in toy.group[toy.truth]] for i in range(len(rows))]
    ).reshape(len(rows), len(toy.y))
    if labels is not None:
        cost += np.not_equal.outer(np.array(labels), toy.y)
        d += 1
    n = max(cost.shape)
    padded = np.full((n, n), float(d))
    padded[: len(rows), : len(toy.y)] = cost
    return float(padded[linear_sum_assignment(padded)].sum()) / (d * n)


@given(makers, seeds)
@examples(80, fast=6)
def test_contains_and_distance_are_those_of_all_worlds(maker: Any, seed: int) -> None:
    toy = maker(seed, 3)
    if toy is None or len(toy.points) > 500:
        return
    rng = np.random.default_rng(seed)
    data = toy.data
    assert data.contains(toy.table(toy.truth), toy.y)
    assert data.distance(toy.table(toy.truth), toy.y) == 0
    order = rng.permutation(len(toy.y))
    assert data.contains(toy.table(toy.truth[order]), toy.y[order])
    free = np.array(list(itertools.product(*map(len_range, toy.schema.attributes)))[:3000])
    for n in {len(toy.y), len(toy.y) + 1, max(len(toy.y) - 1, 1)}:
        # Any values of the domains: the schema's rules may exclude them.
        rows = np.array([whole_row(toy.schema, free[rng.integers(len(free))]) for _ in range(n)])
        labels = rng.integers(2, size=n).tolist()
        X = table(toy.schema, rows)
        for said in (None, labels):
            least = cost_of(toy, rows, said)
            assert data.distance(X, said) == pytest.approx(least, abs=1e-9)
            assert data.contains(X, said) == (least == 0)


def len_range(attribute: Attribute) -> range:
    n = len(values_of(attribute))
    return range(0, n, max(1, n // 7))


def whole_row(schema: Schema, at: Sequence[int]) -> np.ndarray:
    return np.concatenate([values_of(a)[i] for a, i in zip(schema.attributes, at, strict=True)])
