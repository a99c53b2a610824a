"""Training a model again in the same way, on other rows: what shadow models are made of.

A live model is cloned with its settings. From a file, only what trains the trees is made again, by
its class and its plain settings; nothing of the file is run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from treeleak.core.arrays import FloatArray, rows_at
from treeleak.core.errors import NotCovered, TimeUp
from treeleak.core.message import MessageTemplate, static_message
from treeleak.core.private import dataclass
from treeleak.learn.confidence import of_model
from treeleak.release import Release, StoredObject, to_release

TREES: Mapping[str, str] = {
    **dict.fromkeys(
        ("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier",
         "ExtraTreeRegressor"), "sklearn.tree",
    ),
    **dict.fromkeys(
        ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier",
         "ExtraTreesRegressor", "GradientBoostingClassifier", "GradientBoostingRegressor",
         "HistGradientBoostingClassifier", "HistGradientBoostingRegressor",
         "AdaBoostClassifier", "AdaBoostRegressor", "BaggingClassifier", "BaggingRegressor"),
        "sklearn.ensemble",
    ),
    **dict.fromkeys(("XGBClassifier", "XGBRegressor"), "xgboost"),
    **dict.fromkeys(("LGBMClassifier", "LGBMRegressor"), "lightgbm"),
    **dict.fromkeys(("CatBoostClassifier", "CatBoostRegressor"), "catboost"),
}  # fmt: skip
"""Classes that are made again from a file, with their modules."""
_WORDS = frozenset({
    "criterion", "splitter", "loss", "max_features", "class_weight", "algorithm", "early_stopping",
    "booster", "grow_policy", "tree_method", "objective", "boosting_type", "bootstrap_type",
    "auto_class_weights", "loss_function", "scoring",
})  # fmt: skip
"""Settings that are words; any other text may be a path."""
_TREES = frozenset({"n_estimators", "max_iter", "iterations"})
_LEAVES = frozenset({"num_leaves", "max_leaves", "max_leaf_nodes"})
_BINS = frozenset({"max_bin", "max_bins", "border_count"})
_MOST_BINS = 1024
_LARGEST = 1e6
"""No more than this of anything, and no more trees and leaves than the file has: what a setting
asks for takes memory."""
_LEFT_OUT = frozenset({"n_jobs", "nthread", "thread_count", "verbose", "verbosity", "warm_start"})
_DEPTH = 5

NO_CLONE = MessageTemplate(
    "refit_no_clone", "a {name} cannot be cloned and trained again on other rows"
)
UNKNOWN_KIND = MessageTemplate(
    "refit_unknown_kind",
    "the file does not say how to train a {name} again: audit the model itself in Python "
    "(treeleak.audit(model, X, y)), which does",
)
NOT_HERE = static_message(
    "it is a file of R, YDF, ONNX or PMML, which treeleak cannot train again on other rows",
    "refit_not_here",
)
PREFIT = static_message(
    "parts of the model were fitted before it, and training it again would keep them",
    "refit_prefit",
)
STOPPED_EARLY = static_message(
    "it stops early by rows that are not in the model, so it cannot be trained again alike",
    "refit_early_stopping",
)
FAILED = MessageTemplate(
    "refit_failed", "it could not be trained again on a part of the rows ({error})"
)
UNLIKE = static_message(
    "trained again by the settings in the file, the model has trees of another size", "refit_unlike"
)
MISSING = MessageTemplate(
    "refit_library_missing",
    "training the model again needs {module}: pip install {module}",
)
REASONS = (NO_CLONE, UNKNOWN_KIND, NOT_HERE, PREFIT, STOPPED_EARLY, FAILED, UNLIKE, MISSING)
_LEAST_LEAVES, _MOST_LEAVES = 1 / 40, 2.0
"""Leaves that a model of a part of the rows may have for each leaf of the model: of default trees
they are as many as rows, and the smallest part is a thirty-second of them."""
_LIGHTGBM = {
    "num_iterations": "n_estimators", "learning_rate": "learning_rate",
    "num_leaves": "num_leaves", "max_depth": "max_depth", "max_bin": "max_bin",
    "min_data_in_leaf": "min_child_samples", "min_sum_hessian_in_leaf": "min_child_weight",
    "bagging_fraction": "subsample", "bagging_freq": "subsample_freq",
    "feature_fraction": "colsample_bytree", "lambda_l1": "reg_alpha", "lambda_l2": "reg_lambda",
    "min_gain_to_split": "min_split_gain", "scale_pos_weight": "scale_pos_weight",
}  # fmt: skip
"""Numbers in the parameters of LightGBM's text, by their names in its interface."""


@dataclass(frozen=True)
class Refit:
    """How to train a model again.

    Attributes
    ----------
    name : str
        Its class.
    make : callable
        Gives a new estimator that is not fitted, from a seed.
    """

    name: str
    make: Callable[[int], Any]
    like: Release | None = None
    """The trees of a file: its settings count only if they make such trees."""

    def scores(self, X: Any, y: NDArray[Any], chosen: NDArray[np.intp], seed: int) -> FloatArray:
        """Train on the chosen rows; say of every row how sure the model is of its label.

        Returns an array of shape (n_rows,), see :mod:`treeleak.learn.confidence`.

        Raises
        ------
        NotCovered
            If training fails.
        """
        try:
            with _quiet():
                model = self.make(seed)
                model.fit(rows_at(X, chosen), y[chosen])
                if self.like is not None and not _resembles(to_release(model), self.like):
                    raise NotCovered(UNLIKE)
                return of_model(model, X, y)
        except (TimeUp, NotCovered, MemoryError):
            raise
        except Exception as error:
            # Foreign code may raise anything, and name values of people.
            raise NotCovered(FAILED(error=type(error).__name__)) from error


def refit_of(live: Any, content: Any, release: Release | None = None) -> Refit:
    """Find how to train a model again.

    Parameters
    ----------
    live : estimator or None
        The model itself.
    content : StoredObject or other
        The model as it was read from a file.
    release : Release, optional
        Its trees.

    Raises
    ------
    NotCovered
        If it cannot be done, saying why.
    """
    if live is not None:
        return _of_live(live)
    if isinstance(content, StoredObject) and (inner := inner_trees(content, TREES)) is not None:
        kind = _imported(TREES[inner.name], inner.name)
        settings = plain_settings(inner, kind, release)
        return Refit(inner.name, lambda seed: _seeded(kind(**settings), seed), release)
    if isinstance(content, StoredObject) and content.type == "lightgbm.basic.Booster":
        return _of_lightgbm(content, release)
    kind = content.type if isinstance(content, StoredObject) else ""
    origin = "" if release is None else release.origin
    of_others = origin.startswith(("YDF,", "ONNX,", "PMML,")) or origin.endswith("(R)")
    if of_others or str(kind).startswith(("R.", "ydf.", "onnx.")):
        raise NotCovered(NOT_HERE)
    raise NotCovered(UNKNOWN_KIND(name=getattr(content, "name", "model")))


def _imported(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise NotCovered(MISSING(module=module)) from error


def _of_lightgbm(content: StoredObject, release: Release | None) -> Refit:
    stated = content.get("parameters") or {}
    objective = str(content.get("objective")).partition(" ")[0]
    if objective not in ("regression", "binary", "multiclass") or not stated:
        raise NotCovered(UNKNOWN_KIND(name="LightGBM"))
    name = "LGBMRegressor" if objective == "regression" else "LGBMClassifier"
    kind = _imported("lightgbm", name)
    try:
        numbers = {ours: float(stated[key]) for key, ours in _LIGHTGBM.items() if key in stated}
    except ValueError as error:
        raise NotCovered(UNKNOWN_KIND(name="LightGBM")) from error
    whole = {k: int(v) if v.is_integer() else v for k, v in numbers.items()}
    settings = _bounded(whole, release)
    return Refit(name, lambda seed: _seeded(kind(**settings), seed), release)


def _resembles(made: Release, model: Release) -> bool:
    """Whether there are as many trees, whose leaves are as few or as many as fewer rows make."""
    trees, expected = len(made.trees), len(model.trees)
    leaves, of_model = (
        sum(int(t.is_leaf.sum()) for t in r.trees) / len(r.trees) for r in (made, model)
    )
    few = max(of_model * _LEAST_LEAVES, 1.0)
    return expected / 2 <= trees <= 2 * expected and few <= leaves <= _MOST_LEAVES * of_model


def inner_trees(
    stored: StoredObject, kinds: Mapping[str, str], depth: int = 0
) -> StoredObject | None:
    """Find the trees inside others: the last step of a pipeline, what was calibrated or searched.

    ``kinds``: module of each class.
    """
    if stored.name in kinds and stored.type.partition(".")[0] == kinds[stored.name].split(".")[0]:
        return stored
    if depth > _DEPTH or not stored.type.startswith("sklearn."):
        return None
    inside: list[Any] = [stored.get("best_estimator_")]
    inside += [step for _, step in stored.get("steps", ()) or ()][-1:]
    found = (inner_trees(s, kinds, depth + 1) for s in inside if isinstance(s, StoredObject))
    return next((f for f in found if f is not None), None)


def plain_settings(
    stored: StoredObject, kind: type[Any], release: Release | None = None
) -> dict[str, Any]:
    """Take the settings of a stored model that are words or numbers, as its class names them.

    ``release``: the trees that the settings made.
    """
    named = {k: v for k, v in stored.state.items() if k in kind().get_params()}
    return _bounded(
        {k: v for k, v in named.items() if k not in _LEFT_OUT and _is_plain(k, v)}, release
    )


def _is_plain(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return name in _WORDS and value.isidentifier()
    return value is None or isinstance(value, (bool, int, float))


def _bounded(settings: dict[str, Any], release: Release | None) -> dict[str, Any]:
    """Ask for no more trees, leaves and bins than the trees of a file need."""
    trees = () if release is None else release.trees
    leaves = max((int(t.is_leaf.sum()) for t in trees), default=2)
    found = dict(settings)
    for names, most in ((_TREES, len(trees)), (_LEAVES, max(leaves, 2)), (_BINS, _MOST_BINS)):
        for name in names & found.keys():
            value = found[name]
            if isinstance(value, (int, float)) and value > most:
                found[name] = most
    return {k: v for k, v in found.items() if not isinstance(v, (int, float)) or abs(v) <= _LARGEST}


def _of_live(live: Any) -> Refit:
    from sklearn.base import clone

    model = getattr(live, "best_estimator_", live)
    name = type(model).__name__
    try:
        settings = clone(model).get_params(deep=True)
    except Exception as error:
        raise NotCovered(NO_CLONE(name=name)) from error
    for key, value in settings.items():
        setting = key.rpartition("__")[2]
        if type(value).__name__ == "FrozenEstimator" or (setting, value) == ("cv", "prefit"):
            raise NotCovered(PREFIT)
        if setting == "prefit" and value is True:
            raise NotCovered(PREFIT)
        if setting == "early_stopping_rounds" and value is not None:
            raise NotCovered(STOPPED_EARLY)
    return Refit(name, lambda seed: _seeded(clone(model), seed))


def _seeded(model: Any, seed: int) -> Any:
    """Set every seed of a model, and let it write no files and no progress."""
    settings = model.get_params(deep=True)
    chosen = {k: seed for k in settings if k.rpartition("__")[2] in ("random_state", "random_seed")}
    model.set_params(**chosen)
    for part in [model, *settings.values()]:
        library = type(part).__module__.partition(".")[0]
        if library == "catboost":
            part.set_params(allow_writing_files=False)
            if not {"verbose", "silent", "logging_level"} & part.get_params().keys():
                part.set_params(verbose=False)
        elif library == "lightgbm":
            part.set_params(verbosity=-1)
    return model


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Print nothing, and use one thread: for few rows, more of them wait for each other."""
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield
