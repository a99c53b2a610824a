"""The published formulations against brute force over all datasets, and against treeleak."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from experiments.published_programs import program
from helpers.brute_force import datasets
from helpers.examples import seeds
from helpers.grids import all_points, cuts_for, shuffled, some_rows
from helpers.releases import (
    bootstrap_draws,
    counted,
    drawn,
    drawn_alone,
    leaves_of,
    random_tree,
    summed,
    tampered,
)
from helpers.tables_of import labelled
from treeleak.attacks import attack_for
from treeleak.core.clock import Clock
from treeleak.core.errors import BadInput, NotCovered
from treeleak.evidence import ExactCounts, ExactTotals, HiddenDraws
from treeleak.partition import Geometry
from treeleak.partition.value_index import values_of
from treeleak.release.release import Release
from treeleak.schema import Binary, OneHot, Ordinal, Schema
from treeleak.side_information.side_information import KnownParts, SideInformation

THREE = Schema([Binary("a"), Binary("b"), Binary("c")])
SMALL = [
    THREE,
    Schema([Binary("a"), OneHot("g", ["g0", "g1", "g2"])]),
    Schema([OneHot("g", ["g0", "g1"], at_most_one=True), Binary("b", missing=True)]),
    Schema([Ordinal("o", 0, 3, missing=True), Binary("b")]),
]


def forest(seed, *, n_rows=5, n_trees=4):
    """A small random forest, bare, and rows behind it."""
    rng = np.random.default_rng(seed)
    schema = SMALL[seed % len(SMALL)]
    names = shuffled(schema.columns, rng)
    n_rows = int(rng.integers(1, n_rows + 1))
    X, y = some_rows(schema, names, n_rows, rng), rng.integers(2, size=n_rows)
    trees = [random_tree(rng, cuts_for(schema, names), 2) for _ in range(n_trees)]
    return rng, schema, names, trees, X, y


def attacked(evidence, method="reference-cp", seed=0):
    attack = attack_for(evidence, method)
    return attack(evidence, evidence.geometry, Clock(60.0), seed)


def table_of(answer, release):
    """Rows and classes of an answer."""
    (rows,) = answer.rows
    return labelled(rows.values, answer, release.n_features)


def assert_meets_counts(answer, release: Release, schema, b=None):
    """Push the rows through the trees, as often as they were drawn."""
    X, y = table_of(answer, release)
    assert schema.valid(X, release.feature_names).all()
    b = np.ones((len(release.trees), len(X))) if b is None else b
    leaves = leaves_of(release, X)
    for t, tree in enumerate(release.trees):
        by_class = b[t][:, None] * np.eye(len(release.classes))[y]
        assert (summed(tree, leaves[:, t], by_class) == tree.counts).all()


def assert_modest(answer):
    """A reference proves nothing and says nothing of its certainty."""
    (rows,) = answer.rows
    assert not rows.unique
    assert not rows.proved.any()
    assert (rows.confidence > 0).all()
    assert (rows.confidence < 1).all()
    assert rows.confidence.shape == rows.values.shape


def assert_sorted(answer):
    """Rows of a class ascend: the paper's way to break the symmetry, last variables first."""
    (rows,) = answer.rows
    keys = []
    for row in answer.values.atom_of[rows.values]:
        digits = []
        for a, part in enumerate(answer.values.parts):
            atom = int(row[a] - answer.values.atom_start[a])
            n = len(part)
            digits += [atom] if n == 2 else [int(i == atom) for i in range(n) if n > 2]
        keys.append((int(row[-1]), digits[::-1]))
    assert keys == sorted(keys)


def assert_verdict(answer, feasible):
    assert answer.status == ("feasible" if feasible else "infeasible")
    assert (answer.contradiction is None) == feasible
    assert bool(answer.rows) == feasible


@seeds(200, fast=20)
def test_every_row_once_the_verdict_is_that_of_brute_force_and_of_treeleak(seeds):
    verdicts = []
    for seed in seeds:
        rng, schema, names, trees, X, y = forest(seed)
        release = counted(trees, names, X, y, 2)
        if seed % 2:
            release = tampered(release, rng)
        systems = datasets(release, schema)
        feasible = all(found is None or found for found in systems)
        evidence = ExactCounts(Geometry.of(release, schema))
        for method in ("reference-cp", "reference-milp"):
            answer = attacked(evidence, method, seed)
            assert_verdict(answer, feasible)
            if feasible:
                assert_meets_counts(answer, release, schema)
                assert_modest(answer)
                if method == "reference-milp":
                    assert_sorted(answer)
        own = attacked(evidence, "auto", seed)
        assert own.status in (("unique", "feasible", "likely") if feasible else ("infeasible",))
        verdicts.append(feasible)
    assert verdicts.count(True) >= len(seeds) / 2
    assert verdicts.count(False) >= 0.15 * len(seeds)


@cache
def deep(seed=0, n_rows=8, n_trees=12):
    """Trees that tell all points apart, with rows."""
    rng = np.random.default_rng(seed)
    X, y = some_rows(THREE, "abc", n_rows, rng), rng.integers(2, size=n_rows)
    points = all_points(THREE, "abc")
    trees = []
    while len(trees) < n_trees:
        tree = random_tree(rng, [[0.5]] * 3, 9)
        if len(set(tree.apply(points))) == len(points):
            trees.append(tree)
    return trees, X, y


def once_deep(schema=None, counts_are="rows"):
    trees, X, y = deep()
    release = counted(trees, "abc", X, y, 2, counts_are=counts_are)
    return Geometry.of(release, schema or THREE)


@pytest.mark.parametrize("when", ["before", "while building", "before solving"])
def test_a_stopped_clock_leaves_the_answer_open(when):
    evidence = ExactCounts(once_deep())
    stages = []

    def report(progress):
        stages.append(progress.stage)
        if when == "while building" or "solving" in progress.stage:
            clock.stop()

    clock = Clock(60.0, report)
    if when == "before":
        clock.stop()
    answer = attack_for(evidence, "reference-cp")(evidence, evidence.geometry, clock, 0)
    assert answer.status == "unknown"
    assert answer.rows == ()
    assert len(stages) == {"before": 0, "while building": 1, "before solving": 8 + 1}[when]


def test_a_model_that_is_too_large_is_refused(monkeypatch):
    evidence = ExactCounts(once_deep())
    size = attacked(evidence).numbers["terms"]
    monkeypatch.setattr(program, "MAX_TERMS", size - 1)
    with pytest.raises(NotCovered, match="8 rows and 12 trees"):
        attacked(evidence)
    monkeypatch.undo()
    assert attacked(evidence).status == "feasible"


def test_methods_that_do_not_exist_are_refused_with_those_that_do():
    with pytest.raises(
        BadInput, match=r"exact counts.*'reference-cp', 'reference-milp'.*not 'milp'"
    ):
        attack_for(ExactCounts(once_deep()), "milp")
    with pytest.raises(BadInput, match=r"exact totals.*\('auto',\).*not 'reference-cp'"):
        attack_for(ExactTotals(once_deep(counts_are="none")), "reference-cp")


# ----------------------------------------------------------------------------- hidden draws


def log_likelihood(b, n_draws, n_rows):
    return binom.logpmf(b, n_draws, 1 / n_rows).sum()


def best_draws(release, X, y, distinct):
    """Greatest likelihood of draws with which these rows give the counts; -inf if there are none.

    Over all draws of all rows, tree by tree, since trees draw apart.
    """
    total = 0.0
    leaves = leaves_of(release, X)
    for t, tree in enumerate(release.trees):
        n_draws = int(tree.counts[0].sum())
        best = -np.inf
        for b in itertools.product(range(n_draws + 1), repeat=len(X)):
            if sum(b) != n_draws:
                continue
            b = np.array(b)
            counts = summed(tree, leaves[:, t], b[:, None] * np.eye(len(release.classes))[y])
            same = (counts == tree.counts).all()
            if same and distinct:
                same = (summed(tree, leaves[:, t], (b > 0) * 1) == tree.distinct).all()
            if same:
                best = max(best, log_likelihood(b, n_draws, len(X)))
        total += best
    return total


def hidden(seed, *, distinct, tamper):
    """Evidence of hidden draws, and the greatest likelihood over all datasets and draws."""
    rng, schema, names, trees, X, y = forest(seed, n_rows=3, n_trees=2)
    release = drawn(trees, names, X, y, 2, bootstrap_draws(len(trees), len(X), rng))
    if tamper:
        release = tampered(release, rng)
    points = all_points(schema, names)
    _, first = np.unique(leaves_of(release, points), axis=0, return_index=True)
    places = list(itertools.product(first, range(2)))
    best = max(
        best_draws(release, points[[p for p, _ in rows]], np.array([c for _, c in rows]), distinct)
        for rows in itertools.combinations_with_replacement(places, len(X))
    )
    evidence = HiddenDraws(Geometry.of(drawn_alone(release, distinct), schema), len(X))
    return evidence, schema, best


@pytest.mark.parametrize("distinct", [False, True])
@seeds(60, fast=12)
def test_hidden_draws_the_rows_are_the_likeliest_of_all(distinct, seeds):
    verdicts = []
    for seed in seeds:
        evidence, schema, best = hidden(seed, distinct=distinct, tamper=seed % 3 == 2)
        answer = attacked(evidence, seed=seed)
        feasible = best > -np.inf
        assert answer.status == ("likely" if feasible else "infeasible")
        assert (answer.contradiction is None) == feasible
        if feasible:
            assert answer.numbers["optimal"]
            assert not answer.ordered
            assert_modest(answer)
            X, y = table_of(answer, evidence.geometry.release)
            assert schema.valid(X, evidence.geometry.release.feature_names).all()
            found = best_draws(evidence.geometry.release, X, y, distinct)
            # Logarithms are rounded to 1e-4 for the solver.
            assert found == pytest.approx(best, abs=1e-3)
        verdicts.append(feasible)
    assert verdicts.count(True) >= 0.58 * len(seeds)
    assert verdicts.count(False) >= 0.05 * len(seeds)


@pytest.mark.parametrize("method", ["reference-cp", "reference-milp"])
def test_what_is_known_beside_a_model_is_refused(method):
    evidence = ExactCounts(once_deep())
    allowed = np.ones((8, values_of(evidence.geometry.parts, 2).n_atoms), dtype=bool)
    given = SideInformation(KnownParts(np.arange(8), allowed))
    with pytest.raises(NotCovered, match="does not use known rows or columns"):
        attack_for(evidence, method)(evidence, evidence.geometry, Clock(60.0), 0, given)
