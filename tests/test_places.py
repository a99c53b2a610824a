"""Walks that begin where rows probably lie, and how sure rows are that miss counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from treeleak.attacks.large_grid.row_constraints import RowConstraints
from treeleak.attacks.large_grid.walkers import Walker
from treeleak.evidence import KnownDraws
from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Numeric, Schema


def test_walks_begin_where_rows_probably_lie_and_may_forget_that():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=60) > 0.5).astype(np.int64)
    release = to_release(RandomForestClassifier(20, random_state=0).fit(X, y))
    geometry = Geometry.of(release, Schema([Numeric(f"x{i}", -9.0, 9.0) for i in range(4)]))
    evidence = KnownDraws(geometry, known_draws(release).counts)
    none = np.zeros(60, dtype=bool)
    constraints = RowConstraints.of_known(evidence, geometry, y, none, None)
    start = constraints.masks.start
    atoms = np.column_stack(
        [
            [np.flatnonzero([a.interval[0] < x <= a.interval[1] for a in part.atoms])[0] for x in v]
            for part, v in zip(geometry.parts, X.T, strict=True)
        ]
    )
    probable = np.zeros((len(y), start[-1]), dtype=np.float32)
    np.put_along_axis(probable, start[:-1] + atoms, 1.0, axis=1)
    led = replace(constraints, probable=probable)
    walker = Walker.started(led, 0)
    assert walker.misfit == 0
    assert Walker.started(constraints, 0).misfit > 0
    assert walker.likes.log_share[5, start[1] + atoms[5, 1]] == pytest.approx(0.0, abs=1e-5)
    assert (walker.likes.log_share.min(axis=1) < -5.0).all()
    assert (walker.forgetful().likes.log_share == 0.0).all()
