"""Random tables, and random settings of four libraries to train a model of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Rng = np.random.Generator


@dataclass(frozen=True)
class Trained:
    """A model, its rows, and the leaves that it sends rows to."""

    named: str
    model: Any
    X: pd.DataFrame
    y: Any
    leaves: Callable[[pd.DataFrame], NDArray[Any]]
    weights: NDArray[Any] | None = None

    @property
    def fitted(self) -> int:
        """Rows that trees were fitted to: early stopping of scikit-learn holds the rest back."""
        share = getattr(self.model, "validation_fraction", None)
        rounds = getattr(self.model, "n_iter_no_change", None)
        stops = getattr(self.model, "do_early_stopping_", rounds is not None)
        return len(self.X) - (math.ceil(share * len(self.X)) if stops and share else 0)


def column(rng: Rng, n: int) -> NDArray[np.float64]:
    """Draw a column of some kind."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.integers(0, 2, n),
        lambda: rng.integers(0, 2, n),
        lambda: rng.integers(0, 2, n) * 100,
        lambda: rng.integers(1, 3, n),
        lambda: rng.integers(0, rng.integers(2, 9), n),
        lambda: rng.integers(-3, 4, n) * 10,
        lambda: rng.normal(size=n).round(3),
        lambda: rng.normal(size=n).astype(np.float32),
        lambda: rng.exponential(1000.0, n).round(1),
        lambda: np.full(n, float(rng.integers(0, 3))),
    ]
    return np.asarray(kinds[rng.integers(len(kinds))](), dtype=float)


def table(rng: Rng) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Draw a table, and a number of each row from which its label or target follows."""
    n, m = int(rng.integers(5, 61)), int(rng.integers(2, 7))
    values = np.column_stack([column(rng, n) for _ in range(m)])
    if rng.random() < 0.3:
        values = values[rng.integers(0, n, n)]
    spread = values.std(axis=0)
    score = (values / np.where(spread > 0, spread, 1.0)) @ rng.normal(size=m)
    score += rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=n)
    return pd.DataFrame(values, columns=[f"c{j}" for j in range(m)]), score


def labels(rng: Rng, score: NDArray[np.float64]) -> Any:
    """Make two to four classes of a score, of numbers or texts; at least two are there."""
    k = int(rng.choice([2, 2, 2, 3, 4]))
    shares = np.sort(rng.random(k - 1)) if rng.random() < 0.3 else np.arange(1, k) / k
    codes = np.searchsorted(np.quantile(score, shares), score)
    codes[0], codes[-1] = 0, max(1, codes[-1])
    codes = np.unique(codes, return_inverse=True)[1]
    return np.array(["no", "yes", "so-so", "never"])[codes] if rng.random() < 0.3 else codes


def targets(rng: Rng, score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make targets of a score: raw, rounded, whole, or many of them equal."""
    scale = float(rng.choice([1.0, 50.0, 1e4]))
    return np.asarray((score * scale).round(int(rng.choice([0, 0, 2, 12]))) + rng.choice([0, 100]))


def weights(rng: Rng, n: int) -> Any:
    """Draw weights of rows: mostly none; whole, halves, or any."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.integers(1, 4, n).astype(float),
        lambda: rng.integers(0, 3, n).astype(float) + (np.arange(n) < 2),
        lambda: rng.integers(1, 5, n) / 2,
        lambda: rng.random(n) + 0.1,
        lambda: np.full(n, 2.0),
    ]
    return kinds[rng.integers(len(kinds))]() if rng.random() < 0.3 else None


def some(rng: Rng, options: Mapping[str, list[Any]], share: float = 0.25) -> dict[str, Any]:
    """Choose some options, and a value for each."""
    return {
        name: values[rng.integers(len(values))]
        for name, values in options.items()
        if rng.random() < share
    }


_TREES: Mapping[str, list[Any]] = {
    "max_depth": [1, 2, 3, 5, None], "min_samples_leaf": [1, 2, 5, 0.1],
    "min_samples_split": [2, 5, 0.2], "max_leaf_nodes": [2, 4, 9],
    "min_impurity_decrease": [0.001, 0.02], "ccp_alpha": [0.001, 0.02],
    "max_features": [1, "sqrt", 0.5, None], "min_weight_fraction_leaf": [0.05, 0.1],
}  # fmt: skip
_CLASSES: Mapping[str, list[Any]] = {
    "criterion": ["gini", "entropy", "log_loss"], "class_weight": ["balanced"],
}  # fmt: skip
_NUMBERS: Mapping[str, list[Any]] = {
    "criterion": ["squared_error", "absolute_error", "friedman_mse", "poisson"]
}
_FORESTS: Mapping[str, list[Any]] = {
    "bootstrap": [True, False], "max_samples": [0.5, 0.9, 5], "oob_score": [True],
    "warm_start": [True],
}  # fmt: skip


def _with(*parts: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: values for part in parts for name, values in part.items()}


def sklearn_model(rng: Rng, n_columns: int, classes: bool) -> Any:
    """Make an unfitted model of scikit-learn."""
    from sklearn import ensemble, tree

    end = "Classifier" if classes else "Regressor"
    own = _CLASSES if classes else _NUMBERS
    kind = rng.choice(
        ["Tree", "RandomForest", "RandomForest", "ExtraTrees", "Bagging", "GradientBoosting",
         "HistGradientBoosting", "AdaBoost", "ExtraTree"]
    )  # fmt: skip
    seed = {"random_state": int(rng.integers(0, 1000))} if rng.random() < 0.8 else {}
    size = {"n_estimators": int(rng.choice([1, 2, 5, 10, 20]))}
    mono = {"monotonic_cst": [list(map(int, rng.integers(-1, 2, n_columns)))]}
    if kind in ("Tree", "ExtraTree"):
        made = getattr(tree, f"Decision{kind}{end}" if kind == "Tree" else f"{kind}{end}")
        given = some(rng, _with(_TREES, own, {"splitter": ["best", "random"]}, mono))
        return made(**given, **seed)
    made = getattr(ensemble, f"{kind}{end}")
    if kind in ("RandomForest", "ExtraTrees"):
        return made(**some(rng, _with(_TREES, own, _FORESTS, mono), 0.2), **size, **seed)
    if kind == "GradientBoosting":
        losses = ["log_loss", "exponential"] if classes else [
            "squared_error", "absolute_error", "huber", "quantile"
        ]  # fmt: skip
        trees = {k: v for k, v in _TREES.items() if k != "ccp_alpha"}
        given = some(rng, _with(trees, {
            "loss": losses, "subsample": [0.5, 0.8], "learning_rate": [0.01, 0.5, 1.0],
            "criterion": ["friedman_mse", "squared_error"], "ccp_alpha": [0.001],
            "n_iter_no_change": [3], "init": ["zero"], "warm_start": [True],
        }), 0.2)  # fmt: skip
        return made(**given, **size, **seed)
    if kind == "HistGradientBoosting":
        losses = ["log_loss"] if classes else [
            "squared_error", "absolute_error", "gamma", "poisson", "quantile"
        ]  # fmt: skip
        given = some(rng, {
            "loss": losses, "learning_rate": [0.01, 0.5, 1.0], "max_leaf_nodes": [3, 31, None],
            "max_depth": [1, 2, 5], "l2_regularization": [0.5, 2.0], "max_bins": [4, 16, 255],
            "early_stopping": [True], "max_features": [0.5], "interaction_cst": ["pairwise"],
            **mono, "warm_start": [True], "class_weight": ["balanced"] if classes else [None],
        }, 0.2)  # fmt: skip
        given = {k: v for k, v in given.items() if v is not None}
        if given.get("loss") == "quantile":
            given["quantile"] = 0.3
        leaf = int(rng.choice([1, 2, 5, 20]))
        return made(max_iter=size["n_estimators"], min_samples_leaf=leaf, **given, **seed)
    base = getattr(tree, f"DecisionTree{end}")(**some(rng, _with(_TREES, own), 0.2))
    if kind == "AdaBoost":
        return made(base, **size, **some(rng, {"learning_rate": [0.5, 2.0]}), **seed)
    given = some(rng, {
        "max_samples": [0.5, 0.9, 7], "max_features": [0.6], "bootstrap": [False],
        "bootstrap_features": [True], "oob_score": [True], "warm_start": [True],
    })  # fmt: skip
    return made(base, **size, **given, **seed)


_XGBOOST: Mapping[str, list[Any]] = {
    "max_depth": [1, 2, 3, 6, 0], "learning_rate": [0.01, 0.5, 1.0], "subsample": [0.5, 0.8],
    "colsample_bytree": [0.5], "colsample_bynode": [0.5], "reg_lambda": [0.0, 5.0],
    "reg_alpha": [0.5], "gamma": [0.1], "min_child_weight": [0.0, 3.0], "max_delta_step": [0.7],
    "base_score": [0.3, 0.7], "tree_method": ["exact", "approx", "hist"],
    "grow_policy": ["lossguide"], "max_leaves": [4], "max_bin": [4, 16], "booster": ["dart"],
    "num_parallel_tree": [3], "scale_pos_weight": [2.0, 0.5],
    "multi_strategy": ["multi_output_tree"],
    "monotone_constraints": [(1,)], "sampling_method": ["uniform"],
}  # fmt: skip
_LIGHTGBM: Mapping[str, list[Any]] = {
    "num_leaves": [2, 4, 31], "max_depth": [1, 3], "learning_rate": [0.01, 0.5, 1.0],
    "min_child_samples": [1, 2, 5, 20], "min_child_weight": [0.0, 1.0], "reg_lambda": [1.0],
    "reg_alpha": [0.5], "boosting_type": ["dart", "rf", "gbdt"], "data_sample_strategy": ["goss"],
    "colsample_bytree": [0.5], "scale_pos_weight": [2.0], "is_unbalance": [True],
    "max_delta_step": [0.7], "linear_tree": [True], "use_quantized_grad": [True],
    "boost_from_average": [False], "max_bin": [4, 16], "extra_trees": [True],
    "path_smooth": [1.0], "min_split_gain": [0.1], "zero_as_missing": [True],
    "cat_smooth": [1.0], "max_cat_to_onehot": [10], "min_data_per_group": [1],
}  # fmt: skip
_CATBOOST: Mapping[str, list[Any]] = {
    "depth": [1, 2, 6], "learning_rate": [0.01, 0.5, 1.0], "l2_leaf_reg": [0.1, 10.0],
    "bootstrap_type": ["Bernoulli", "Bayesian", "MVS", "No"], "rsm": [0.5],
    "grow_policy": ["Depthwise", "Lossguide"], "leaf_estimation_iterations": [1, 5],
    "leaf_estimation_method": ["Newton", "Gradient"], "boosting_type": ["Ordered", "Plain"],
    "border_count": [4, 32], "random_strength": [0.0], "boost_from_average": [True, False],
    "auto_class_weights": ["Balanced"], "nan_mode": ["Max"], "langevin": [True],
}  # fmt: skip


def boosted(rng: Rng, X: pd.DataFrame, y: Any, w: Any, classes: bool, name: str) -> Any:
    """Train a model of XGBoost, LightGBM or CatBoost."""
    rounds = int(rng.choice([1, 2, 5, 10, 20]))
    n_classes = len(set(map(str, y))) if classes else 0
    codes = np.unique(y, return_inverse=True)[1] if classes else y
    extra: dict[str, Any] = {"sample_weight": w}
    held = X.iloc[: max(3, len(X) // 4)], codes[: max(3, len(X) // 4)]
    end = "Classifier" if classes else "Regressor"
    if name == "xgboost":
        import xgboost

        given = some(rng, _XGBOOST, 0.13)
        if not classes:
            given |= some(rng, {"objective": [
                "reg:absoluteerror", "reg:pseudohubererror", "reg:quantileerror", "count:poisson",
                "reg:gamma", "reg:tweedie", "reg:squarederror",
            ]})  # fmt: skip
            given.pop("scale_pos_weight", None)
            if given.get("objective") == "reg:quantileerror":
                given["quantile_alpha"] = 0.4
        if n_classes > 2:
            given.pop("scale_pos_weight", None)
        if given.get("grow_policy") and given.get("tree_method") == "exact":
            given.pop("grow_policy")
        if rng.random() < 0.1:
            given["early_stopping_rounds"] = 2
            extra["eval_set"] = [held]
        if rng.random() < 0.1 and n_classes < 3:
            extra["base_margin"] = rng.normal(size=len(X))
        if "monotone_constraints" in given:
            given["monotone_constraints"] = tuple(map(int, rng.integers(-1, 2, X.shape[1])))
        made = getattr(xgboost, f"XGB{end}")
        model = made(n_estimators=rounds, n_jobs=1, **given)
        model.fit(X, codes, verbose=False, **extra)
        if rng.random() < 0.1 and "eval_set" not in extra:
            model = made(n_estimators=3, n_jobs=1, **given).fit(
                X, codes, xgb_model=model.get_booster(), **extra
            )
        return model
    if name == "lightgbm":
        import lightgbm

        given = some(rng, _LIGHTGBM, 0.13)
        if given.get("boosting_type") == "rf" or rng.random() < 0.15:
            given |= {"subsample": 0.7, "subsample_freq": 1}
        if given.get("is_unbalance"):
            given.pop("scale_pos_weight", None)
        if n_classes > 2:
            given.pop("scale_pos_weight", None)
            given |= some(rng, {"objective": ["multiclassova"]})
        if not classes:
            for lost in ("scale_pos_weight", "is_unbalance"):
                given.pop(lost, None)
            given |= some(rng, {"objective": [
                "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie",
            ]})  # fmt: skip
        if rng.random() < 0.1 and n_classes < 3:
            extra["init_score"] = rng.normal(size=len(X))
        if rng.random() < 0.1:
            extra |= {"eval_set": [held], "callbacks": [lightgbm.early_stopping(2, verbose=False)]}
        whole = [j for j in range(X.shape[1]) if X.iloc[:, j].isin(range(10)).all()]
        if whole and rng.random() < 0.3 and not given.get("linear_tree"):
            extra["categorical_feature"] = whole[: int(rng.integers(1, len(whole) + 1))]
        made = getattr(lightgbm, f"LGBM{end}")
        model = made(n_estimators=rounds, n_jobs=1, verbose=-1, **given)
        model.fit(X, codes, **extra)
        if rng.random() < 0.1 and "eval_set" not in extra:
            model = made(n_estimators=3, n_jobs=1, verbose=-1, **given).fit(
                X, codes, init_model=model.booster_, **extra
            )
        return model
    import catboost

    given = some(rng, _CATBOOST, 0.13)
    if given.get("bootstrap_type") == "Bernoulli":
        given["subsample"] = 0.7
    if given.get("grow_policy") or n_classes > 2:
        given.pop("boosting_type", None)
    if not classes:
        given.pop("auto_class_weights", None)
        given |= some(rng, {"loss_function": ["RMSE", "MAE", "Poisson", "Quantile:alpha=0.3"]})
    model = getattr(catboost, f"CatBoost{end}")(
        iterations=rounds, thread_count=1, verbose=0, allow_writing_files=False, **given
    )
    return model.fit(X, codes, **extra)


def _leaves(model: Any, library: str) -> Callable[[pd.DataFrame], NDArray[Any]]:
    """Say by the library itself to which leaves rows go; by treeleak where it has no such call."""

    def of(X: pd.DataFrame) -> NDArray[Any]:
        if library == "lightgbm":
            return np.asarray(model.predict(X, pred_leaf=True)).reshape(len(X), -1)
        if library == "catboost":
            return np.asarray(model.calc_leaf_indexes(X)).reshape(len(X), -1)
        if hasattr(model, "apply"):
            return np.asarray(model.apply(X.to_numpy() if library == "sklearn" else X)).reshape(
                len(X), -1
            )
        members = getattr(model, "estimators_", None)
        if members is not None:
            parts = getattr(model, "estimators_features_", [slice(None)] * len(members))
            return np.column_stack(
                [one.apply(X.to_numpy()[:, own]) for one, own in zip(members, parts, strict=True)]
            )
        from treeleak.release import to_release

        return np.asarray(to_release(model).leaves(X))

    return of


def trained(seed: int, weighted: bool = True) -> Trained:
    """Train the model of a seed; some have weights of rows, unless these are left out."""
    rng = np.random.default_rng(seed)
    X, score = table(rng)
    library = str(rng.choice(["sklearn", "sklearn", "xgboost", "lightgbm", "catboost"]))
    classes = bool(rng.random() < 0.65)
    y = labels(rng, score) if classes else targets(rng, score)
    w = weights(rng, len(X))
    w = w if weighted else None
    if library != "sklearn":
        if rng.random() < 0.25:
            X = X.mask(rng.random(X.shape) < 0.15)
        if classes:
            y = np.unique(y, return_inverse=True)[1]
        positive = y if classes else np.abs(y) + 1.0
        try:
            model = boosted(rng, X, y, w, classes, library)
        except Exception:
            y = positive
            model = boosted(rng, X, y, w, classes, library)
        return Trained(_named(model, w), model, X, y, _leaves(model, library), w)
    model = sklearn_model(rng, X.shape[1], classes)
    takes_missing = not getattr(model, "monotonic_cst", None) and rng.random() < 0.25
    gaps = X.mask(rng.random(X.shape) < 0.15)
    given = {"sample_weight": w}
    for rows, outcomes in (
        (gaps if takes_missing else X, y),
        (X, y),
        (X, np.abs(y) + 1.0 if not classes else y),
    ):
        try:
            model.fit(rows, outcomes, **given)
        except ValueError as error:
            why = error
            continue
        if getattr(model, "warm_start", False) and rng.random() < 0.7:
            more = "max_iter" if hasattr(model, "max_iter") else "n_estimators"
            model.set_params(**{more: getattr(model, more) + 3}).fit(rows, outcomes, **given)
        return Trained(_named(model, w), model, rows, outcomes, _leaves(model, library), w)
    raise why


def _named(model: Any, w: Any) -> str:
    given = {k: v for k, v in model.get_params().items() if v is not None}
    if type(model).__module__.startswith("sklearn"):
        given = {"": " ".join(repr(model).split())}
    weighted = "" if w is None else f" with weights {np.asarray(w)[:6].tolist()}"
    return f"{type(model).__name__} {given}{weighted}"
