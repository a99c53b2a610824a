"""Forms and rules of what regression trees, and the files of XGBoost, LightGBM and CatBoost, hold.

Only what stands in their estimators and boosters has a form here: the parts of files are held
against their shapes, or their lines, before (:mod:`.layouts`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory import conditions, forms, numbers, shapes, xgboost_shapes
from treeleak.auditing.inventory.conditions import Rule
from treeleak.auditing.inventory.known_classes import is_name
from treeleak.auditing.inventory.owners import checked_by_reader, n_columns, numbers_in, whole
from treeleak.release.readers.xgboost_json import booster_from_bytes
from treeleak.release.stored import StoredObject


def of_regression_values(value: Any, owner: StoredObject) -> bool:
    """What each node of a regression tree says: one number."""
    return _of_regression(owner) and forms.tree_values(value, owner)


def of_regression_nodes(value: Any, owner: StoredObject) -> bool:
    """A number for each node of a regression tree."""
    return _of_regression(owner) and forms.per_node(value, owner)


def of_random_targets(value: Any, owner: StoredObject) -> bool:
    """Either, where nobody gave targets."""
    return of_regression_values(value, owner) or of_regression_nodes(value, owner)


def _of_regression(owner: StoredObject) -> bool:
    """Whether a tree has one value for each target, and so no classes."""
    args = owner.args
    return (
        len(args) == 3
        and isinstance(args[1], np.ndarray)
        and args[1].dtype.kind in "iu"
        and bool((args[1] == 1).all())
    )


def seed_of_split(value: Any, owner: StoredObject) -> bool:
    """A seed, where it parted the rows that trees were fitted to from others."""
    stops = owner.get("do_early_stopping_", owner.get("n_iter_no_change") is not None)
    return (
        bool(stops) and owner.get("validation_fraction") is not None and forms.seeds(value, owner)
    )


def borders(value: Any, owner: StoredObject) -> bool:
    """For each column, ascending numbers between its values, no more than there are bins."""
    if checked_by_reader(owner):
        return True
    flags = owner.get("is_categorical_")
    n = len(flags) if isinstance(flags, np.ndarray) else n_columns(owner)
    return (
        isinstance(value, (list, tuple))
        and len(value) <= max(n, 1)
        and all(
            v is None or (isinstance(v, np.ndarray) and len(v) < 256 and forms.each_once(v))
            for v in value
        )
    )


# ----------------------------------------------------------------- files of boosting libraries

_MOST_SETTINGS = 128
"""LightGBM knows some 130, of which nobody changes most."""
_MOST_LETTERS = 48
_ROUNDS = 100
"""By default, where an estimator does not say how many."""


def of_each_column(value: Any, owner: StoredObject) -> bool:
    """Numbers, no more than the model has columns."""
    held = numbers_in(value)
    return held is not None and held.ndim <= 2 and held.size <= columns_of(owner)


def whole_numbers(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether all numbers are whole."""
    held = numbers_in(value)
    return held is not None and bool((held == np.floor(held)).all())


def all_zero(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether nothing but zeros stands there."""
    held = numbers_in(value)
    return held is not None and not held.any()


def plain_numbers(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Numbers, in lists or in a text."""
    if isinstance(value, str):
        return all(part.lstrip("-").isdigit() for part in value.split())
    return (isinstance(value, list) and not value) or numbers_in(value) is not None


def settings(value: Any, owner: StoredObject) -> bool:
    """Settings by their names: a number, a word or a list of columns each."""
    if not isinstance(value, Mapping) or len(value) > _MOST_SETTINGS:
        return False
    names = all(
        isinstance(key, str) and is_name(key) and len(key) <= _MOST_LETTERS for key in value
    )
    return names and all(
        forms.short(setting, owner) or of_columns(setting, owner) for setting in value.values()
    )


def of_columns(value: Any, owner: StoredObject) -> bool:
    """A number or a word for each column, or lists of columns, none of them twice in a list."""
    n = max(columns_of(owner), shapes.FEW)
    if isinstance(value, str) and re.fullmatch(r"\(.*\)|\[.*\]", value):
        # XGBoost takes a tuple as text, too.
        sizes = {"columns": n, "outputs": n}
        return shapes.numbers_text(value, sizes) or shapes.groups(value, sizes)
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple, np.ndarray, Mapping)) or len(parts) > n:
        return False
    sizes = {"columns": n, "outputs": n}
    items = [*parts.values(), *parts] if isinstance(parts, Mapping) else list(parts)
    return all(shapes.one_number(item, sizes) or shapes.word(item, sizes) for item in items) or (
        shapes.groups(items, sizes)
    )


def columns_of(owner: StoredObject) -> int:
    """Count the columns of a model, or of the one that an estimator holds."""
    inner = owner.get("_Booster", owner)
    if not isinstance(inner, StoredObject):
        return 0
    if isinstance(text := inner.get("feature_names"), str):
        return len(text.split())
    if isinstance(text := inner.get("_handle", inner.get("handle")), str):
        # The head comes first, and names each column.
        line = re.search(r"^feature_names=(.{0,1000000})$", text[: 1 << 21], re.MULTILINE)
        return len(line[1].split()) if line else 0
    if isinstance(data := inner.get("handle"), bytes):
        return xgboost_shapes.sizes_of(booster_from_bytes(data).state)["columns"]
    if isinstance(info := owner.get("features_info"), StoredObject):
        return sum(len(part) for part in info.state.values() if isinstance(part, list))
    return n_columns(owner)


def scores(value: Any, owner: StoredObject) -> bool:
    """Scores by metric and round."""
    rounds = whole([owner.get("n_estimators"), owner.get("_best_iteration")])
    return shapes.history(value, {"rounds": max([_ROUNDS, *rounds])})


def ranges(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """LightGBM's words on columns: two numbers, a list of whole ones, or none."""
    if not isinstance(value, str):
        return False
    return all(_RANGE.fullmatch(word) for word in value.split())


_RANGE = re.compile(r"none|\[[-+.\deE]+:[-+.\deE]+\]|-?\d+(:-?\d+)*")


def no_categories(value: Any, context: Any) -> bool:  # noqa: ARG001
    """Say whether LightGBM lists no categories."""
    return value in (None, "null", "[]") or (isinstance(value, list) and not value)


def category_lists(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Lists of categories: texts or numbers, each once in its list."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return False
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(entries, (list, np.ndarray)) and forms.each_once(list(entries))
            for entries in value
        )
    )


def category_count(value: Any, owner: StoredObject) -> str:  # noqa: ARG001
    """Count the categories."""
    if isinstance(value, str):
        value = json.loads(value)
    lists = value if value and isinstance(value[0], (list, Mapping)) else [value]
    n = 0
    for entry in lists:
        if isinstance(entry, Mapping):
            at = entry.get("offsets", entry.get("values", ()))
            entry = range(max(len(at) - ("offsets" in entry), 0))
        n += len(entry)
    return f"{n:,} categories." if n else ""


def names(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Names of columns or classes, separated by blanks or in a list."""
    words = value.split() if isinstance(value, str) else forms.pieces(value).scalars
    others = [] if isinstance(value, str) else forms.pieces(value).others
    arrays = all(isinstance(o, np.ndarray) and o.dtype.names is None for o in others)
    return arrays and all(forms.is_scalar(word, forms.MAX_NAME) for word in words)


_TREES = "XGBoostTree LightGBMTree CatBoostTree"
_BOOSTERS = "Booster CatBoost CatBoostClassifier CatBoostRegressor CatBoostRanker"

_PARAMETERS = (
    "They were chosen before training, and include seeds. If trees sampled rows, they show how."
)

# fmt: off
OF_BOOSTING: tuple[Rule, ...] = (
    Rule("sum_hessian loss_changes base_weights leaf_weights", "harmless",
         "numbers that were emptied", "All zero.",
         owner="XGBoostTree CatBoostTree", when=all_zero),
    Rule("leaf_count internal_count leaf_weights", "leaks", "rows in each node",
         "Each number counts the training rows in a small part of the data. Every tree "
             "counts all of them, and many such counts together determine the rows.",
         owner="LightGBMTree CatBoostTree", change="counts"),
    Rule("sum_hessian leaf_weight internal_weight", "leaks", "sums of second derivatives",
         "In the first trees, and in all trees for squared errors, they count the rows of "
             "each node. In later trees, earlier ones give the second derivative of a row: one "
             "equation on the rows of each node, to 7 (XGBoost) or 15 digits.",
         owner="XGBoostTree LightGBMTree", change="counts"),
    Rule("importances", "harmless", "importance of columns", "These are the numbers of splits "
        "that test each column.",
         owner="Booster", when=whole_numbers, form=of_each_column),
    Rule("loss_changes split_gain importances", "leaks", "gain of each split",
         "With the values of the nodes it gives the sums of second derivatives. So it gives "
             "the numbers of rows, even if these were removed.",
         owner=f"{_TREES} Booster", change="counts", form=of_each_column),
    Rule("base_weights internal_value", "leaks", "values of nodes that are no leaves",
         "Predictions do not need them. With the gains they give the sums of second derivatives.",
         owner="XGBoostTree LightGBMTree", change="counts"),
    Rule("leaf_value leaf_values leaf_weights leaf_const leaf_coeff", "leaks", "what each leaf "
        "adds",
         "Predictions need it. It is computed from the rows of the leaf alone, on top of "
             "the earlier trees. In CatBoost, a leaf that adds nothing held no row.",
         owner=_TREES, change="leaves"),
    Rule("split_conditions", "leaks", "thresholds, and what each leaf adds",
         "Predictions need them. With tree_method=hist a threshold is the value of a "
             "training row. A leaf's value is computed from its rows alone.",
         owner="XGBoostTree", change="values",
         of_columns=numbers.all_thresholds),
    Rule("threshold border", "leaks", "thresholds",
         "Each lies between two values of training rows.",
         owner="LightGBMTree CatBoostSplits", change="values",
         of_columns=numbers.all_thresholds),
    Rule("borders", "leaks", "borders between values of each column",
         "Each is the middle of two neighbouring values of the training rows.",
         owner="CatBoostColumn", when=conditions.filled, change="values"),
    Rule("borders", "harmless", "borders between values of each column", "None.",
         owner="CatBoostColumn"),
    Rule("default_left", "leaks", "where missing values go",
         "It shows the columns in which training rows had no value, if any.",
         owner="XGBoostTree"),
    Rule("has_nans", "leaks", "columns with missing values",
         "It shows the columns in which training rows had no value.",
         owner="CatBoostColumn", when=lambda v, _: v is True),
    Rule("has_nans nan_value_treatment", "harmless", "where missing values go",
         "This is the rule of a test for them.", owner="CatBoostColumn"),
    Rule("feature_infos", "harmless", "values of each column, removed", "Says nothing.",
         owner="Booster", form=ranges,
         when=lambda v, _: isinstance(v, str) and set(v.split()) <= {"none"}),
    Rule("feature_infos", "leaks", "smallest and largest value of each column",
         "These are values of single rows, in all their digits. For columns of categories, "
             "they are all categories of the rows.",
         owner="Booster", change="values", form=ranges, describe=numbers.of_ranges,
         of_columns=numbers.all_ranges),
    Rule("pandas_categorical", "harmless", "categories, of which there are none", "Says nothing.",
         owner="Booster", when=no_categories),
    Rule("pandas_categorical values enc cat_features_hash", "leaks",
         "values that occur in the training rows",
         "The list includes values that only one person has. Predictions from texts need it.",
         owner="Booster CatBoostColumn CatBoostColumns XGBoostCategories",
         when=conditions.filled, change="values",
         form=category_lists, describe=category_count),
    Rule("enc feature_segments sorted_idx values pandas_categorical", "harmless", "sizes",
         "They are the numbers of categories of each column.",
         owner="XGBoostCategories CatBoostColumn Booster", form=plain_numbers),
    Rule("ctr_data ctrs", "leaks", "statistics of the target for each category",
         "For each category, or combination of some, they count its rows, by class or "
             "target. Predictions need them.",
         owner=_BOOSTERS + " CatBoostColumns", when=conditions.filled, change="categories",
         describe=numbers.of_statistics),
    Rule("training _evals_result evals_result_ best_score _best_score", "harmless",
         "scores after each round",
         "Each is an average over the rows of a table, to 15 digits: one equation on all of them.",
         owner="CatBoostInfo XGBoostAttributes LGBM* XGB* Booster", form=scores,
         describe=numbers.of_history),
    Rule("base_score scale_and_bias", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the "
             "number of rows, it gives the rows of each class.",
         owner=f"XGBoostSettings {_BOOSTERS}", form=forms.short),
    Rule("Config", "not assessed", "parameters of the training", _PARAMETERS, owner="Booster"),
    Rule("params parameters _other_params output_options class_params", "not assessed",
         "parameters of the training", _PARAMETERS,
         owner=f"CatBoostInfo LightGBMParameters {_BOOSTERS} LGBM*", form=settings),
    Rule("monotone_constraints interaction_constraints feature_weights feature_types cat_features "
         "text_features embedding_features ignored_features class_weights class_names eval_at "
         "label_gain max_bin_by_feature feature_contri cegb_*", "harmless",
         "settings", "These were chosen before training, without looking at rows.",
         owner="Booster XGB* LGBM* CatBoost*", form=of_columns),
    Rule("catboost_version_info", "harmless", "technical notes", "They describe the build of the "
        "library.",
         owner="CatBoostInfo"),
    Rule("weight_drop", "harmless", "weights of the trees", "They were drawn without looking at "
        "rows.",
         owner="XGBoostBooster"),
    Rule("tree_info iteration_indptr tree_sizes best_iteration best_ntree_limit "
         "_best_iteration", "harmless", "sizes",
         "They give the output of each tree, the length of its text, and the best round.",
         owner="XGBoostModel XGBoostAttributes Booster LGBM*", form=plain_numbers),
    Rule("id num_nodes num_deleted num_feature size_leaf_vector num_leaves num_cat is_linear "
         "shrinkage feature_index flat_feature_index", "harmless", "sizes",
         "It gives the size of the trees, and numbers them and the columns.",
         owner="XGBoostSettings XGBoostTree LightGBMTree CatBoostColumn"),
    Rule("categories categories_* cat_* left_children right_children parents split_indices "
         "leaf_child_counts split_type split_feature decision_type "
             "left_child right_child split_index "
         "float_feature_index cat_feature_index value ctr_target_border_idx leaf_features "
         "num_features", "not assessed", "shape of the trees",
         "Predictions need it. The choice of splits depends on the rows. This audit does "
             "not attack the shape alone.",
         owner=f"{_TREES} CatBoostSplits"),
    Rule("split_type", "not assessed", "shape of the trees", "Needed to predict.",
         owner="CatBoostSplits"),
    Rule("_test_evals", "leaks", "one entry for each validation row",
         "It holds what the model says of each row that training was watched with.",
         owner="CatBoost*", change="per_row", form=plain_numbers, in_order=True),
    Rule("_prediction_values_change _loss_value_change", "not assessed", "importance of columns",
         "They are computed from all rows together.",
         owner="CatBoost*", form=plain_numbers),
    Rule("weights", "not assessed", "fitted parameters",
         "They are computed from all rows together. treeleak does not attack them.",
         owner="XGBoostModel"),
    Rule("feature_names feature_types feature_id _classes _class_map", "harmless",
         "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="XGBoostLearner Booster CatBoostColumn LGBM*", form=names),
)
# fmt: on
