"""Ways to open the gate by what is measured: codings of columns, schemas, options, and what a
file of a boosting library states of itself.

Each model fits single rows, so a policy that bounds the rows rebuilt, or asks for no leak, must not
be met.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import treeleak
from experiments.benchmarks.gate import LABEL, STRICT, Attempt, Doc, Lab, Way, ways
from experiments.libraries import unfitted

MEASURES: dict[str, Way] = {}
measured = partial(ways, into=MEASURES)
EXACT = 'name = "exact"\n[limits]\nexact_rows = 0.02\n'
PROVED = 'name = "proved"\n[limits]\nproved_rows = 0.02\n'
BETTER = 'name = "better"\n[limits]\nadvantage_over_guess = 0.25\n'
LEAVES = 'name = "leaves"\n[limits]\nsmall_leaves = 0.0\n'


def plain(X: pd.DataFrame) -> pd.DataFrame:
    """Name columns as LightGBM takes them."""
    return X.rename(columns=lambda c: re.sub(r"[^\w-]", "_", c))


forest = partial(unfitted, "RandomForestClassifier", n_estimators=20)
extra = partial(unfitted, "ExtraTreesClassifier", n_estimators=20)
_xgboost = partial(
    unfitted, "XGBClassifier", n_estimators=30, max_depth=8, min_child_weight=0, reg_lambda=0.0
)
_lightgbm = partial(
    unfitted, "LGBMClassifier", n_estimators=30, min_child_samples=1, min_child_weight=0
)
_catboost = partial(unfitted, "CatBoostClassifier", iterations=30, depth=8)
_histogram = partial(
    unfitted, "HistGradientBoostingClassifier", max_iter=30, min_samples_leaf=1,
    early_stopping=False,
)  # fmt: skip


# ------------------------------------------------------------------------- codings of the columns


def _each(of: Callable[[pd.Series[Any], int], Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda X: pd.DataFrame({c: of(X[c], k) for k, c in enumerate(X)}, index=X.index)


def _jitter(column: pd.Series[Any], k: int) -> Any:
    """Whole people: a number with three decimals for each, in which the value is still seen."""
    rng = np.random.default_rng(k)
    return column + rng.random(len(column)).round(3)


CODINGS: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "0 and 100": lambda X: X * 100,
    "1 and 2": lambda X: X + 1,
    "-1 and 1": lambda X: 2 * X - 1,
    "booleans": lambda X: X.astype(bool),
    "1e6 and 1e6+1": lambda X: X + 1_000_000,
    "1e12 and 1e12+1e9": lambda X: X * 1e9 + 1e12,
    # Below 1e-7, scikit-learn takes values for equal, and grows no tree.
    "0 and 1e-6": lambda X: X * 1e-6,
    "0 and 2e-7": lambda X: X * 2e-7,
    "0.0 and 1.0": lambda X: X.astype(float),
    "-0.0 and 1.0": lambda X: X.astype(float).where(X > 0, -0.0),
    "0.1 and 0.3": lambda X: (X * 0.2 + 0.1).round(1),
    "other scales by column": _each(lambda x, k: x * 10 ** (k - 5) + k),
    "codes of two columns": lambda X: pd.DataFrame(
        {f"c{k}": 2 * X.iloc[:, k] + X.iloc[:, k + 1] for k in range(X.shape[1] - 1)}
    ),
    "days": _each(lambda x, k: 737_000 + 365 * k + 31 * x),
    "three decimals": _each(_jitter),
    "one-hot pairs": lambda X: pd.concat([X.add_suffix("=yes"), (1 - X).add_suffix("=no")], axis=1),
    "columns twice": lambda X: pd.concat([X, X.add_suffix("_2")], axis=1),
    "columns of one value": lambda X: X.assign(site=7, year=2020.5),
}


def _csv(
    lab: Lab, model: Any, X: pd.DataFrame, y: Any, *options: str | Path, policy: str, **more: Any
) -> Attempt:
    train = X.assign(**{LABEL: np.asarray(y)})
    place = model if isinstance(model, Path) else lab.pickle(model)
    trust = () if place.suffix in (".json", ".ubj", ".txt") else ("--trust-pickle",)
    settings = {"schema": False, "train": train, **more}
    return lab.attempt(place, *trust, *options, policy=policy, **settings)


MODELS: Mapping[str, Callable[[], Any]] = {
    "forest": lambda: forest(bootstrap=False),
    "seeded forest": forest,
    "extra trees": extra,
    "tree": partial(unfitted, "DecisionTreeClassifier"),
    "histogram": _histogram,
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
}


def _fitted(lab: Lab, model: str, *options: str | Path, policy: str, **more: Any) -> Attempt:
    X = plain(lab.X)
    return _csv(lab, MODELS[model]().fit(X, lab.y), X, lab.y, *options, policy=policy, **more)


def _coded(lab: Lab, coding: str, model: str, policy: str) -> Attempt:
    X = plain(CODINGS[coding](lab.X))
    return _csv(lab, MODELS[model]().fit(X, lab.y), X, lab.y, policy=policy)


for _k, _coding in enumerate(CODINGS):
    for _j in (_k, _k + 2):
        _model, _policy = list(MODELS)[_j % len(MODELS)], (EXACT, STRICT, BETTER)[(_k + _j) % 3]
        measured(
            f"{_model}, columns: {_coding}",
            partial(_coded, coding=_coding, model=_model, policy=_policy),
        )

# ------------------------------------------------------------------------------------- the labels

LABELS: Mapping[str, Callable[[Any], Any]] = {
    "texts": lambda y: np.where(y > 0, "yes", "no"),
    "booleans": lambda y: y.to_numpy().astype(bool),
    "floats": lambda y: y.to_numpy().astype(float),
    "negative": lambda y: 2 * y.to_numpy() - 1,
    "of each their own": lambda y: np.arange(len(y)),
}


def _labelled(lab: Lab, labels: Callable[[Any], Any]) -> Attempt:
    y = labels(lab.y)
    return _csv(lab, forest(bootstrap=False).fit(lab.X, y), lab.X, y, policy=EXACT)


def _regression(lab: Lab, policy: str, **options: Any) -> Attempt:
    y = lab.y * 1000 + np.random.default_rng(0).normal(0, 100, len(lab.y)).round(2)
    model = RandomForestRegressor(20, random_state=0, **options)
    return _csv(lab, model.fit(lab.X, y), lab.X, y, policy=policy)


measured("labels: {}", _labelled, LABELS)
measured("a regression forest",
         lambda lab: _regression(lab, EXACT, bootstrap=False, max_features=0.5))  # fmt: skip
measured("a regression forest, no leak", lambda lab: _regression(lab, STRICT))

# ------------------------------------------------------------------------------------ the weights

WEIGHTS: Mapping[str, tuple[Any, Callable[[int], Any]]] = {
    "fractions, forest": (lambda: forest(bootstrap=False), lambda n: np.linspace(0.5, 1.5, n)),
    "whole, forest": (lambda: forest(bootstrap=False), lambda n: np.arange(n) % 3 + 1),
    "halves, forest": (lambda: forest(bootstrap=False), lambda n: np.full(n, 0.5)),
    "a thousand, forest": (lambda: forest(bootstrap=False), lambda n: np.full(n, 1000.0)),
    "zero for a row, forest": (lambda: forest(bootstrap=False), lambda n: np.arange(n) > 0),
    "balanced, forest": (lambda: forest(class_weight="balanced"), lambda _: None),
    "balanced in each draw": (lambda: forest(class_weight="balanced_subsample"), lambda _: None),
    "a thousand, XGBoost": (_xgboost, lambda n: np.full(n, 1000.0)),
    "whole, XGBoost": (_xgboost, lambda n: np.arange(n) % 3 + 1),
    "positives, XGBoost": (lambda: _xgboost(scale_pos_weight=2.5), lambda _: None),
    "fractions, LightGBM": (_lightgbm, lambda n: np.linspace(0.5, 1.5, n)),
    "a thousand, histogram": (_histogram, lambda n: np.full(n, 1000.0)),
}


def _weighed(lab: Lab, name: str) -> Attempt:
    make, weights = WEIGHTS[name]
    X = plain(lab.X)
    model = make().fit(X, lab.y, sample_weight=weights(len(X)))
    policy = (EXACT, STRICT)[list(WEIGHTS).index(name) % 2]
    return _csv(lab, model, X, lab.y, policy=policy)


measured("weights: {}", _weighed, WEIGHTS.keys())

# ------------------------------------------------------------------------------------- the schema

SCHEMAS: Mapping[str, Callable[[list[str]], list[Any]]] = {
    "numeric for binary": lambda cs: [treeleak.Numeric(c, 0, 1) for c in cs],
    "numeric, a thousand times as wide": lambda cs: [treeleak.Numeric(c, -1000, 1000) for c in cs],
    "ordinal to a million": lambda cs: [treeleak.Ordinal(c, 0, 10**6) for c in cs],
    "fifty categories": lambda cs: [treeleak.Categorical(c, range(50)) for c in cs],
    "values may be missing": lambda cs: [treeleak.Binary(c, missing=True) for c in cs],
    "one column numeric": lambda cs: [
        treeleak.Numeric(cs[0], -1e6, 1e6), *(treeleak.Binary(c) for c in cs[1:])
    ],
}  # fmt: skip

_POLICIES = {
    "forest": EXACT, "seeded forest": STRICT, "extra trees": EXACT, "XGBoost": STRICT,
    "histogram": EXACT, "LightGBM": EXACT, "tree": PROVED,
}  # fmt: skip


def _with_schema(lab: Lab, model: str, made: Callable[[list[str]], list[Any]]) -> Attempt:
    schema = treeleak.Schema(made(list(plain(lab.X).columns)))
    file = lab.text("other.toml", schema.to_toml())
    return _fitted(lab, model, "--schema", file, policy=_POLICIES[model])


measured("{}, schema: {}", _with_schema, _POLICIES.keys(), SCHEMAS)

# ------------------------------------------------------------------------------ the training rows

TRAINING: Mapping[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "columns in another order": lambda t: t[t.columns[::-1]],
    "floats": lambda t: t.astype(float),
    "texts": lambda t: t.replace({0: "no", 1: "yes"}),
    "true and false": lambda t: t.assign(**{c: t[c].astype(bool) for c in t if c != LABEL}),
    "rows in another order": lambda t: t.sample(frac=1.0, random_state=3),
    "a column more": lambda t: t.assign(id=range(len(t))),
    "half of the rows": lambda t: t[::2],
    "twice": lambda t: pd.concat([t, t]),
    "a small error": lambda t: t + 1e-9 * (np.arange(len(t)) % 2)[:, None],
    "one row, each time": lambda t: t.iloc[[0] * len(t)],
    "one value changed": lambda t: t.assign(**{t.columns[0]: 1 - t[t.columns[0]]}),
    "some missing": lambda t: t.assign(**{t.columns[0]: t.iloc[:, 0].where(t.index % 7 > 0)}),
    "nine rows": lambda t: t[:9],
    "no rows": lambda t: t[:0],
}


def _trained(lab: Lab, rows: str) -> Attempt:
    k = list(TRAINING).index(rows)
    model = MODELS[("forest", "seeded forest", "XGBoost")[k % 3]]().fit(lab.X, lab.y)
    policy, train = (EXACT, STRICT)[k % 2], TRAINING[rows](lab.train)
    return _csv(lab, model, lab.X, lab.y, policy=policy, train=train)


measured("training rows: {}", _trained, TRAINING.keys())

# -------------------------------------------------------------------------------------- the options

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "time limit 0.01": ("--time-limit", "0.01"),
    "time limit 0.3": ("--time-limit", "0.3"),
    "time limit 1": ("--time-limit", "1"),
    "bootstrap none": ("--bootstrap", "none"),
    "bootstrap hidden": ("--bootstrap", "hidden"),
    "n rows 30": ("--n-rows", "30"),
    "n rows 600": ("--n-rows", "600"),
    "no counts of different rows": ("--drawn-counts-only",),
    "no seeds": ("--seed-search", "0", "--bootstrap", "hidden"),
}


def _optioned(lab: Lab, model: str, words: tuple[str, ...]) -> Attempt:
    # Two halves of the options, the same each time.
    policy = EXACT if len("".join(words)) % 2 == 0 else STRICT
    return _fitted(lab, model, *words, policy=policy)


measured("{}, {}", _optioned, ("seeded forest", "XGBoost", "LightGBM", "histogram", "extra trees"),
         OPTIONS)  # fmt: skip

# ------------------------------------------------------------------------------ threshold, control

CONTROLS: Mapping[str, Callable[[Lab], pd.DataFrame]] = {
    "the training rows": lambda lab: lab.train,
    "the training rows, ten times": lambda lab: pd.concat([lab.train] * 10),
    "the training rows with one column changed": lambda lab: pd.concat(
        [lab.train.assign(**{c: 1 - lab.train[c]}) for c in lab.X.columns[:8]]
    ),
    "far away": lambda lab: 1 - pd.concat([lab.train] * 8),
    "others": lambda lab: lab.others[:600],
}


def _controlled(lab: Lab, model: str, made: Callable[[Lab], pd.DataFrame]) -> Attempt:
    control = lab.csv(plain(made(lab)), "control.csv")
    policy = STRICT + "advantage_over_population = 0.1\n"
    return _fitted(lab, model, "--control", control, policy=policy)


def _few(lab: Lab, n: int, policy: str) -> Attempt:
    X, y = lab.X[:n], np.arange(n) % 2
    return _csv(lab, forest(bootstrap=False).fit(X, y), X, y, policy=policy)


def _thousandfold(lab: Lab, model: str) -> Attempt:
    X = plain(lab.X)
    fitted = MODELS[model]().fit(X, lab.y, sample_weight=np.full(len(X), 1000.0))
    return _csv(lab, fitted, X, lab.y, policy=LEAVES)


measured("{}, control: {}", _controlled, ("seeded forest", "XGBoost", "LightGBM"), CONTROLS)
measured("threshold 1", lambda lab: _fitted(lab, "forest", policy="threshold = 1\n" + LEAVES))
measured("a table of {} rows{}", _few, (5, 9), {"": STRICT, ", exact": EXACT})
measured("small leaves of a forest whose weights are a thousand",
         lambda lab: _thousandfold(lab, "forest"))  # fmt: skip
_BOOSTED = ("XGBoost", "LightGBM", "histogram")
measured("small leaves of {}, weights a thousand", _thousandfold, _BOOSTED)
measured("small leaves of {}", lambda lab, model: _fitted(lab, model, policy=LEAVES), _BOOSTED)

# ----------------------------------------------------------------- what files of boosters state


def _xgboost_file(lab: Lab, change: Callable[[Doc], None]) -> Path:
    file = lab.folder / "model.json"
    _xgboost().fit(lab.X, lab.y).get_booster().save_model(file)
    document = json.loads(file.read_text())
    change(document)
    return lab.json(document)


def _learner(**changes: str) -> Callable[[Doc], None]:
    """Change parameters wherever they stand."""

    def change(part: Any) -> None:
        for key, value in list(part.items()) if isinstance(part, dict) else ():
            if key in changes:
                part[key] = changes[key]
            change(value)

    return change


def _sums(factor: float) -> Callable[[Doc], None]:
    def change(document: Doc) -> None:
        for tree in document["learner"]["gradient_booster"]["model"]["trees"]:
            tree["sum_hessian"] = [factor * h for h in tree["sum_hessian"]]

    return change


def _objective(name: str) -> Callable[[Doc], None]:
    def change(document: Doc) -> None:
        document["learner"]["objective"]["name"] = name

    return change


XGBOOST: Mapping[str, Callable[[Doc], None]] = {
    "halved sums": _sums(0.5),
    "no sums": _sums(0.0),
    "sums a thousand times as large": _sums(1000.0),
    "objective squares": _objective("reg:squarederror"),
    "objective Poisson": _objective("count:poisson"),
    "objective hinge": _objective("binary:hinge"),
    "objective logistic regression": _objective("reg:logistic"),
    "base score 0.9": _learner(base_score="9E-1"),
    "positives weigh 3": _learner(scale_pos_weight="3"),
    "three classes": _learner(num_class="3"),
    "an old version": lambda d: d.update(version=[1, 3, 0]),
    "a new version": lambda d: d.update(version=[9, 0, 0]),
}

measured(
    "file of XGBoost{}: {}",
    lambda lab, policy, change: _csv(
        lab, _xgboost_file(lab, change), lab.X, lab.y, policy=policy
    ),
    {"": EXACT, ", leak": STRICT}, XGBOOST,
)  # fmt: skip


def _line(pattern: str, by: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        found, number = re.subn(pattern, by, text, flags=re.MULTILINE)
        if not number:
            raise ValueError(f"nothing is like {pattern!r}")
        return found

    return change


LIGHTGBM: Mapping[str, Callable[[str], str]] = {
    "bagging claimed": _line(r"^\[bagging_fraction: 1\]$", "[bagging_fraction: 0.5]"),
    "bagging claimed, each round": lambda text: _line(
        r"^\[bagging_freq: 0\]$", "[bagging_freq: 1]"
    )(_line(r"^\[bagging_fraction: 1\]$", "[bagging_fraction: 0.5]")(text)),
    "positives weigh 3": _line(r"^\[scale_pos_weight: 1\]$", "[scale_pos_weight: 3]"),
    "unbalanced": _line(r"^\[is_unbalance: 0\]$", "[is_unbalance: 1]"),
    "objective squares": _line(r"^objective=.*$", "objective=regression"),
    "objective of its own": _line(r"^objective=.*$\n", ""),
    "no parameters": _line(r"^parameters:[\s\S]*end of parameters\n", ""),
    "weights of leaves halved": lambda text: re.sub(
        r"^leaf_weight=(.*)$",
        lambda m: "leaf_weight=" + " ".join(f"{float(v) / 2:.17g}" for v in m[1].split()),
        text, flags=re.MULTILINE,
    ),
    "counts a hundred times as large": lambda text: re.sub(
        r"^(leaf|internal)_count=(.*)$",
        lambda m: f"{m[1]}_count=" + " ".join(str(100 * int(v)) for v in m[2].split()),
        text, flags=re.MULTILINE,
    ),
    "counts of 0": lambda text: re.sub(
        r"^(leaf|internal)_count=(.*)$",
        lambda m: f"{m[1]}_count=" + " ".join("0" for _ in m[2].split()),
        text, flags=re.MULTILINE,
    ),
    "an old version": _line(r"^version=v4$", "version=v3"),
    "goss": _line(r"^\[data_sample_strategy: bagging\]$", "[data_sample_strategy: goss]"),
    "linear": _line(r"^\[linear_tree: 0\]$", "[linear_tree: 1]"),
}  # fmt: skip

LIMITS = {"": EXACT, ", leak": STRICT, ", leaves": LEAVES}


def _lightgbm_file(lab: Lab, policy: str, edit: Callable[[str], str]) -> Attempt:
    X = plain(lab.X)
    text = _lightgbm().fit(X, lab.y).booster_.model_to_string()
    return _csv(lab, lab.text("model.txt", edit(text)), X, lab.y, policy=policy)


def _catboost_file(lab: Lab, policy: str, spoil: Callable[[Doc], Any], **options: Any) -> Attempt:
    file = lab.folder / "model.cbm.json"
    _catboost(**options).fit(lab.X, lab.y).save_model(file, format="json")
    document = json.loads(file.read_text())
    spoil(document)
    return _csv(lab, lab.json(document), lab.X, lab.y, policy=policy)


def _leaf_weights(factor: float) -> Callable[[Doc], Any]:
    return lambda d: [
        t.update(leaf_weights=[factor * w for w in t["leaf_weights"]]) for t in d["oblivious_trees"]
    ]


measured("file of LightGBM{}: {}", _lightgbm_file, LIMITS, LIGHTGBM)
measured("CatBoost", lambda lab: _catboost_file(lab, EXACT, lambda _: None))
measured(
    "file of CatBoost{}: {}",
    partial(_catboost_file, bootstrap_type="No", boosting_type="Plain"),
    LIMITS, {
        "weights of leaves a thousand times": _leaf_weights(1000.0),
        "weights of leaves 0": _leaf_weights(0.0),
        "no weights of leaves": lambda d: [t.pop("leaf_weights") for t in d["oblivious_trees"]],
    },
)  # fmt: skip

SCALERS: Mapping[str, tuple[Any, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "standardised": (StandardScaler, lambda X: X * 100),
    "from 0 to 1": (MinMaxScaler, lambda X: X + 1),
    "filled in": (SimpleImputer, lambda X: X * 100),
    "as floats": (MaxAbsScaler, lambda X: 2 * X - 1),
    "codes": (OrdinalEncoder, lambda X: X * 100),
    "one-hot": (lambda: OneHotEncoder(sparse_output=False), lambda X: X + 1),
}


def _scaled(lab: Lab, name: str) -> Attempt:
    step, scale = SCALERS[name]
    last = extra() if list(SCALERS).index(name) % 2 else forest(bootstrap=False)
    X = scale(lab.X)
    return _csv(lab, make_pipeline(step(), last).fit(X, lab.y), X, lab.y, policy=EXACT)


def _encoded(lab: Lab) -> Attempt:
    X = lab.X.replace({0: "no", 1: "yes"})
    model = make_pipeline(OneHotEncoder(sparse_output=False), _xgboost()).fit(X, lab.y)
    return _csv(lab, model, X, lab.y, policy=EXACT)


def _in_dict(lab: Lab, policy: str, **beside: Any) -> Attempt:
    model = {**beside, "model": forest(bootstrap=False).fit(lab.X, lab.y)}
    return _csv(lab, lab.pickle(model), lab.X, lab.y, policy=policy)


def _two_in_dict(lab: Lab) -> Attempt:
    stump = DecisionTreeClassifier(max_depth=1, min_samples_leaf=20).fit(lab.X, lab.y)
    return _in_dict(lab, STRICT, a=stump)


measured("XGBoost in a pipeline with an encoder", _encoded)
measured("a pipeline: {}", _scaled, SCALERS.keys())
measured("a forest in a dict", lambda lab: _in_dict(lab, EXACT, threshold=0.5))
measured("two forests in a dict", _two_in_dict)
