"""Small models of scikit-learn that drew their rows, over columns of every kind."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from treeleak.partition import Geometry
from treeleak.release import Release, to_release
from treeleak.release.draws.seeds import known_draws
from treeleak.schema import Binary, Categorical, Numeric, OneHot, Ordinal, Schema

from .cases import Drawn
from .grids import values_of
from .older import COUNTS_GAPS, sklearn_since

MIXED = (
    Schema([Ordinal("age", 0, 4), Binary("smokes"), OneHot("job", ["cook", "nurse", "pilot"])]),
    Schema([Ordinal("age", 0, 3, missing=True), Numeric("wage", 0.0, 9.0), Binary("smokes")]),
    Schema([Numeric("wage", 0.0, 9.0, missing=True), OneHot("job", ["cook", "nurse"])]),
    Schema([Numeric("wage", 0.0, 9.0), Numeric("debt", -5.0, 5.0)]),
    Schema([Categorical("town", [0, 1, 5]), Numeric("wage", 0.0, 9.0), Binary("smokes")]),
    Schema([OneHot("job", ["cook", "nurse"], at_most_one=True), Ordinal("age", 0, 4)]),
)
"""Schemas of few points, so that brute force over tables is possible."""


def _forest(seed: int, depth: int | None, n_trees: int, most: int) -> Any:
    return RandomForestClassifier(n_trees, max_depth=depth, max_samples=most, random_state=seed)


def _extra(seed: int, depth: int | None, n_trees: int, most: int) -> Any:
    return ExtraTreesClassifier(
        n_trees, max_depth=depth, max_samples=most, bootstrap=True, random_state=seed
    )


def _bagged(seed: int, depth: int | None, n_trees: int, most: int) -> Any:
    return BaggingClassifier(
        DecisionTreeClassifier(max_depth=depth), n_trees, max_samples=most,
        max_features=(1.0, 0.6)[seed % 2], bootstrap_features=seed % 5 == 0, random_state=seed,
    )  # fmt: skip


KINDS: Mapping[str, Any] = MappingProxyType(
    {"forest": _forest, "extra trees": _extra, "bagging": _bagged}
)


def some_values(schema: Schema, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Random rows of a schema, some values missing where they may be."""
    out: dict[str, np.ndarray] = {}
    for a in schema.attributes:
        if isinstance(a, OneHot):
            table = np.eye(len(a.members) + a.at_most_one)[:, : len(a.members)]
            out |= dict(zip(a.columns, table[rng.integers(len(table), size=n)].T, strict=True))
            continue
        if isinstance(a, Numeric):
            own = rng.uniform(a.low, a.high, n).round(1)
        elif isinstance(a, Categorical):
            own = rng.choice(np.array(a.values, dtype=float), n)
        else:
            own = rng.integers(int(a.bounds[0]), int(a.bounds[1]) + 1, n).astype(float)
        gaps = rng.random(n) < 0.3
        out[a.name] = np.where(COUNTS_GAPS & a.missing & gaps, np.nan, own)
    return pd.DataFrame(out)


def some_model(seed: int, *, most_rows: int = 6) -> tuple[Drawn, str]:
    """A model trained on a few rows, as what it releases, and its kind.

    Of the models that are drawn, some have few different rows, some weigh them, some draw part of
    them or of the columns.
    """
    rng = np.random.default_rng(seed)
    schema = MIXED[rng.integers(len(MIXED))]
    n = int(rng.integers(2, most_rows + 1))
    X = some_values(schema, n, rng)
    y = rng.integers(int(rng.integers(1, 4)), size=n)
    if rng.random() < 0.3:
        again = rng.integers(1 + n // 2, size=n)
        X, y = X.iloc[again].reset_index(drop=True), y[again]
    kind = list(KINDS)[rng.integers(len(KINDS))]
    depth = (None, 1, 2, 3)[rng.integers(4)]
    most = n if rng.random() < 0.5 else int(rng.integers(1, n + 1))
    model = KINDS[kind](seed, depth, int(rng.integers(1, 7)), most)
    weights = rng.random(n) + 0.2 if rng.random() < 0.25 else None
    if not sklearn_since(9):
        weights = None  # They would multiply the draws of a forest, and hide its counts.
    model.fit(X[rng.permutation(X.columns)], y, sample_weight=weights)
    release = to_release(model)
    b = known_draws(release).counts
    names = list(release.feature_names)
    y = np.searchsorted(np.array(release.classes), y)
    return Drawn(release, schema, b, X[names].to_numpy(), y, False), kind


def points_of(case: Drawn) -> np.ndarray:
    """A row in every grid point that the schema allows, in the model's columns."""
    parts = Geometry.of(case.release, case.schema).parts
    rows = []
    for atoms in itertools.product(*(range(len(part)) for part in parts)):
        row = np.zeros(case.release.n_features)
        for part, atom in zip(parts, atoms, strict=True):
            row[part.columns] = part.representatives[atom]
        rows.append(row)
    return np.array(rows)


def sides(release: Release, X: np.ndarray) -> np.ndarray:
    """Which way each value goes at every test of its column, as one number.

    Shape (n_rows, n_columns): values of a column that no tree parts are equal.
    """
    x = np.asarray(X, dtype=release.float_type)
    out, weight = np.zeros(x.shape), 1.0
    for tree in release.trees:
        for v in np.flatnonzero(~tree.is_leaf):
            own = x[:, tree.feature[v]]
            left = np.where(np.isnan(own), tree.missing_left[v], own <= tree.threshold[v])
            out[:, tree.feature[v]] += weight * left
            weight *= 2
    assert weight < 2.0**53
    return out


def without_seeds(forest: Any) -> Any:
    """Take out of a forest what its draws could be recomputed from."""
    for part in (forest, *forest.estimators_):
        part.random_state = None
    return forest


def alike(case: Drawn, row: np.ndarray, column: int) -> np.ndarray:
    """Values of a column that the trees cannot part from that of a row, itself among them.

    A number has a neighbour.
    """
    names = list(case.release.feature_names)
    (attribute,) = (a for a in case.schema.attributes if names[column] in a.columns)
    if isinstance(attribute, Numeric):
        of_atoms = points_of(case)[:, column]
        table = (of_atoms + np.array([[0.0], [1e-9]])).reshape(-1, 1)
    else:
        table = values_of(attribute)
    at = [names.index(c) for c in attribute.columns]
    rows = np.tile(row, (len(table), 1))
    rows[:, at] = table
    same = (sides(case.release, rows) == sides(case.release, row[None])).all(axis=1)
    return np.asarray(rows[same, column])
