"""Questions small enough to take no time, that together need the loops of all attacks.

What is compiled for them is kept on disk: where they were asked once, no later process compiles.
"""

from __future__ import annotations

import gc
import multiprocessing as mp
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from treeleak.attacks.known_draws.listing import compile_loops
from treeleak.attacks.loss_sums.kernels import compile_all
from treeleak.attacks.loss_sums.raw_rows import compile_loops as compile_raw
from treeleak.auditing import audit
from treeleak.core.errors import PrivacyWarning
from treeleak.datasets import load_compas
from treeleak.learn import DPForestClassifier
from treeleak.reconstruction.run import reconstruct
from treeleak.release.rule_list import Condition, DecisionRule, RuleList
from treeleak.schema import Numeric, Schema

_ENOUGH = 1000.0
"""Seconds, far more than any question takes."""


def _flags(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, pd.Series[Any], Schema]:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (n_rows, n_columns))
    X = pd.DataFrame(table, columns=[f"x{i}" for i in range(n_columns)])
    y = pd.Series(np.where((X["x0"] == X["x1"]) ^ (rng.random(n_rows) < 0.2), "no", "yes"))
    return X, y, Schema.from_columns(X.columns)


def _numbers(n_rows: int, n_columns: int) -> tuple[pd.DataFrame, pd.Series[Any]]:
    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in range(n_columns)]
    X = pd.DataFrame(rng.normal(size=(n_rows, n_columns)).round(2), columns=names)
    return X, pd.Series(rng.choice(["no", "yes"], n_rows))


def exact_counts(n_trees: int = 6) -> None:
    """Every tree counts every row."""
    X, y, schema = _flags(30, 6)
    model = RandomForestClassifier(n_trees, max_depth=4, bootstrap=False, random_state=0)
    audit(model.fit(X, y), X, y, schema=schema, time_limit=_ENOUGH)


def many_trees() -> None:
    """Many datasets meet the counts of many trees."""
    data = load_compas()
    X = data.X.sample(40, random_state=1)
    model = RandomForestClassifier(15, bootstrap=False, random_state=0).fit(X, data.y[X.index])
    reconstruct(model, data.schema, time_limit=_ENOUGH)


def population() -> None:
    """Other rows of the population are known."""
    X, y, schema = _flags(30, 6)
    model = RandomForestClassifier(4, max_depth=4, bootstrap=False, random_state=0).fit(X, y)
    reconstruct(model, schema, population=_flags(60, 6)[0], time_limit=_ENOUGH)


def one_tree() -> None:
    """A single tree counts."""
    X, y, schema = _flags(40, 8)
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    audit(model, X, y, schema=schema, time_limit=_ENOUGH)


def known_draws() -> None:
    """Trees drew rows, and it is known which."""
    X, y, schema = _flags(20, 6)
    model = RandomForestClassifier(8, random_state=0).fit(X, y)
    audit(model, X, y, schema=schema, time_limit=_ENOUGH)


def found_seed() -> None:
    """Trees drew rows, by a seed that can be found."""
    X, y, schema = _flags(20, 6)
    model = RandomForestClassifier(8, random_state=77).fit(X, y)
    for part in (model, *model.estimators_):
        part.random_state = None
    reconstruct(model, schema, time_limit=_ENOUGH, seed_search=200)


def hidden_draws() -> None:
    """Trees drew rows, and it is not known which."""
    X, y, schema = _flags(12, 5)
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, y)
    reconstruct(model, schema, "hidden", _ENOUGH)


def noisy_counts() -> None:
    """Counts carry noise."""
    X, y, schema = _flags(20, 4)
    model = DPForestClassifier(3, 2, 20.0, schema=schema, classes=["no", "yes"], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # That there is a seed is meant.
        model.fit(X, y)
    audit(model, X, y, schema=schema, n_rows=20, time_limit=_ENOUGH)


def raw_numbers(draws: bool = False) -> None:
    """The grid of thresholds is too large to list."""
    X, y = _numbers(30, 8 if draws else 6)
    model = RandomForestClassifier(10, bootstrap=draws, random_state=0).fit(X, y)
    schema = None if draws else Schema([Numeric(str(c), -5.0, 5.0) for c in X])
    reconstruct(model, schema, time_limit=_ENOUGH)


def rule_list() -> None:
    """The model is a list of rules."""
    X, y, schema = _flags(80, 6)
    rules = tuple(DecisionRule((Condition(column, (1,)),), "no") for column in X.columns[:4])
    listed = RuleList(tuple(X.columns), ("no", "yes"), rules, DecisionRule((), "yes"))
    audit(listed.counted(X, list(y)), X, y, schema=schema)


def sums_of_leaves() -> None:
    """Leaves hold sums over their rows."""
    compile_all()
    compile_raw()
    X, _, schema = _flags(12, 4)
    model = GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=0)
    reconstruct(model.fit(X, np.arange(12.0)), schema, time_limit=5)


QUESTIONS: Mapping[str, Callable[[], None]] = MappingProxyType(
    {
        "hidden draws": hidden_draws,
        "noisy counts": noisy_counts,
        "rules": rule_list,
        "raw numbers": raw_numbers,
        "a seed": found_seed,
        "known draws": known_draws,
        "exact counts": exact_counts,
        "many trees": many_trees,
        "a population": population,
        "a single tree": one_tree,
        "leaves of many rows": compile_loops,
        "raw numbers behind draws": partial(raw_numbers, True),
        "sums of leaves": sums_of_leaves,
    }
)
"""The first half and the second take about as long to compile."""


def ask(names: tuple[str, ...]) -> None:
    """Ask some of the questions; what for, the cache remembers."""
    gc.disable()  # Compilers make many objects and few circles.
    for name in names:
        QUESTIONS[name]()


def compile_all_loops() -> None:
    """Compile the loops of all attacks, in two processes beside each other."""
    names = tuple(QUESTIONS)
    half = len(names) // 2
    with mp.get_context("spawn").Pool(2) as pool:
        pool.map(ask, (names[:half], names[half:]))
