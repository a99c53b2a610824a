"""Leaves as bits, against walking the trees."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from treeleak.partition import Geometry
from treeleak.release import to_release
from treeleak.schema import Binary, Categorical, Numeric, OneHot, Ordinal, Schema

SCHEMA = Schema(
    [
        Numeric("x", -3.0, 3.0),
        Ordinal("k", 0, 9),
        Categorical("c", (0, 1, 4)),
        Binary("b"),
        OneHot("g", ("g0", "g1", "g2")),
    ]
)


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = np.eye(3)[rng.integers(3, size=n)]
    X = np.column_stack(
        [
            rng.normal(size=n).round(rng.integers(0, 3)).clip(-3, 3),
            rng.integers(10, size=n),
            rng.choice([0, 1, 4], size=n),
            rng.integers(2, size=n),
            group,
        ]
    )
    return X, rng.integers(3, size=n)


def geometry(n: int, seed: int, **how: object) -> Geometry:
    X, y = table(n, seed)
    kind = ExtraTreesClassifier if seed % 2 else RandomForestClassifier
    model = kind(5, bootstrap=False, random_state=seed, **how).fit(X, y)
    return Geometry.of(to_release(model), SCHEMA.for_model(SCHEMA.columns))


def model_names(g: Geometry) -> Geometry:
    return g
