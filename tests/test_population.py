"""The population as a prior: its density against brute force, and what it does to the attacks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.brute_force import as_multiset
from helpers.cases import some_drawn
from helpers.examples import examples
from helpers.grids import all_points, cuts_for, schemas, shuffled, some_rows
from helpers.releases import counted, random_tree
from helpers.tables_of import written
from treeleak.attacks.exact.run import exact
from treeleak.attacks.known_draws.run import known_draws
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput
from treeleak.evidence import KnownDraws, evidence_for
from treeleak.partition import Geometry
from treeleak.schema import AtMost, Binary, Categorical, Numeric, OneHot, Ordinal, Schema
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import NOTHING, SideInformation
from treeleak.verification.counts import check_rows

SEEDS = st.integers(0, 2**32)


def geometry_for(schema, names, seed=0, n_classes=2, n_trees=2):
    """The geometry of a few random trees."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, cuts_for(schema, names), 3) for _ in range(n_trees)]
    X = np.zeros((0, len(names)))
    return Geometry.of(counted(trees, names, X, np.zeros(0, int), n_classes), schema)


def points_of(geometry, table):
    """Grid point of each row, found by looking through the listed values of every atom."""
    out = []
    for row in table:
        point = 0
        for part in geometry.parts:
            own = row[part.columns]
            (atom,) = [
                k
                for k, atom in enumerate(part.atoms)
                if any(np.array_equal(own, v, equal_nan=True) for v in atom.values)
            ]
            point = point * len(part) + atom
        out.append(point)
    return np.array(out, dtype=np.int64)


def everywhere(geometry, density, n_classes=2):
    """Probability of every grid point (down) with every class (across)."""
    points = np.arange(geometry.n_points)
    return np.exp(np.stack([density.log_prior(points, c) for c in range(n_classes)], axis=1))


@examples(60, fast=10)
@given(schemas(), SEEDS, st.integers(1, 60), st.booleans())
def test_the_density_adds_up_to_one_and_rules_nothing_out(schema, seed, n_rows, labelled):
    rng = np.random.default_rng(seed)
    names = shuffled(schema.columns, rng)
    geometry = geometry_for(schema, names, seed)
    table = pd.DataFrame(some_rows(schema, names, n_rows, rng), columns=names)
    if labelled:
        table["label"] = rng.integers(2, size=n_rows)
    density = Population.of(table, schema, geometry.release).fitted(geometry)
    p = everywhere(geometry, density)
    assert p.sum() == pytest.approx(1.0)
    assert (p > 0).all()
    if not labelled:
        np.testing.assert_allclose(p[:, 0], p[:, 1])


@st.composite
def marginals(draw, schema):
    """Shares for every attribute, as a user writes them, and as a share for each own value."""
    written, by_value = {}, []
    for attribute in schema.attributes:
        single = Schema([attribute])
        values = all_points(single, single.columns)
        rng = np.random.default_rng(draw(SEEDS))
        share = rng.dirichlet(np.ones(len(values)))
        by_value.append((values, share))
        if isinstance(attribute, OneHot):
            written |= dict(zip(attribute.columns, share @ values, strict=True))
        elif isinstance(attribute, Binary) and not attribute.missing and draw(st.booleans()):
            written[attribute.name] = float(share[1])
        else:
            written[attribute.name] = dict(zip(values[:, 0], share, strict=True))
    return written, by_value


@examples(60, fast=10)
@given(st.data(), schemas(), SEEDS)
def test_marginals_come_back_as_their_product_over_the_values_of_each_atom(data, schema, seed):
    written, by_value = data.draw(marginals(schema))
    geometry = geometry_for(schema, schema.columns, seed)
    written["label"] = {0: 0.3, 1: 0.7}
    density = Population.of(written, schema, geometry.release).fitted(geometry)
    wanted = np.zeros((geometry.n_points, 2))
    for chosen in itertools.product(*(range(len(v)) for v, _ in by_value)):
        row = np.concatenate([v[i] for (v, _), i in zip(by_value, chosen, strict=True)])
        share = np.prod([s[i] for (_, s), i in zip(by_value, chosen, strict=True)])
        wanted[points_of(geometry, row[None, :])] += share * np.array([0.3, 0.7])
    np.testing.assert_allclose(everywhere(geometry, density), wanted, atol=1e-5)


def test_numbers_and_missing_values_are_counted_between_the_thresholds():
    schema = Schema([Numeric("x", -1.0, 3.0, missing=True), Ordinal("o", 0, 9999)])
    rng = np.random.default_rng(0)
    trees = [random_tree(rng, [[-0.5, 0.25, 1.0], [99.5, 5000.0]], 4) for _ in range(5)]
    geometry = Geometry.of(counted(trees, schema.columns, np.zeros((0, 2)), [], 1), schema)
    x = np.where(rng.random(4000) < 0.2, np.nan, rng.normal(0.5, 0.7, 4000).clip(-1, 3))
    o = rng.integers(0, 6000, size=4000)
    x[:50], o[:50], o[50:100] = 0.25, 5000, 5001
    table = pd.DataFrame({"x": x, "o": o})
    density = Population.of(table, schema, geometry.release).fitted(geometry)
    p = everywhere(geometry, density, 1).reshape(len(geometry.parts[0]), -1)
    bins = np.where(np.isnan(x), 4, np.searchsorted([-0.5, 0.25, 1.0], x))
    np.testing.assert_allclose(p.sum(axis=1), np.bincount(bins) / 4000, atol=1e-3)
    cuts = np.searchsorted([99.5, 5000.0], o)
    np.testing.assert_allclose(p.sum(axis=0), np.bincount(cuts) / 4000, atol=1e-3)


GIVEN = Schema(
    [Binary("b"), OneHot("g", ["g0", "g1"]), Categorical("k", [1, 5]), Binary("r")],
    [AtMost(("b", "r"))],
)
GOOD = pd.DataFrame(
    {"b": [0, 1], "g0": [1, 0], "g1": [0, 1], "k": [1, 5], "r": [1, 0], "y": ["no", "yes"]}
)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (GOOD.assign(b=[0, 2]), "row 1, column 'b': the value is outside"),
        (GOOD.assign(r=[1, 1]), r"row 1 breaks the 'at-most' rule over columns \['b', 'r'\]"),
        (GOOD.assign(b=["x", "y"]), "column 'b' .* something other than numbers"),
        (GOOD.assign(z=1), r"columns \['y', 'z'\] are not columns of the model"),
        ({}, "there are none"),
        ([1], "must be a table of rows, or a mapping"),
        ({"b": 1.5}, "column 'b' has the share 1.5"),
        ({"b": {0: 0.5, 1: 0.1}}, "those of column 'b' add up to 0.6"),
        ({"k": {"five": 1.0}}, "column 'k' holds numbers, not 'five'"),
        ({"g0": 0.5}, "lack column 'g1' of the one-hot group 'g'"),
        ({"y": {"no": 0.5, "maybe": 0.5}}, "taken for the label, has the value 'maybe'"),
    ],
)
def test_what_cannot_be_used_is_named(known, message):
    release = replace(geometry_for(GIVEN, GIVEN.columns).release, classes=("no", "yes"))
    with pytest.raises(BadInput, match=message):
        Population.of(known, GIVEN, release)


def some_population(geometry, rng):
    """Any population at all: rows that have nothing to do with the training rows."""
    names = geometry.release.feature_names
    n_rows = int(rng.integers(1, 40))
    rows = pd.DataFrame(some_rows(geometry.schema, names, n_rows, rng), columns=names)
    if geometry.release.classes and rng.random() < 0.7:
        rows["label"] = rng.choice(geometry.release.classes, size=n_rows)
    return SideInformation(population=Population.of(rows, geometry.schema, geometry.release))


def answered(attack, evidence, geometry, known=NOTHING, seed=0):
    """The answer, and its rows as a table that ends in the class."""
    answer = attack(evidence, geometry, Clock(60.0), seed, known)
    if not answer.rows:
        return answer, None
    values = np.concatenate([r.values for r in answer.rows])
    return answer, written(values, answer, geometry.release.n_features)


@examples(40)
@given(schemas(), SEEDS, st.sampled_from(["rows", "none"]))
def test_no_population_changes_what_exact_counts_prove(schema, seed, unit):
    rng = np.random.default_rng(seed)
    X = some_rows(schema, schema.columns, int(rng.integers(1, 7)), rng)
    y = rng.integers(2, size=len(X))
    trees = [random_tree(rng, cuts_for(schema, schema.columns), 3) for _ in range(3)]
    geometry = Geometry.of(counted(trees, schema.columns, X, y, 2, counts_are=unit), schema)
    evidence = evidence_for(geometry.release)(geometry)
    without, rows = answered(exact, evidence, geometry)
    with_, other = answered(exact, evidence, geometry, some_population(geometry, rng))
    # Rows between datasets, which are "likely", are no answer where a population says what is.
    assert with_.status == without.status.replace("likely", "feasible")
    assert sum(r.proved.sum() for r in with_.rows) == sum(r.proved.sum() for r in without.rows)
    label = other[:, -1].astype(int) if unit == "rows" else None
    assert check_rows(geometry.release, other[:, :-1], label).ok
    if without.status == "unique":
        assert as_multiset(rows) == as_multiset(other)


@examples(40)
@given(SEEDS)
def test_no_population_changes_what_known_draws_prove(seed):
    case = some_drawn(seed, n_trees=6)
    rng = np.random.default_rng(seed)
    geometry = Geometry.of(case.release, case.schema)
    evidence = KnownDraws(geometry, case.b)
    without, _ = answered(known_draws, evidence, geometry)
    with_, other = answered(known_draws, evidence, geometry, some_population(geometry, rng))
    # Of several datasets that meet the counts, the answer is one of them or lies between.
    assert with_.status.replace("likely", "feasible") == without.status.replace(
        "likely", "feasible"
    )
    for one, two in zip(without.rows, with_.rows, strict=True):
        np.testing.assert_array_equal(one.proved, two.proved)
        sure = one.confidence == 1.0
        np.testing.assert_array_equal(sure, two.confidence == 1.0)
        np.testing.assert_array_equal(one.values[sure], two.values[sure])
        if with_.status == "feasible":
            assert check_rows(case.release, other[:, :-1], other[:, -1].astype(int), case.b).ok
