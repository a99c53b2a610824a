"""Known draws on grids too large to list: rules, a population."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from helpers.brute_force import ordered_datasets
from helpers.cases import Drawn
from helpers.examples import shared
from helpers.models import points_of, sides, some_values
from helpers.releases import tree_of
from treeleak import NotCovered, reconstruct
from treeleak.attacks.known_draws import listing, run
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import DRAWS
from treeleak.release.tree import Tree
from treeleak.schema import (
    AtMost,
    Binary,
    Categorical,
    Implies,
    Linear,
    Numeric,
    OneHot,
    Ordinal,
    Schema,
)
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import SideInformation

RULED = (
    Schema(
        [Ordinal("age", 0, 4), Binary("smokes"), OneHot("job", ["cook", "nurse", "pilot"])],
        [Implies({"smokes": 1}, {"pilot": 0}), Linear({"age": 1, "nurse": -2}, low=0)],
    ),
    Schema(
        [
            Ordinal("age", 0, 3, missing=True),
            Numeric("wage", 0.0, 9.0),
            Binary("smokes"),
            Categorical("town", [0, 1, 5]),
        ],
        [Linear({"age": 1, "smokes": -1}, low=0), Implies({"town": 5}, {"smokes": 1})],
    ),
    Schema(
        [Binary("a"), Binary("b"), Binary("c"), Ordinal("age", 0, 3)], [AtMost(("a", "b", "c"))]
    ),
)


pytestmark = pytest.mark.usefixtures("unlisted")


def some_ruled(seed: int) -> Drawn | None:
    """A forest over a few rows that meet rules; None if too few of those tried do."""
    rng = np.random.default_rng(seed)
    schema, n = RULED[seed % len(RULED)], int(rng.integers(2, 5))
    X = some_values(schema, 60, rng)
    X = X[schema.valid(X.to_numpy(), list(X.columns))][:n].reset_index(drop=True)
    if len(X) < n:
        return None
    y = rng.integers(2, size=n)
    release = to_release(
        RandomForestClassifier(int(rng.integers(1, 6)), random_state=seed).fit(X, y)
    )
    label = np.searchsorted(np.array(release.classes), y)
    return Drawn(release, schema, known_draws(release).counts, X.to_numpy(), label, False)


def check_ruled(seed: int, compared: Callable[[bool], None]) -> bool:
    """Hold an answer against all tables that meet counts and rules; whether that was possible."""
    case = some_ruled(seed)
    if case is None:
        return False
    names, points = list(case.release.feature_names), points_of(case)
    points = points[case.schema.valid(points, names)]
    b = case.b[:, case.seen]
    worlds = ordered_datasets(case.release, case.schema, b, most=500, points=points)
    if worlds is None:
        return False
    compared(seed // 2 % 2 > 0)
    found = reconstruct(case.release, case.schema)
    table = found.X[names].to_numpy(dtype=float)
    label = np.searchsorted(np.array(case.release.classes), found.y)
    assert case.schema.valid(table, names).all()
    places = np.stack([case.places(w) for w in worlds])
    rows = case.places(np.column_stack([table, label]))[case.seen]
    assert (rows == places).all(axis=(1, 2)).any()
    always = (places == places[0]).all(axis=(0, 2))
    assert (found.proved.to_numpy()[case.seen] <= always).all()
    sure = np.column_stack([found.confidence, found.label_confidence])[case.seen] == 1.0
    mine = np.column_stack([sides(case.release, table), label])[case.seen]
    for world in worlds:
        own = np.column_stack([sides(case.release, world[:, :-1]), world[:, -1]])
        assert (own == mine)[sure].all()
    return True


def test_rules_rule_out_nothing_true(compared):
    assert sum(check_ruled(seed, compared) for seed in range(12)) >= 4


@pytest.mark.slow
def test_rules_rule_out_nothing_true_in_many(compared):
    tried = shared(138, 46)
    assert sum(check_ruled(12 + k, compared) for k in range(tried)) >= tried / 138 * 50


def stump(feature: int, left: int, right: int) -> Tree:
    return tree_of((feature, 0.5), None, None).with_counts(
        DRAWS,
        counts=np.array([[left + right], [left], [right]], dtype=float),
        distinct=np.array([left + right, left, right]),
    )


def two_stumps(rules=()) -> tuple[KnownDraws, Geometry]:
    """One tree drew row 0 and saw a = 1; the other drew row 1 and saw b = 0."""
    release = Release((stump(0, 0, 1), stump(1, 1, 0)), ("a", "b"), (0,), AllRows(), 2)
    geometry = Geometry.of(release, Schema([Binary("a"), Binary("b")], rules))
    return KnownDraws(geometry, np.eye(2, dtype=np.uint8)), geometry


def test_what_a_rule_forbids_does_not_come_back():
    evidence, geometry = two_stumps([Implies({"a": 1}, {"b": 1})])
    answer = run.known_draws(evidence, geometry, Clock(60.0), 0)
    assert answer.values.rows(answer.rows[0].values, 2).tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_counts_that_only_forbidden_rows_meet_are_a_contradiction():
    evidence, geometry = two_stumps([Linear({"a": 1.0}, high=0.0)])
    assert run.known_draws(evidence, geometry, Clock(60.0), 0).status == "infeasible"


def test_a_population_speaks_where_counts_are_silent():
    evidence, geometry = two_stumps()
    for same in (0.0, 1.0):
        a = np.tile([0.0, 1.0], 100)
        table = pd.DataFrame({"a": a, "b": a if same else 1 - a})
        told = Population.of(table, geometry.schema, geometry.release)
        answer = run.known_draws(
            evidence, geometry, Clock(60.0), 0, SideInformation(population=told)
        )
        assert answer.values.rows(answer.rows[0].values, 2)[0].tolist() == [1.0, same]


def test_boxes_are_as_likely_as_their_points():
    rng = np.random.default_rng(0)
    schema = Schema([Ordinal("age", 0, 4), Binary("smokes"), OneHot("job", ["cook", "nurse"])])
    X, y = some_values(schema, 40, rng), rng.integers(2, size=40)
    release = to_release(RandomForestClassifier(3, random_state=0).fit(X, y))
    geometry = Geometry.of(release, schema)
    # Marginals make types alone; rows would be heard as rows, too.
    density = Population.of({"age": {0: 0.5, 3: 0.5}, "smokes": 0.3}, schema, release).fitted(
        geometry
    )
    ends = np.sort(rng.integers(geometry.radix, size=(2, 20, len(geometry.radix))), axis=0)
    label = rng.integers(2, size=20)
    got = density.log_boxes(ends[0], ends[1], label)
    every = geometry.atoms(np.arange(geometry.n_points))
    for low, high, c, own in zip(*ends, label, got, strict=True):
        inside = np.flatnonzero(((every >= low) & (every <= high)).all(axis=1))
        assert own == pytest.approx(np.log(np.exp(density.log_prior(inside, c)).sum()))


@pytest.mark.slow
def test_rules_and_a_population_are_refused_where_rows_walk(monkeypatch):
    monkeypatch.setattr(run, "compile_loops", lambda: None)
    monkeypatch.setattr(listing, "_CAPS", (1,))
    X, y = some_values(RULED[0], 80, np.random.default_rng(0)), np.arange(80) % 2
    ruled = Schema(RULED[0].attributes, [Linear({"age": 1, "smokes": 1}, high=5.0)])
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(NotCovered, match="rules between columns"):
        reconstruct(model, ruled)
    with pytest.raises(NotCovered, match="population"):
        reconstruct(model, Schema(RULED[0].attributes), time_limit=4, population=X)
