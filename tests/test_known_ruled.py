"""Known draws on grids too large to list: no rules, but a population."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from helpers.models import some_values
from helpers.releases import tree_of
from treeleak import NotCovered, reconstruct
from treeleak.attacks.known_draws import listing, run
from treeleak.core.clock import Clock
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release.release import Release
from treeleak.release.sampling import AllRows
from treeleak.release.statistics import DRAWS
from treeleak.release.tree import Tree
from treeleak.schema import (
    Binary,
    Linear,
    OneHot,
    Ordinal,
    Schema,
)
from treeleak.side_information.population import Population
from treeleak.side_information.side_information import SideInformation

RULED = Schema(
    [Ordinal("age", 0, 4), Binary("smokes"), OneHot("job", ["cook", "nurse", "pilot"])],
    [Linear({"age": 1, "smokes": 1}, high=5.0)],
)


pytestmark = pytest.mark.usefixtures("unlisted")


def stump(feature: int, left: int, right: int) -> Tree:
    return tree_of((feature, 0.5), None, None).with_counts(
        DRAWS,
        counts=np.array([[left + right], [left], [right]], dtype=float),
        distinct=np.array([left + right, left, right]),
    )


def two_stumps() -> tuple[KnownDraws, Geometry]:
    """One tree drew row 0 and saw a = 1; the other drew row 1 and saw b = 0."""
    release = Release((stump(0, 0, 1), stump(1, 1, 0)), ("a", "b"), (0,), AllRows(), 2)
    geometry = Geometry.of(release, Schema([Binary("a"), Binary("b")]))
    return KnownDraws(geometry, np.eye(2, dtype=np.uint8)), geometry


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


def test_rules_and_a_population_are_refused_where_rows_walk(monkeypatch):
    monkeypatch.setattr(run, "compile_loops", lambda: None)
    monkeypatch.setattr(listing, "SCHEDULE", replace(listing.SCHEDULE, listed_candidates=(1,)))
    X, y = some_values(RULED, 80, np.random.default_rng(0)), np.arange(80) % 2
    model = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.raises(NotCovered, match="rules between columns"):
        reconstruct(model, RULED)
    with pytest.raises(NotCovered, match="population"):
        reconstruct(model, Schema(RULED.attributes), time_limit=4, population=X)
