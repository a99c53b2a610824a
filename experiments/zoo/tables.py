"""Tables that packages ship, as training sets: rows, outcomes, other rows, and what is public."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from treeleak.release.column_types import from_values
from treeleak.schema import Attribute, Categorical, Schema

Frame = pd.DataFrame
RAW, CODES, FLAGS = "raw", "codes", "flags"
"""Forms of a table: categories as words, as codes, or every column 1 above its median."""
MOST_CONTROL = 2_000
_NO_CUTS = np.empty(0)


@dataclass(frozen=True, eq=False)
class Sample:
    """A training set in the order of training, and other rows of the table, all or so many."""

    X: Frame
    y: Frame
    """Outcomes: ``target``; of survival, ``event`` too."""
    control: Frame
    control_y: Frame
    schema: Schema
    """What any row of the whole table can be, in the columns of ``X``: public."""


def _sklearn(name: str) -> tuple[Frame, Frame]:
    X, y = getattr(import_module("sklearn.datasets"), f"load_{name}")(
        return_X_y=True, as_frame=True
    )
    return X, Frame({"label": y} if y.nunique() < 9 else {"label": y > y.median(), "number": y})


def _statsmodels(name: str, outcome: str, *dropped: str) -> tuple[Frame, Frame]:
    X = getattr(import_module("statsmodels.datasets"), name).load_pandas().data
    y = X.pop(outcome)
    return X.drop(columns=[*dropped]), Frame({"label": y > y.median(), "number": y})


def _sksurv(name: str, event: str, time: str, *dropped: str) -> tuple[Frame, Frame]:
    X, y = getattr(import_module("sksurv.datasets"), f"load_{name}")()
    X = X.drop(columns=[*dropped])
    whole = X.notna().all(axis=1)
    outcomes = {"label": y[event], "number": y[time], "event": y[event]}
    return X[whole], Frame(outcomes, index=X.index)[whole]


LOADERS: Mapping[str, Callable[[], tuple[Frame, Frame]]] = MappingProxyType(
    {
        "iris": lambda: _sklearn("iris"),
        "wine": lambda: _sklearn("wine"),
        "cancer": lambda: _sklearn("breast_cancer"),
        "progression": lambda: _sklearn("diabetes"),
        "marriages": lambda: _statsmodels("fair", "affairs"),
        "visits": lambda: _statsmodels("randhie", "mdvis"),
        "votes": lambda: _statsmodels("anes96", "vote", "logpopul"),
        "breast": lambda: _sksurv("gbsg2", "cens", "time"),
        "heart": lambda: _sksurv("whas500", "fstat", "lenfol"),
        "veterans": lambda: _sksurv("veterans_lung_cancer", "Status", "Survival_in_days"),
        "chains": lambda: _sksurv("flchain", "death", "futime", "chapter"),
        "trial": lambda: _sksurv("aids", "censor", "time"),
    }
)
"""By name. scikit-survival's are made of people, with categories as words."""


def sample(name: str, form: str, task: str, n_rows: int, seed: int) -> Sample:
    """Draw a training set; never more than half of the table.

    ``task``: {"label", "number", "survival"}. What the model learns.
    """
    X, outcomes = LOADERS[name]()
    X = X.rename(columns=lambda c: "".join(x if x.isalnum() else "_" for x in str(c)))
    words = [c for c in X if not pd.api.types.is_numeric_dtype(X[c])]
    coded = X.apply(lambda x: pd.factorize(x, sort=True)[0] if x.name in words else x).astype(float)
    if form == CODES:
        X = coded
    elif form == FLAGS:
        X = coded.gt(coded.median()).astype(int)
        X = X.loc[:, X.nunique() > 1]
    else:
        X = X.astype(dict.fromkeys(words, str))
    target = outcomes["number" if task == "survival" else task]
    y = Frame({"target": target.astype(int) if task == "label" else target.astype(float)})
    if task == "survival":
        y["event"] = outcomes["event"].astype(bool)
    order = np.random.default_rng(seed).permutation(len(X))
    n = min(n_rows, len(X) // 2)
    own, other = (
        [t.iloc[k].reset_index(drop=True) for t in (X, y)]
        for k in (order[:n], order[n : n + MOST_CONTROL])
    )
    return Sample(own[0], own[1], other[0], other[1], Schema(map(_attribute, X.items())))


def _attribute(column: tuple[Any, pd.Series[Any]]) -> Attribute:
    name, values = column
    if pd.api.types.is_numeric_dtype(values):
        return from_values(name, np.unique(values.to_numpy(float)), _NO_CUTS, missing=False)
    return Categorical(name, labels=tuple(sorted(values.unique())))
