"""What XGBoost's files hold, from version 1.0 on: each key, with form and size of its value."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from treeleak.auditing.inventory.known_classes import XGBOOST_SETTINGS
from treeleak.auditing.inventory.shapes import (
    Items,
    Shape,
    Sizes,
    array_in,
    count,
    either,
    groups,
    inside,
    json_text,
    names,
    numbers_text,
    one_number,
    settings,
    single,
    whole,
    word,
    words,
)

_COUNTS = (
    "num_class num_feature num_target num_deleted num_nodes size_leaf_vector num_parallel_tree "
    "num_trees boost_from_average"
)
_LOSSES = (
    "reg_loss_param softmax_multiclass_param poisson_regression_param tweedie_regression_param "
    "pseudo_huber_param pseduo_huber_param quantile_loss_param expectile_loss_param "
    "aft_loss_param lambdarank_param lambda_rank_param"
)
_OF_LOSSES = (
    "scale_pos_weight num_class max_delta_step tweedie_variance_power huber_slope quantile_alpha "
    "expectile_alpha aft_loss_distribution aft_loss_distribution_scale fix_list_weight "
    "num_pairsample lambdarank_bias_norm lambdarank_normalization lambdarank_num_pair_per_sample "
    "lambdarank_pair_method lambdarank_score_normalization lambdarank_unbiased ndcg_exp_gain"
)
_IN_MEMORY = (
    "learner version name generic_param gradient_booster learner_model_param learner_train_param "
    "metrics objective updater specified_updater gbtree gbtree_model_param gbtree_train_param "
    "tree_train_param dart_train_param gblinear_train_param linear_train_param train_param "
    "hist_train_param colmaker_train_param approx_train_param gpu_hist_train_param hist_param "
    "cpu_hist_train_param "
    "grow_colmaker grow_quantile_histmaker grow_histmaker grow_local_histmaker "
    "grow_gpu_hist grow_gpu_approx grow_skmaker prune refresh sync coord_descent shotgun "
    "gpu_coord_descent quantile_hist distcol "
    "device enable_experimental_json_serialization fail_on_invalid_gpu_id gpu_id gpu_page_size "
    "n_gpus n_jobs nthread random_state seed seed_per_iteration validate_parameters eta "
    "learning_rate normalize_type one_drop rate_drop sample_type skip_drop max_row_perbatch "
    "tolerance feature_selector top_k predictor process_type tree_method updater_seq alpha "
    "cache_opt colsample_bylevel colsample_bynode colsample_bytree gamma grow_policy lambda "
    "max_bin max_cat_threshold max_cat_to_onehot max_delta_step max_depth max_leaves "
    "min_child_weight min_split_loss refresh_leaf reg_alpha reg_lambda sampling_method "
    "sketch_ratio sketch_eps sparse_threshold subsample default_direction opt_dense_col "
    "enable_feature_grouping max_conflict_rate max_search_group split_evaluator "
    "debug_synchronize max_cached_hist_node extmem_single_page single_precision_histogram "
    "gpu_batch_nrows deterministic_histogram booster disable_default_eval_metric dsplit "
    "multi_strategy parallel_option lambda_bias"
)
_TYPES = frozenset(("int", "float", "q", "i", "c", "indicator", "m"))


def _feature_types(value: Any, sizes: Sizes) -> bool:
    return (
        isinstance(value, list)
        and len(value) in (0, sizes["columns"])
        and {*map(str, value)} <= _TYPES
    )


def _parents(value: Any, sizes: Sizes) -> bool:
    array = array_in(value)
    if array is None or len(array) != sizes["nodes"]:
        return False
    return bool(((array >= -1) & ((array < len(array)) | (array == 2**31 - 1))).all())


_NODES = {
    **dict.fromkeys(["left_children", "right_children"], whole("nodes", -1)),
    "parents": _parents,
    **dict.fromkeys(["split_indices", "leaf_child_counts"], whole("nodes", 0)),
    **dict.fromkeys(["default_left", "split_type"], whole("nodes", 0, 2)),
    **dict.fromkeys(["loss_changes", "sum_hessian", "split_conditions"], single("nodes")),
    "base_weights": single("nodes", "outputs of a leaf"),
    "leaf_weights": single("nodes", "outputs of a leaf", exactly=False),
}  # fmt: skip
_TREE: Shape = {
    "id": count,
    "tree_param": dict.fromkeys(_COUNTS.split(), count),
    **_NODES,
    "categories": whole("categories", 0, exactly=False),
    **dict.fromkeys(["categories_nodes", "categories_segments", "categories_sizes"],
                    whole("nodes", 0, 2**31, exactly=False)),
}  # fmt: skip


def _of_tree(tree: Any, k: int) -> Sizes:  # noqa: ARG001
    """Sizes of a tree; all the categories that its nodes say they test."""
    if not isinstance(tree, Mapping):
        return {}
    left, tested = (array_in(tree.get(key)) for key in ("left_children", "categories_sizes"))
    param = tree.get("tree_param")
    vector = param.get("size_leaf_vector", "1") if isinstance(param, Mapping) else "1"
    total = 0.0 if tested is None else float(np.clip(tested, 0, 2**31).sum())
    return {
        "nodes": 0 if left is None else len(left),
        "categories": int(min(total, 2**31)),
        "outputs of a leaf": max(int(vector), 1)
        if str(vector).isdigit() and len(vector) < 6
        else 1,
    }


def _category_values(value: Any, sizes: Sizes) -> bool:
    """The categories of a column, each once: numbers, or the bytes of texts and where they end."""
    if not isinstance(value, Mapping) or set(value) - {"type", "values", "offsets"}:
        return False
    values, offsets = array_in(value.get("values", [])), array_in(value.get("offsets", []))
    if values is None or offsets is None or not count(value.get("type", 0), sizes):
        return False
    if not len(offsets):
        return len(np.unique(values)) == len(values)
    fits = offsets[0] == 0 and offsets[-1] == len(values) and (np.diff(offsets) >= 0).all()
    if not fits or (values < -128).any() or (values > 255).any():
        return False
    raw, ends = values.astype(np.int64).astype(np.uint8).tobytes(), offsets.astype(int).tolist()
    parts = [raw[a:b] for a, b in pairwise(ends)]
    return len(set(parts)) == len(parts)


def _sorted_index(value: Any, sizes: Sizes) -> bool:
    """A place among its column's for each category."""
    array = array_in(value)
    if array is None or len(array) > sizes["all categories"]:
        return False
    return bool(((array >= 0) & (array < max(len(array), 1)) & (array == np.floor(array))).all())


def _rounds(value: Any, sizes: Sizes) -> bool:
    """Where the trees of each round begin: there are as many in each."""
    ends = array_in(value)
    if ends is None or not len(ends):
        return ends is not None
    steps = np.diff(ends)
    return bool(ends[0] == 0 and ends[-1] == sizes["trees"] and (steps == steps[:1]).all())


_MODEL: Shape = {
    "cats": {
        "enc": Items(_category_values, "columns"),
        "feature_segments": whole("columns and one", 0, exactly=False),
        "sorted_idx": _sorted_index,
    },
    "gbtree_model_param": dict.fromkeys(_COUNTS.split(), count),
    "iteration_indptr": _rounds,
    "tree_info": whole("trees", 0),
    "trees": Items(_TREE, "trees", _of_tree),
    "weight_drop": single("trees"),
    # Of a linear model.
    "weights": single("columns and one", "outputs", exactly=False),
    "boosted_rounds": count,
    "param": dict.fromkeys(_COUNTS.split(), count),
}
_GBTREE: Shape = {"name": word, "model": _MODEL}


_ESTIMATOR: Shape = {
    **{key: settings({}) for key in XGBOOST_SETTINGS.split()},
    **dict.fromkeys(["_estimator_type", "type"], word),
    "monotone_constraints": either(numbers_text, whole("columns", -1, 2, exactly=False), {}),
    "interaction_constraints": either(groups, settings({})),
    **dict.fromkeys(["_features_count", "n_features_in_"], count),
    "feature_types": either(words("columns"), settings({})),
    "feature_weights": either(single("columns"), settings({})),
    "classes_": names("classes"),
    "n_classes_": count,
    "kwargs": dict.fromkeys(_IN_MEMORY.split(), settings({})),
    "_le": {"classes_": names("classes")},
}  # fmt: skip
_LEARNER: Shape = {
    "attributes": {
        "scikit_learn": json_text(_ESTIMATOR),
        **dict.fromkeys(["best_iteration", "best_ntree_limit"], count),
        "best_score": one_number,
    },
    "feature_names": names("columns"),
    "feature_types": _feature_types,
    "gradient_booster": {"name": word, "model": _MODEL, "gbtree": _GBTREE,
                         "weight_drop": single("trees")},
    "learner_model_param": {**dict.fromkeys(_COUNTS.split(), count), "base_score": numbers_text},
    "objective": {"name": word, **dict.fromkeys(_LOSSES.split(), dict.fromkeys(
        _OF_LOSSES.split(), either(numbers_text, word)))},
}  # fmt: skip
_SNAPSHOT: dict[str, Shape] = {"learner": _LEARNER, "version": whole("three", 0, 10**6)}
_CONFIG = settings({
    **dict.fromkeys(f"{_IN_MEMORY} {_COUNTS} {_LOSSES} {_OF_LOSSES}".split(), word),
    **dict.fromkeys(["base_score", "quantile_alpha", "expectile_alpha", "monotone_constraints"],
                    numbers_text),
    "interaction_constraints": groups,
    "version": whole("three", 0, 10**6),
})  # fmt: skip
FILE: Shape = {**_SNAPSHOT, "Model": _SNAPSHOT, "Config": _CONFIG}


def sizes_of(root: Mapping[str, Any]) -> Sizes:
    """Count columns, outputs and trees, as far as the file says."""
    model = root.get("Model", root)
    learner = inside(model, "learner")
    param = inside(learner, "learner_model_param")
    columns, classes, targets = (
        int(text) if count(text := str(inside(param, key)), {}) else 0
        for key in ("num_feature", "num_class", "num_target")
    )
    booster = inside(learner, "gradient_booster")
    inner = inside(booster, "gbtree") or booster
    trees = inside(inner, "model", "trees")
    n_trees = len(trees) if isinstance(trees, list) else 0
    cats = inside(inner, "model", "cats", "enc")
    listed = [_n_categories(cat) for cat in cats] if isinstance(cats, list) else []
    return {
        "columns": columns,
        "columns and one": columns + 1,
        "outputs": max(classes, targets, 1),
        "classes": max(classes, targets, 2),
        "trees": n_trees,
        "trees and one": n_trees + 1,
        "all categories": sum(listed),
        "three": 3,
    }


def _n_categories(listed: Any) -> int:
    offsets, values = (array_in(inside(listed, key)) for key in ("offsets", "values"))
    if offsets is not None and len(offsets):
        return len(offsets) - 1
    return 0 if values is None else len(values)
