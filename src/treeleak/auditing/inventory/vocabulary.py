"""Words of known libraries, and kinds of parts that a policy may forbid.

A file can give any name to its attributes, and any text as its origin: a person's, say. What is not
found here is counted, and not repeated by the releasable edition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from treeleak.auditing.inventory import rules_of_r
from treeleak.auditing.inventory.conditions import fits
from treeleak.auditing.inventory.known_classes import class_names
from treeleak.auditing.inventory.rules import RULES, STORED, SUSPICIOUS, UNKNOWN
from treeleak.release.registry import known_classes

_BY_CHANGE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "training rows": ("rows",),
        "per-row arrays": ("rows", "per_row"),
        "seeds": ("seeds", "noise seeds"),
        "counts": ("counts", "rule counts"),
        "values of rows": ("values",),
    }
)

_ENDS = ("feature_infos", "data_min_", "_min_value", "feature_bounds_")
"""Attributes in which libraries keep the least and the greatest value of each column."""

KINDS = (*_BY_CHANGE, "minima and maxima", "unknown parts")
"""Families of kinds; beside them, each kind that the inventory names may be forbidden."""


@cache
def parts_of_family(name: str = "") -> frozenset[str]:
    """Find the kinds of a family, or the one kind of this name; all kinds, if none is given.

    Returns an empty set if nothing is called so.
    """
    rules = (*RULES, STORED, SUSPICIOUS, UNKNOWN)
    notable = [rule for rule in rules if rule.mark != "harmless"]
    if name == "minima and maxima":
        ends = [rule for rule in notable if any(fits(rule.names, end) for end in _ENDS)]
        return frozenset(rule.what for rule in ends if rule.change == "values")
    if name == "unknown parts":
        return frozenset(rule.what for rule in notable if rule.unknown)
    if (changes := _BY_CHANGE.get(name)) is not None:
        return frozenset(rule.what for rule in notable if rule.change in changes)
    every = frozenset(rule.what for rule in notable)
    return every if not name else every & {name}


UNSTATED = "a model of unstated origin"
HIDDEN = "…"

_LIBRARIES = {
    "sklearn": "scikit-learn", "scikit-learn": "scikit-learn", "treeleak": "treeleak",
    "diffprivlib": "diffprivlib", "WEKA": "WEKA", "imblearn": "imbalanced-learn",
    "ONNX": "ONNX", "onnx": "ONNX", "PMML": "PMML", "pmml": "PMML",
    "interpret": "interpret", "YDF": "YDF", "ydf": "YDF",
    "scikit-survival": "scikit-survival", "sksurv": "scikit-survival",
    "quantile-forest": "quantile-forest", "quantile_forest": "quantile-forest",
    **{key: name for name in ("XGBoost", "LightGBM", "CatBoost") for key in (name, name.lower())},
    **{name: f"{name} (R)" for name in (
        "ranger", "randomForest", "rpart")},
}  # fmt: skip
_VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}((a|b|rc|\.dev|\.post)\d{1,3})?", re.ASCII)
_ORIGIN = re.compile(
    r"([\w.-]+)(?: (of unknown version|[\w.]+))?(?: \((?:format \w{1,8}|R)\))?(?:, (\w+))?",
    re.ASCII,
)

_TEXT = """
AdaBoostClassifier AdaBoostRegressor CalibratedClassifierCV ColumnTransformer
FunctionTransformer GradientBoostingClassifier GradientBoostingRegressor GridSearchCV
HistGradientBoostingClassifier HistGradientBoostingRegressor IsolationForest J48
KBinsDiscretizer LabelEncoder LogisticRegression MaxAbsScaler MinMaxScaler OneHotEncoder
OneVsRestClassifier OrdinalEncoder PowerTransformer QuantileTransformer
RandomizedSearchCV RobustScaler SimpleImputer StackingClassifier StandardScaler TargetEncoder
TreePredictor VotingClassifier Tree release rules base_estimator
base_estimator_ best_estimator_ bootstrap bootstrap_features calibrated_classifiers
calibrated_classifiers_ categories categories_ ccp_alpha class_weight classes_ conditions copy
criterion default drop dtype estimator estimator_ estimator_params estimators estimators_
estimators_features_ feature_names_in_ final_estimator final_estimator_ handle_unknown init
init_ learning_rate loss max_depth max_features max_features_ max_leaf_nodes max_samples memory
min_impurity_decrease min_samples_leaf min_samples_split min_weight_fraction_leaf monotonic_cst
n_classes_ n_estimators n_features_ n_features_in_ n_iter_ n_jobs n_outputs_ n_samples_seen_
named_estimators_ nodes oob_score oob_score_ params predictors _predictors remainder sampling
scale_ mean_ var_ splitter steps subsample transformer_weights transformers transformers_ tree_
trees trees_ validation_fraction verbose warm_start with_mean with_std _final_estimator _encoder
_sklearn_version Model Graph Node graph TreeEnsembleClassifier TreeEnsembleRegressor
"""
_OF_LIBRARIES = frozenset(_TEXT.split())


@cache
def _words() -> frozenset[str]:
    """All that may be repeated."""
    named = {p for rule in RULES for p in rule.names.split() if "*" not in p}
    classes = known_classes()
    # A pipeline that is given no names calls its steps after their classes.
    steps = {name.lower() for library, name in class_names() if library == "sklearn"}
    # Names of R have dots in them, at which places are split.
    of_r = {p for w in (*rules_of_r.WORDS.split(), *named) for p in (w, *w.split("."))}
    return frozenset(_OF_LIBRARIES | named | classes | steps | of_r)


def known_names(names: Iterable[str]) -> list[str]:
    """Repeat names that libraries use, and count the others."""
    listed = list(names)
    public = [name for name in listed if name in _words()]
    others = len(listed) - len(public)
    rest = f"{others} name{'s' * (others > 1)} of the file's own"
    return [*public, rest] if others else public


def known_place(where: str) -> str:
    """Repeat a place in a model, but for names that no library uses."""
    parts = re.split(r"(\.|\[(?:\*|\d{1,6})\])", where)
    # What is split at stands at every second place.
    return "".join(
        p if k % 2 or not p or p in _words() or p.isdigit() else HIDDEN for k, p in enumerate(parts)
    )


def known_origin(origin: str) -> str:
    """Repeat a library, its version and a class, as far as they are known ones."""
    found = _ORIGIN.fullmatch(origin)
    first = re.split(r"[.,]", origin, maxsplit=1)[0]
    library, version, name = found.groups() if found else (first, None, None)
    if library is not None and "." in library and library not in _LIBRARIES:
        # The type of an object: a class in a package.
        library, _, path = library.partition(".")
        name = path.rpartition(".")[2]
    if library not in _LIBRARIES:
        return UNSTATED
    origin_text = _LIBRARIES[library]
    if version is not None and (version == "of unknown version" or _VERSION.fullmatch(version)):
        origin_text = f"{origin_text} {version}"
    return f"{origin_text}, {name}" if name in _words() else origin_text
