"""Explainable boosting machines as interpret writes them (``to_json``), read as data.

What is read is what a pickle of the same model holds, so that adapter and inventory know it; but
for the edges of histograms, which the file leaves to be computed anew, to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_COLUMNS, MOST_TREES, at_most
from treeleak.release.stored import Leftover, StoredObject

_CLASS = "interpret.glassbox._ebm._ebm.{private}ExplainableBoosting{kind}"
_NO_NUMBERS = {"nan": np.nan, "+inf": np.inf, "-inf": -np.inf}
_OF_MODEL = (
    "intercept", "bagged_intercept", "bag_weights", "best_iteration", "breakpoint_iteration",
    "noise_scale_binning", "noise_scale_boosting",
)  # fmt: skip
_OF_TERM = {
    "scores": "term_scores_", "standard_deviations": "standard_deviations_",
    "bagged_scores": "bagged_scores_", "bin_weights": "bin_weights_",
}  # fmt: skip
_OF_OUTPUT = "link", "link_param", "min_target", "max_target"
MOST_COLUMNS_OF_TERM = 32
"""Dimensions of an array, one of which may be of classes, and one of bags."""


def is_ebm(data: Any) -> bool:
    """Say whether a JSON document is such a model."""
    inner = data.get("ebm") if isinstance(data, Mapping) else None
    return isinstance(inner, Mapping) and "terms" in inner and "features" in inner


def model_from_dict(data: Mapping[str, Any]) -> StoredObject:
    """Make of a document what a pickle of the model would hold.

    Raises
    ------
    BadModel
        If the parts are not those of such a model.
    """
    try:
        return _model(data)
    except (AttributeError, LookupError, TypeError) as error:
        # Anything may stand anywhere.
        raise BadModel(f"not as interpret writes it ({error!r:.200})") from error


def _model(data: Mapping[str, Any]) -> StoredObject:
    around, ebm = dict(data), dict(data["ebm"])
    del around["ebm"]
    version = around.pop("version", "1.0")
    features, terms = _objects(ebm, "features"), _objects(ebm, "terms")
    at_most(MOST_COLUMNS, len(features), "columns")
    at_most(MOST_TREES, len(terms), "terms")
    outputs = _objects(ebm, "outputs")
    if len(outputs) != 1:
        raise BadModel(f"a model of {len(outputs)} outputs")
    names = [feature.pop("name", None) for feature in features]
    place = {name: j for j, name in enumerate(names) if isinstance(name, str)}
    if len(place) != len(names):
        raise BadModel("features: two of one name, or one without a name")
    params = ebm.pop("implementation_params", {})
    if not isinstance(params, Mapping):
        raise BadModel("implementation_params: must be an object")
    # What is fitted ends so.
    around |= {k: v for k, v in params.items() if k.endswith("_")}
    state: dict[str, Any] = {k: v for k, v in params.items() if not k.endswith("_")}
    state |= {"has_fitted_": True, "n_features_in_": len(names)}
    state |= {"feature_names_in_": names, "bins_": [_bins(feature) for feature in features]}
    state["feature_types_in_"] = [feature.pop("type", None) for feature in features]
    ends = [[feature.pop(k, "nan") for k in ("min", "max")] for feature in features]
    state["feature_bounds_"] = _array(ends)
    if features and all("num_unique_vals" in feature for feature in features):
        state["unique_val_counts_"] = _array([f.pop("num_unique_vals") for f in features])
    state["histogram_weights_"] = [_array(f.pop("histogram_weights", None)) for f in features]
    state["term_features_"] = [
        tuple(place[name] for name in term.pop("term_features", ())) for term in terms
    ]
    for key, name in _OF_TERM.items():
        if any(key in term for term in terms):
            # Terms that somebody edited have no scores of bags.
            state[name] = [_array(term.pop(key, None)) for term in terms]
    for held, keys in ((ebm, _OF_MODEL), (outputs[0], _OF_OUTPUT)):
        state |= {f"{key}_": _array(held.pop(key)) for key in keys if key in held}
    if isinstance(classes := outputs[0].pop("classes", None), list):
        state["classes_"] = np.array([*classes, None], dtype=object)[:-1]
    # Until 0.4, "output_type".
    task = outputs[0].pop("output_type" if "output_type" in outputs[0] else "task")
    kind = {"classification": "Classifier", "regression": "Regressor"}[task]
    private = "DP" * ("noise_scale_binning_" in state or "epsilon" in state)
    if ebm.pop("implementation", "python") != "python" or version != "1.0":
        raise BadModel("of another version or implementation than interpret's in Python")
    odd = [part for part in (around, ebm, *outputs, *features, *terms) if part]
    left = (Leftover("the text", "what interpret does not write", odd),) * bool(odd)
    return StoredObject(_CLASS.format(private=private, kind=kind), state, leftovers=left)


def _objects(data: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = data.pop(key, None)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadModel(f"{key}: must be a list of objects")
    return [dict(item) for item in value]


def _bins(feature: dict[str, Any]) -> list[Any]:
    """Read cuts, or numbers of categories, in terms of one column, of two, and so on."""
    if "categories" not in feature:
        return [_array(cuts) for cuts in feature.pop("cuts", ())]
    levels = []
    for level in feature.pop("categories"):
        groups = [group if isinstance(group, list) else [group] for group in level]
        number = {text: k + 1 for k, group in enumerate(groups) for text in group}
        if len(number) != sum(map(len, groups)):
            raise BadModel("categories: one stands there twice")
        levels.append(number)
    return levels


def _array(value: Any) -> Any:
    """Make an array of lists of numbers; what is no such list stays as it is."""
    if not isinstance(value, list):
        return _NO_NUMBERS.get(value, value) if isinstance(value, str) else value
    shape, flat = [len(value)], value
    while flat and all(isinstance(item, list) for item in flat):
        widths = {len(item) for item in flat}
        shape.append(widths.pop())
        if widths or len(shape) > MOST_COLUMNS_OF_TERM:
            raise BadModel("lists in lists that are no grid")
        flat = [item for inner in flat for item in inner]
    flat = [_NO_NUMBERS.get(x, x) if isinstance(x, str) else x for x in flat]
    if not all(type(x) in (int, float) for x in flat):
        return value
    kind = np.int64 if {*map(type, flat)} == {int} else np.float64
    try:
        return np.array(flat, dtype=kind).reshape(shape)
    except OverflowError as error:
        raise BadModel("a whole number beyond 64 bits") from error
