"""Tables with raw numbers, drawn and modelled as their owners would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from experiments.benchmarks.raw import CANCER, CREDIT
from experiments.benchmarks.raw import table as raw_table
from experiments.data import data_file, draft, draft_sample
from treeleak.datasets import Dataset, load_adult
from treeleak.schema import Attribute, Binary, Categorical, Numeric, OneHot, Schema

_TIMBERSTRIKE = "https://github.com/necst/TimberStrike"
_CODES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"stroke": ("work_type", "smoking_status"), "diabetes": ()}
)
"""Columns of codes that stand for categories."""
_NUMBERS = ["age", "income", "visits"]
_CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "job": ("clerk", "cook", "driver", "nurse"),
        "region": ("centre", "east", "north", "south", "west"),
        "smoker": ("no", "yes"),
    }
)
BINARY = "binary"
"""Adult's columns of 0 and 1, whose grid can be listed."""
_GAPS = 0.05
"""Share of the people whose age is missing."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A training set with the model that its owner releases."""

    X: pd.DataFrame
    y: pd.Series
    schema: Schema
    """What each column of ``X`` can be: by it, values are compared."""
    model: Any
    told: Schema | None
    """What the attack is told."""
    space: str = "model"
    """The columns in which the answer is wanted: those of ``X``."""

    @property
    def forest(self) -> RandomForestClassifier:
        return self.model[-1] if self.space == "input" else self.model

    def entering(self, X: pd.DataFrame) -> Any:
        """Rows as they enter the trees."""
        return self.model[:-1].transform(X) if self.space == "input" else X

    def filled(self) -> pd.DataFrame:
        """The rows with what the imputer put where numbers were missing: no file says where."""
        if self.space != "input":
            return self.X
        imputer = self.model[0].named_transformers_["numbers"]
        return self.X.fillna(dict(zip(_NUMBERS, imputer.statistics_, strict=True)))


def sample(table: str, n_rows: int, seed: int, n_trees: int = 100) -> Sample:
    """Draw rows of a table, and train a default forest with its seed on them.

    Raises
    ------
    BadInput
        If the table is not there or has too few rows.
    """
    forest = RandomForestClassifier(n_trees, random_state=seed)
    if table == "mixed":
        X, y = people(n_rows, seed)
        ranges = [Numeric(c, float(X[c].min()), float(X[c].max())) for c in _NUMBERS]
        kinds = [Categorical(c, labels=values) for c, values in _CATEGORIES.items()]
        columns = ColumnTransformer(
            [
                ("numbers", SimpleImputer(), _NUMBERS),
                ("categories", OneHotEncoder(), list(_CATEGORIES)),
            ]
        )
        model = make_pipeline(columns, forest).fit(X, y)
        return Sample(X, y, Schema([*ranges, *kinds]), model, None, "input")
    data = TABLES[table]()
    X, y = draft_sample(data, n_rows, seed)
    schema = data.schema
    if table == "adult":
        X, schema = one_hot(X, schema)
    return Sample(X, y, schema, forest.fit(X, y), schema)


def people(n: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Make people up: numbers with gaps, categories as words, and a label that leans on them."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "income": rng.lognormal(10.2, 0.5, n).round(-2),
            "visits": rng.poisson(3, n).astype(float),
        }
    )
    for name, values in _CATEGORIES.items():
        X[name] = np.array(values)[rng.integers(len(values), size=n)]
    leaning = 0.03 * (X.age - 50) + 0.4 * (X.visits - 3) + 0.8 * (X.smoker == "yes")
    y = pd.Series((rng.random(n) < 1 / (1 + np.exp(-leaning))).astype(int), name="ill")
    X.loc[rng.random(n) < _GAPS, "age"] = np.nan
    return X, y


def one_hot(X: pd.DataFrame, schema: Schema) -> tuple[pd.DataFrame, Schema]:
    """Encode categories as an encoder does that saw these rows alone."""
    attributes: list[Attribute] = []
    blocks = []
    for a in schema.attributes:
        own = X[a.name]
        if isinstance(a, Categorical):
            own = pd.get_dummies(own, prefix=a.name, dtype=int)
            attributes.append(OneHot(a.name, tuple(own.columns)))
        else:
            attributes.append(a)
        blocks.append(own)
    return pd.concat(blocks, axis=1), Schema(attributes)


def _codes_and_numbers(table: str, label: str) -> Dataset:
    X = pd.read_csv(data_file(f"timberstrike_{table}.csv", _TIMBERSTRIKE))
    y = X.pop(label)
    attributes: list[Attribute] = []
    for name, values in X.items():
        if set(values.unique()) <= {0, 1}:
            attributes.append(Binary(name))
        elif name in _CODES[table]:
            attributes.append(Categorical(name, tuple(sorted(values.unique()))))
        else:
            attributes.append(Numeric(name, float(values.min()), float(values.max())))
    return Dataset(table, X, y, Schema(attributes), _TIMBERSTRIKE, "")


TABLES: Mapping[str, Callable[[], Dataset]] = MappingProxyType(
    {
        "stroke": cache(lambda: _codes_and_numbers("stroke", "stroke")),
        "diabetes": cache(lambda: _codes_and_numbers("diabetes", "Outcome")),
        "credit": lambda: raw_table(CREDIT),
        "cancer": lambda: raw_table(CANCER),
        # Categories as words.
        "adult": cache(lambda: replace(raw_table("adult"), X=load_adult().raw)),
        BINARY: lambda: draft("adult"),
    }
)
"""The tables of which samples are drawn; people of the mixed one are made up."""
