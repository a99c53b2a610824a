"""Tiny schemas, and every row that they allow."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from treeleak.schema import Attribute, Binary, Categorical, Numeric, OneHot, Ordinal, Schema


def values_of(attribute: Attribute) -> np.ndarray:
    """Every value of an attribute whose values can be listed, from its own definition."""
    if isinstance(attribute, Binary):
        values = [[0.0], [1.0]]
    elif isinstance(attribute, Ordinal):
        values = [[float(v)] for v in range(attribute.low, attribute.high + 1)]
    elif isinstance(attribute, Categorical):
        values = [[float(v)] for v in attribute.values]
    else:
        assert isinstance(attribute, OneHot)
        values = np.eye(len(attribute.members)).tolist()
        if attribute.at_most_one:
            values.append([0.0] * len(attribute.members))
    if getattr(attribute, "missing", False):
        values.append([np.nan])
    return np.array(values)


def all_points(schema: Schema, names: Sequence[str]) -> np.ndarray:
    """Every row that a schema without numeric columns allows, in the model's columns."""
    blocks = [values_of(a) for a in schema.attributes]
    rows = [np.concatenate(choice) for choice in itertools.product(*blocks)]
    table = np.array(rows).reshape(len(rows), len(schema.columns))
    table = table[:, [schema.columns.index(c) for c in names]]
    return table[schema.valid(table, names)]


def midpoints(values: np.ndarray) -> list[float]:
    """Thresholds around and on some values."""
    # As float32 models see them: a threshold below the lowest value would part nothing.
    known = np.unique(values[~np.isnan(values)].astype(np.float32)).astype(float)
    between = ((known[:-1] + known[1:]) / 2).tolist()
    return sorted({*between, *known[:-1].tolist()})


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    kind = draw(st.sampled_from(["binary", "binary", "ordinal", "categorical", "one-hot"]))
    missing = draw(st.sampled_from([False, False, True]))
    if kind == "binary":
        return Binary(name, missing=missing)
    if kind == "ordinal":
        low = draw(st.integers(-2, 2))
        return Ordinal(name, low, low + draw(st.integers(0, 3)), missing=missing)
    if kind == "categorical":
        pool = [-1.0, 0.0, 0.1, 2.0, 16777217.0]
        values = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4, unique=True))
        return Categorical(name, values, missing=missing)
    members = [f"{name}{i}" for i in range(draw(st.integers(1, 3)))]
    return OneHot(name, members, at_most_one=draw(st.booleans()))


@st.composite
def schemas(draw: st.DrawFn, most: int = 3) -> Schema:
    n = draw(st.integers(1, most))
    return Schema([draw(attributes("abcd"[i])) for i in range(n)])


@st.composite
def columns_of_any_kind(draw: st.DrawFn) -> Schema:
    """A few columns, perhaps one of numbers among them."""
    schema = draw(schemas())
    if not draw(st.booleans()):
        return schema
    low, missing = draw(st.sampled_from([-np.inf, 0.0])), draw(st.booleans())
    number = Numeric("n", low, 10.0 if low == 0.0 else np.inf, missing=missing)
    return Schema([number, *schema.attributes])


def cuts_for(schema: Schema, names: Sequence[str]) -> list[list[float]]:
    """Thresholds between and on the values of each column that can be split."""
    cuts: dict[str, list[float]] = {}
    for attribute in schema.attributes:
        if isinstance(attribute, Numeric):
            ends = [max(attribute.low, -4.0), min(attribute.high, 4.0)]
            cuts[attribute.name] = [ends[0], sum(ends) / 2, ends[0] / 3 + 1.1]
            continue
        table = values_of(attribute)
        for i, column in enumerate(attribute.columns):
            cuts[column] = midpoints(table[:, i])
    return [cuts[c] for c in names]


def some_rows(schema: Schema, names: Sequence[str], n: int, rng: np.random.Generator) -> np.ndarray:
    points = all_points(schema, names)
    return points[rng.integers(len(points), size=n)] if len(points) else points


def shuffled(names: Sequence[str], rng: np.random.Generator) -> list[str]:
    return [names[i] for i in rng.permutation(len(names))]


FEW = [
    Schema([Binary("a"), Binary("b"), Binary("c")]),
    Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"])]),
    Schema([OneHot("g", ["g0", "g1"], at_most_one=True), Binary("b", missing=True)]),
    Schema([Ordinal("o", 0, 3, missing=True), Binary("b")]),
    Schema([Categorical("k", [0, 1, 5]), Binary("b")]),
    Schema([Ordinal("o", 2, 2)]),
]
"""Schemas small enough for brute force over tables."""
