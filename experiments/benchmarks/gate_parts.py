"""Ways to open the gate by what stands beside the model: other fitted models, and values of people.

The model that the audit attacks is a stump with large leaves, which gives nothing away by itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    SplineTransformer,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from experiments.benchmarks.gate import LABEL, Attempt, Lab, Way, ways
from treeleak.release import to_release

PARTS: dict[str, Way] = {}


def stump() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_depth=1, min_samples_leaf=20, random_state=0)


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(10, random_state=42)


def _by_hand(model: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _searched(X: pd.DataFrame, y: Any) -> Any:
    search = GridSearchCV(stump(), {"max_depth": [1]}, cv=2).fit(X, y)
    search.estimator = forest().fit(X, y)
    return search


OTHER_MODELS: Mapping[str, Callable[[pd.DataFrame, Any], Any]] = {
    "a selection of columns": lambda X, y: make_pipeline(SelectFromModel(forest()), stump()).fit(
        X, y
    ),
    "an elimination of columns": lambda X, y: make_pipeline(
        RFE(forest(), n_features_to_select=3, step=0.5), stump()
    ).fit(X, y),
    "an embedding": lambda X, y: make_pipeline(
        RandomTreesEmbedding(10, random_state=0, sparse_output=False), stump()
    ).fit(X, y),
    "a union": lambda X, y: make_pipeline(
        FeatureUnion([("all", "passthrough"), ("some", SelectFromModel(forest()))]), stump()
    ).fit(X, y),
    "the base of a bagging": lambda X, y: (
        BaggingClassifier(DecisionTreeClassifier(random_state=0).fit(X, y), 1, random_state=0)
        .set_params(estimator__max_depth=1)
        .fit(X, y)
    ),
    "the start of a boosting": lambda X, y: GradientBoostingClassifier(
        init=forest(), n_estimators=1, max_depth=1, min_samples_leaf=20
    ).fit(X, y),
    "what a search began with": _searched,
    "an attribute": lambda X, y: _by_hand(stump().fit(X, y), backup=forest().fit(X, y)),
    "a known attribute": lambda X, y: _by_hand(stump().fit(X, y), class_weight=forest().fit(X, y)),
    "a function's argument": lambda X, y: _by_hand(
        stump().fit(X, y), backup=functools.partial(np.asarray, forest().fit(X, y))
    ),
}


def _person(X: pd.DataFrame) -> pd.DataFrame:
    """The table with a number, a code and a note of each person."""
    rng = np.random.default_rng(0)
    number = rng.permutation(len(X)) + rng.random(len(X)).round(3)
    texts = [f"p{k:.3f}" for k in number]
    found = X.sum(axis=1)
    notes = [f"day {k:.0f}, {n} findings" for k, n in zip(number, found, strict=True)]
    return X.assign(number=number, code=texts, note=notes).reset_index(drop=True)


VALUES: Mapping[str, tuple[Callable[[int], Any], Any]] = {
    "one-hot codes": (lambda _: OneHotEncoder(handle_unknown="ignore"), ["code"]),
    "ordinal codes": (lambda _: OrdinalEncoder(), ["code"]),
    "targets of codes": (lambda _: TargetEncoder(random_state=0), ["code"]),
    "notes": (lambda _: CountVectorizer(analyzer="word", ngram_range=(1, 8)), "note"),
    "quantiles": (lambda _: QuantileTransformer(), ["number"]),
    "bins": (lambda n: KBinsDiscretizer(5 * n // 6, encode="ordinal"), ["number"]),
    "centres": (lambda n: KMeans(5 * n // 6, n_init=1, random_state=0), ["number"]),
    "knots": (lambda n: SplineTransformer(5 * n // 6, knots="quantile"), ["number"]),
}


def _attempt(lab: Lab, model: Any, X: pd.DataFrame) -> Attempt:
    """With the training rows in the columns that enter the trees."""
    if hasattr(model, "steps"):
        rows = model[:-1].transform(X)
        rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        X = pd.DataFrame(rows, columns=list(to_release(model).feature_names))
    train = X.assign(**{LABEL: lab.y.to_numpy()})
    return lab.attempt(lab.pickle(model), "--trust-pickle", schema=False, train=train)


def _kept(lab: Lab, step: tuple[Callable[[int], Any], Any]) -> Attempt:
    transformer, columns = step
    X = _person(lab.X)
    rest = ("rest", "passthrough", list(lab.X))
    kept = ColumnTransformer([("own", transformer(lab.n_rows), columns), rest], sparse_threshold=0)
    return _attempt(lab, make_pipeline(kept, stump()).fit(X, lab.y), X)


ways(
    "another model: {}", lambda lab, made: _attempt(lab, made(lab.X, lab.y), lab.X), OTHER_MODELS,
    into=PARTS,
)  # fmt: skip
ways("values of people: {}", _kept, VALUES, into=PARTS)
