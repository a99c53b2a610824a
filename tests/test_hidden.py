"""The attack on hidden draws, from counts to rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given as with_some
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from helpers.brute_force import rows_in
from helpers.cases import Drawn, some_drawn
from helpers.grids import all_points, cuts_for, shuffled
from helpers.releases import bootstrap_draws, drawn, random_tree
from helpers.tables_of import labelled
from treeleak.attacks.posterior import hidden_draws as hidden
from treeleak.attacks.posterior.hidden_draws import hidden_draws
from treeleak.attacks.posterior.likelihood import DrawLikelihood
from treeleak.core.clock import Clock
from treeleak.core.errors import BadSchema, NotCovered
from treeleak.metrics import random_baseline, reconstruction_error
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_in
from treeleak.reconstruction.run import reconstruct
from treeleak.schema import AtMost, Binary, Implies, Linear, Numeric, OneHot, Ordinal, Schema
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import KnownParts, SideInformation

SEEDS = st.integers(0, 2**32 - 1)


SHORT = replace(hidden._PLAN, chains=2, cooling=3, fits=1, between=2, samples=4, sweeps=20.0)
"""Walks long enough to go wrong, and no longer; the same on every machine."""


def attacked(case, distinct=True, seed=0, parts=None, clock=None, plan=SHORT, population=None):
    evidence = case.hidden(distinct)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hidden, "affordable", lambda *_: plan)
        given = SideInformation(parts, population)
        return hidden_draws(evidence, evidence.geometry, clock or Clock(60.0), seed, given)


def check(answer, case, distinct, parts=None):
    release, n_rows = case.release, len(case.X)
    values = answer.values
    (rows,) = answer.rows
    assert answer.contradiction is None
    assert not rows.unique
    assert not rows.proved.any()
    assert answer.ordered == (parts is not None)
    X, y = labelled(rows.values, answer, release.n_features)
    assert X.shape == (n_rows, release.n_features)
    check_rows(case, X, y)
    likelihood = DrawLikelihood.of(case.hidden(distinct))
    assert rows.misfit == likelihood.missing(rows_in(release, X, y))
    n_open = np.tile(np.diff(values.start), (n_rows, 1))
    if parts is not None:
        own = parts.allowed[parts.group]
        n_open = np.add.reduceat(own[:, values.atom_of], values.start[:-1], axis=1, dtype=int)
        assert np.take_along_axis(own, values.atom_of[rows.values], axis=1).all()
    assert (rows.confidence > 0).all()
    np.testing.assert_array_equal(rows.confidence == 1, n_open == 1)
    rng = np.random.default_rng(0)
    for k in range(len(answer.samples)):
        check_rows(case, *labelled(answer.samples.drawn(k, rng), answer, release.n_features))
        if parts is not None:
            assert np.take_along_axis(own, answer.samples.numbered(k), axis=1).all()
    first = np.searchsorted(values.atom_of, answer.likeliest)
    check_rows(case, *labelled(first, answer, release.n_features))
    assert np.isfinite(answer.samples.log_posterior).all()
    assert answer.numbers["samples"] == len(answer.samples) >= answer.numbers["chains"] > 0


def check_rows(case, X, y):
    assert case.schema.valid(X, case.release.feature_names).all()
    assert ((y >= 0) & (y < len(case.release.classes))).all()


RULED = [
    Schema(
        [Binary("a"), Binary("b"), OneHot("g", ["g0", "g1", "g2"]), Ordinal("o", 0, 3)],
        [Implies({"a": 1}, {"g1": 1}), AtMost(["b", "g0"], 1)],
    ),
    Schema(
        [Binary("a"), Binary("b"), Binary("c"), Ordinal("o", 0, 3, missing=True)],
        [AtMost(["a", "b", "c"], 1), Implies({"a": 1}, {"o": 3})],
    ),
]


def ruled_case(seed, n_rows=12, n_classes=2):
    rng = np.random.default_rng(seed)
    schema = RULED[rng.integers(len(RULED))]
    names = shuffled(schema.columns, rng)
    X = rng.permutation(all_points(schema, names))
    X = X[rng.integers(len(X), size=n_rows)]
    y = rng.integers(n_classes, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, names), 4) for _ in range(3)]
    b = bootstrap_draws(3, n_rows, rng, int(rng.integers(1, 2 * n_rows)))
    return Drawn(drawn(trees, names, X, y, n_classes, b), schema, b, X, y, False)


# ------------------------------------------------------------------------------- any small case


@with_some(SEEDS, st.booleans(), st.booleans())
@settings(max_examples=20)
def test_known_parts_are_kept(seed, distinct, ruled):
    case = ruled_case(seed) if ruled else some_drawn(seed, n_rows=6, tamper=False)
    rng = np.random.default_rng(seed)
    parts = known_parts(case, rng.random(len(case.schema.attributes) + 1) < 0.4)
    check(attacked(case, distinct, parts=parts), case, distinct, parts)


def known_parts(case, known):
    """What is known of each row if some attributes are (the last one: its class)."""
    geometry = Geometry.of(case.release, case.schema)
    values = values_in(geometry)
    told = [case.X[:, p.columns] for a, p in enumerate(geometry.parts) if known[a]]
    told += [case.y[:, None]] if known[-1] else [np.zeros((len(case.y), 1))]
    group = np.unique(np.column_stack(told), axis=0, return_inverse=True)[1].ravel()
    allowed = np.ones((group.max() + 1, values.n_atoms), dtype=bool)
    for g in range(len(allowed)):
        k = int(np.flatnonzero(group == g)[0])
        for a, part in enumerate(geometry.parts):
            start, stop = values.atom_start[a], values.atom_start[a + 1]
            own = [
                any(np.array_equal(v, case.X[k, part.columns], equal_nan=True) for v in atom.values)
                for atom in part.atoms
            ]
            assert sum(own) == 1
            if known[a]:
                allowed[g, start:stop] = own
        if known[-1]:
            allowed[g, values.atom_start[-2] :] = np.arange(len(case.release.classes)) == case.y[k]
    return KnownParts(group, allowed)


# ---------------------------------------------------------------------------------- end to end


def error_of(answer, case):
    X, _ = labelled(answer.rows[0].values, answer, case.release.n_features)
    return reconstruction_error(X, case.X)


def test_a_rule_of_too_many_values_is_refused():
    rng, names = np.random.default_rng(0), list("abcde")
    schema = Schema([Ordinal(c, 0, 59) for c in names], [Linear(dict.fromkeys(names, 1), high=250)])
    X, y = rng.integers(0, 50, (12, 5)).astype(float), rng.integers(2, size=12)
    trees = [random_tree(rng, cuts_for(schema, names), 8) for _ in range(3)]
    b = bootstrap_draws(3, 12, rng)
    with pytest.raises(NotCovered, match=r"a rule of kind .* on a grid of .* points, with"):
        attacked(Drawn(drawn(trees, names, X, y, 2, b), schema, b, X, y, False))


@pytest.fixture(scope="module")
def thirty_columns():
    """A forest over thirty columns of numbers: its grid has more points than a number can name."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(24, 3))
    X = pd.DataFrame(base @ rng.normal(size=(3, 30)) + 0.3 * rng.normal(size=(24, 30)))
    X.columns = [f"x{i}" for i in range(30)]
    y = (base[:, 0] > 0).astype(int)
    schema = Schema([Numeric(c, -8.0, 8.0) for c in X.columns])
    model = RandomForestClassifier(80, random_state=0, max_features=1).fit(X, y)
    return X, y, schema, model


@pytest.mark.slow
def test_a_grid_whose_points_cannot_be_numbered(thirty_columns, instead):
    X, y, schema, model = thirty_columns
    instead("affordable", lambda *_: replace(SHORT, cooling=10), hidden)
    answer = reconstruct(model, schema, bootstrap="hidden", time_limit=60)
    assert answer.numbers["grid_points"] > 2**63
    assert answer.status == "likely"
    assert schema.valid(answer.X.to_numpy(), answer.X.columns).all()
    error = reconstruction_error(answer.X, X, schema)
    assert error < 0.7 * random_baseline(X, schema, 20).mean
    assert json.loads(answer.to_json())["numbers"]["grid_points"] > 2**63
    # The same by hand: a record is there where all of its numbers lie between the same thresholds.
    posterior = answer.posterior
    geometry, samples = posterior.geometry, posterior.samples
    X_one, y_one = next(posterior.datasets())
    records = pd.concat([X_one, X], ignore_index=True).assign(label=[*y_one, *y])
    atoms = np.column_stack([
        part.holding(records.iloc[:, part.columns].to_numpy(), geometry.release).argmax(axis=1)
        for part in geometry.parts
    ] + [records["label"]])  # fmt: skip
    expected = (samples.atoms[:, :, None, :] == atoms[None, None]).all(axis=3).any(axis=1)
    found = posterior.membership(records)
    # Chains on so large a grid meet few kinds of rows twice, so that each is taken for less.
    assert (found <= expected.mean(axis=0) + 1e-9)[expected.any(axis=0)].all()
    assert (found[: len(X_one)] > 0).all()
    assert found.between(0, 1).all()
    told = posterior.membership(records, share=0.5)
    assert told.between(0, 1).all()
    mean = posterior.expectation(lambda X, y: float(X["x0"].mean()))
    assert -8 <= mean.low <= mean.mean <= mean.high <= 8
    with pytest.raises(NotCovered, match="cannot be numbered"):
        _ = geometry.stride
    for told in (X, {"x0": {0.0: 1.0}}):
        with pytest.raises(NotCovered, match=r"a population on a grid of .* too many to list"):
            reconstruct(model, schema, bootstrap="hidden", population=told)


def test_a_population_speaks_where_the_counts_are_silent():
    rng = np.random.default_rng(0)
    schema = Schema([Binary("a"), Binary("b"), Binary("c")])
    a = rng.integers(2, size=20)
    X, y = np.column_stack([a, a, 1 - a]).astype(float), rng.integers(2, size=20)
    cuts = [[[0.5] if a == t % 3 else [] for a in range(3)] for t in range(12)]
    trees = [random_tree(rng, own, 1) for own in cuts]
    b = bootstrap_draws(12, 20, rng)
    case = Drawn(drawn(trees, schema.columns, X, y, 2, b), schema, b, X, y, False)
    population = Population.of(
        pd.DataFrame(np.tile(X, (20, 1)), columns=schema.columns), schema, case.release
    )
    alone = attacked(case)
    told = attacked(case, population=population)
    check(told, case, True)
    assert error_of(told, case) < 0.1 < error_of(alone, case)
    assert Counter(told.samples.chain) == Counter(alone.samples.chain)


# ------------------------------------------------------------------------------ contradictions


def test_a_schema_that_no_row_meets_is_named():
    rules = [Implies({"a": 0}, {"b": 1}), Implies({"a": 1}, {"b": 1}), AtMost(["b"], 0)]
    case = one_leaf()
    case = replace(case, schema=Schema(case.schema.attributes, rules))
    with pytest.raises(BadSchema, match="no row meets all rules"):
        attacked(case)


def test_draws_where_no_row_goes_are_named():
    """The second tree's only split parts a = 0 from a = 1."""
    case = replace(one_leaf(), schema=Schema([Ordinal("a", 1, 1), Binary("b")]))
    answer = attacked(case)
    assert answer.status == "infeasible"
    assert str(answer.contradiction) == (
        "tree 1, node 1: counts 2 draws where no row under this schema goes"
    )
    ruled = replace(case, schema=Schema(one_leaf().schema.attributes, [AtMost(["a"], 0)]))
    assert "tree 1, node 2: counts 2 draws" in str(attacked(ruled).contradiction)


def with_leaf(case, t, v, counts=None, distinct=None):
    """The release with other numbers in a leaf."""
    trees = list(case.release.trees)
    tree = trees[t]
    new, d = tree.counts.copy(), tree.distinct.copy()
    if counts is not None:
        new[v] = counts
    if distinct is not None:
        d[v] = distinct
    trees[t] = tree.with_counts(counts=new, distinct=d)
    return replace(case, release=replace(case.release, trees=tuple(trees)))


def one_leaf():
    """Trees of a single leaf, and one that tests a column."""
    schema = Schema([Binary("a"), Binary("b")])
    rng = np.random.default_rng(0)
    X, y = np.array([[0.0, 0.0], [0, 1], [1, 0], [1, 1]]), np.array([0, 1, 0, 1])
    trees = [random_tree(rng, [[], []], 0), random_tree(rng, [[0.5], []], 1)]
    assert len(trees[1].leaves) == 2
    b = np.array([[2, 1, 1, 0], [1, 1, 1, 1]])
    return Drawn(drawn(trees, ["a", "b"], X, y, 2, b), schema, b, X, y, False)


@pytest.mark.parametrize(
    ("leaf", "changed", "distinct", "why"),
    [
        ((0, 0), {"distinct": 5}, True, "tree 0, node 0: holds 5 distinct rows and 4 draws"),
        ((0, 0), {"distinct": 1}, True, "tree 0, node 0: holds 1 distinct rows of 2 classes"),
        (
            (1, 2),
            {"counts": [2.0, 2.0], "distinct": 3},
            True,
            "tree 1, node 0: it has 5 distinct rows, of 4 rows",
        ),
        ((0, 0), {"distinct": 5}, False, None),
    ],
)
def test_numbers_that_no_draws_give_are_named(leaf, changed, distinct, why):
    case = with_leaf(one_leaf(), *leaf, **changed)
    answer = attacked(case, distinct)
    if why is None:
        assert answer.status == "likely"
        return
    assert answer.status == "infeasible"
    assert str(answer.contradiction) == why
    assert answer.rows == ()
    assert answer.samples is None
