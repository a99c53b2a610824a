"""Small questions to all attacks, each with a number that changes its table (``golden.json``)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import treeleak as tl
from helpers.models import without_seeds
from helpers.releases import one_rule_each
from treeleak.core.errors import PrivacyWarning
from treeleak.learn import DPForestClassifier

MODELS = Path(__file__).parents[1] / "models"
ENOUGH = 1000.0
"""Seconds, far more than any case takes: what the time left decides is the same everywhere."""

Data = tuple[pd.DataFrame, pd.Series, tl.Schema]


class Answered(NamedTuple):
    """An answer, and the rows that were to be rebuilt, if any."""

    found: Any
    X: pd.DataFrame | None = None
    y: pd.Series | None = None


def table(n_rows: int, seed: int) -> Data:
    """Some rows of COMPAS."""
    data = tl.datasets.load_compas()
    X = data.X.sample(n_rows, random_state=seed)
    return X, data.y[X.index], data.schema


def flags(n_rows: int, n_columns: int, seed: int) -> Data:
    """Columns of 0 and 1, and a label that follows from two of them, mostly."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.integers(0, 2, (n_rows, n_columns)), columns=[f"x{i}" for i in range(n_columns)]
    )
    wrong = rng.random(n_rows) < 0.2
    y = pd.Series(np.where((X["x0"] == X["x1"]) ^ wrong, "no", "yes"))
    return X, y, tl.Schema.from_columns(X.columns)


def numbers(n_rows: int, n_columns: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Raw numbers, so many different ones that the grid of thresholds is too large to list."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        rng.normal(size=(n_rows, n_columns)).round(2), columns=[f"v{i}" for i in range(n_columns)]
    )
    return X, pd.Series(rng.choice(["no", "yes"], n_rows))


def forest(n_trees: int, seed: int = 0, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, random_state=seed, **options)


def exact(n_trees: int, **options: Any) -> RandomForestClassifier:
    return forest(n_trees, bootstrap=False, **options)


def private(n_trees: int, depth: int, epsilon: float, data: Data, seed: int) -> DPForestClassifier:
    X, y, schema = data
    model = DPForestClassifier(
        n_trees, depth, epsilon, schema=schema, classes=sorted(set(y)), random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # That there is a seed is meant.
        return model.fit(X, y)


def rebuilt(model: Any, data: Data, fit: bool = True, **options: Any) -> Answered:
    X, y, schema = data
    model = model.fit(X, y) if fit else model
    return Answered(tl.reconstruct(model, schema, time_limit=ENOUGH, **options), X, y)


CASES: dict[str, Callable[[int], Answered]] = {}


def case(function: Callable[[int], Answered]) -> Callable[[int], Answered]:
    CASES[function.__name__] = function
    return function


@case
def exact_counts(k: int = 0) -> Answered:
    return rebuilt(exact(15), table(40, 1 + k))


@case
def exact_counts_of_one_table(k: int = 0) -> Answered:
    """No other rows meet the counts."""
    return rebuilt(exact(10), flags(25, 5, 22 + k))


@case
def exact_counts_of_no_table(k: int = 0) -> Answered:
    """The rows break a rule of the schema: the counts contradict it."""
    X, y, _ = flags(20, 5, 23 + k)
    schema = tl.Schema([tl.Binary(c) for c in X], [tl.Implies({"x0": 1}, {"x1": 0})])
    return rebuilt(exact(6), (X, y, schema))


@case
def exact_counts_of_few_trees(k: int = 0) -> Answered:
    return rebuilt(exact(3, max_depth=3), table(30, 2 + k))


@case
def weights(k: int = 0) -> Answered:
    return rebuilt(exact(4, max_depth=3, class_weight="balanced"), flags(25, 5, 3 + k))


@case
def known_draws(k: int = 0) -> Answered:
    return rebuilt(forest(10), table(30, 4 + k))


@case
def known_draws_of_one_table(k: int = 0) -> Answered:
    return rebuilt(forest(20), flags(20, 5, 24 + k))


@case
def found_seed(k: int = 0) -> Answered:
    """The draws follow from a seed of the forest that a search finds."""
    X, y, schema = flags(20, 6, 5 + k)
    model = without_seeds(forest(8, 77).fit(X, y))
    return rebuilt(model, (X, y, schema), fit=False, seed_search=200)


@case
def hidden_draws(k: int = 0) -> Answered:
    X, y, schema = flags(12, 5, 6 + k)
    model = without_seeds(forest(4, max_depth=3).fit(X, y))
    return rebuilt(model, (X, y, schema), fit=False, bootstrap="hidden")


@case
def noisy_counts(k: int = 0) -> Answered:
    """The number of rows is inferred, too."""
    data = flags(25, 5, 7 + k)
    found = tl.reconstruct(private(4, 3, 20.0, data, k), data[2], time_limit=ENOUGH)
    return Answered(found)


@case
def leaf_labels(k: int = 0) -> Answered:
    """Leaves that name a class, by chance, and say nothing else."""
    path = MODELS / "diffprivlib_0.6.6_private.skops"
    return Answered(tl.reconstruct(path, n_rows=60, time_limit=ENOUGH, seed=k))


@case
def raw_numbers(k: int = 0) -> Answered:
    X, y = numbers(40, 6, 8 + k)
    return rebuilt(exact(10), (X, y, tl.Schema([tl.Numeric(c, -5.0, 5.0) for c in X])))


@case
def raw_numbers_behind_draws(k: int = 0) -> Answered:
    """Solved at once: where rows have to walk behind draws, it takes more than a minute."""
    X, y = numbers(30, 8, 9 + k)
    return Answered(tl.reconstruct(forest(10).fit(X, y), time_limit=ENOUGH), X, y)


@case
def one_tree(k: int = 0) -> Answered:
    return rebuilt(DecisionTreeClassifier(max_depth=5, random_state=0), table(50, 10 + k))


@case
def known_rows_and_population(k: int = 0) -> Answered:
    data = X, y, _ = table(30, 11 + k)
    others = tl.datasets.load_compas().X.drop(X.index).sample(100, random_state=0)
    known = X[:8].assign(label=y)
    return rebuilt(exact(4, max_depth=4), data, known_rows=known, population=others)


@case
def known_columns(k: int = 0) -> Answered:
    data = X, y, _ = flags(20, 6, 12 + k)
    return rebuilt(forest(4, max_depth=4), data, known_columns=X[["x1", "x3"]].assign(label=y))


@case
def input_of_a_pipeline(k: int = 0) -> Answered:
    """Words and numbers, as they enter it."""
    rng = np.random.default_rng(14 + k)
    job, age = rng.choice(["cook", "nurse", "clerk"], 30), rng.choice([20, 35, 40, 60], 30)
    X = pd.DataFrame({"job": job, "age": age})
    y = pd.Series(np.where((job == "cook") ^ (age > 36) ^ (rng.random(30) < 0.2), "no", "yes"))
    columns = [("job", OneHotEncoder(), ["job"]), ("age", StandardScaler(), ["age"])]
    model = make_pipeline(ColumnTransformer(columns), exact(8)).fit(X, y)
    return Answered(tl.reconstruct(model, time_limit=ENOUGH, space="input"), X, y)


@case
def audit_of_exact_counts(k: int = 0) -> Answered:
    X, y, schema = table(40, 17 + k)
    others = tl.datasets.load_compas().X.drop(X.index).sample(400, random_state=0)
    found = tl.audit(
        exact(8, max_depth=5).fit(X, y), X, y, schema=schema, control=others,
        sensitive=[X.columns[0]], groups=[X.columns[1]], time_limit=ENOUGH,
    )  # fmt: skip
    return Answered(found, X, y)


@case
def audit_of_known_draws(k: int = 0) -> Answered:
    X, y, schema = flags(20, 6, 18 + k)
    found = tl.audit(forest(8).fit(X, y), X, y, schema=schema, time_limit=ENOUGH)
    return Answered(found, X, y)


@case
def audit_of_noise(k: int = 0) -> Answered:
    data = X, y, schema = flags(20, 4, 19 + k)
    model = private(3, 2, 20.0, data, k)
    found = tl.audit(model, X, y, schema=schema, n_rows=20, time_limit=ENOUGH)
    return Answered(found, X, y)


@case
def audit_of_rules(k: int = 0) -> Answered:
    X, y, schema = table(80, 21 + k)
    found = tl.audit(one_rule_each(X, y, "priors:>3", "priors:=0", "sex:Male"), X, y, schema=schema)
    return Answered(found, X, y)
