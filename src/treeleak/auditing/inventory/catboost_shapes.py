"""What CatBoost's models hold, as its JSON names it: every key, with form and size of its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treeleak.auditing.inventory.known_classes import CATBOOST_SETTINGS
from treeleak.auditing.inventory.shapes import (
    FEW,
    ByColumn,
    Items,
    Shape,
    Sizes,
    array_in,
    count,
    either,
    fits,
    history,
    inside,
    json_text,
    like,
    name,
    names,
    one_number,
    real,
    settings,
    single,
    whole,
    word,
    words,
)

_INNER = (
    "bayesian_matrix_reg boosting_options bootstrap border_type cat_feature_params "
    "combinations_ctrs ctr_binarization ctr_type custom_metrics data_processing_options "
    "default detailed_profile dev_default_value_fraction_for_sparse dev_group_features "
    "dev_leafwise_approxes dev_leafwise_scoring dev_max_subset_size_for_build_borders "
    "dev_sparse_array_indexing dictionaries_names dictionary_id embedding_processing "
    "embedding_processing_options end_of_sentence_token_policy end_of_word_token_policy "
    "feature_processing flat_params float_features_binarization fold_size_loss_normalization "
    "force_unit_auto_pair_weights gram_order languages lemmatizing lowercasing "
    "max_ctr_complexity_for_borders_cache max_dictionary_size metrics min_fold_size node_port "
    "node_type number_process_policy objective_metric occurrence_lower_bound od_config params "
    "penalties permutation_count pool_metainfo_options prior_estimation separator_type "
    "simple_ctrs skip_empty skip_step split_by_set start_token_id stop_pvalue "
    "subtokens_policy system_options tags target_binarization text_processing_options "
    "token_level_type token_types tokenizer_id tokenizers_names tree_learner_options type "
    "used_ram_limit_gpu verbose_eval wait_iterations plot use_and_drop_for_dev "
    "add_ridge_penalty_to_loss_function fold_count top_size dev_sparse"
)
"""What stands in the parameters beside those that users give."""
_OF_LOSSES = (
    "alpha beta border delta variance_power q sigma num_estimations mode top decay use_weights "
    "max_pairs lambda smoothness hints gamma quantile scale power penalties weights_by_groups "
    "focal_alpha focal_gamma estimate_by dcg_type denominator metric num_classes"
)
_NUMBERS_TEXT = like(r"[-+.\deE,]{0,400}")
_TEXTS = like(r"[\w ./:=,;|-]{0,64}")
_BY_COLUMN = either(
    ByColumn(lambda value, sizes: one_number(value, sizes) or _inner(value, sizes)),
    ByColumn(_TEXTS), real("columns"), Items(_TEXTS, "columns"), _TEXTS,
)  # fmt: skip
_LABELS = either(names("classes"), real("classes"))
_CTR_SETTINGS: dict[str, Shape] = {
    "priors": Items(real("two"), "few"), "prior_estimation": word, "ctr_type": word,
}  # fmt: skip
_PARAMS = settings({
    **dict.fromkeys(f"{CATBOOST_SETTINGS} {_INNER} {_OF_LOSSES}".split(), word),
    **_CTR_SETTINGS,
    "alpha": either(one_number, _NUMBERS_TEXT),
    "__params_key_order": like(r'\["[a-z_]{1,32}"(,"[a-z_]{1,32}"){0,9}\]'),
    "class_names": _LABELS,
    "class_weights": real("classes"),
    "target_border": either(one_number, real("classes")),
    **dict.fromkeys(["number_token", "delimiter"], like(r".{0,2}")),
    **dict.fromkeys([
        "file_with_hosts", "snapshot_file", "train_dir", "input_borders", "output_borders",
        "name", "used_ram_limit", "devices", "dictionary_id", "tokenizer_id"
    ], _TEXTS),
    **dict.fromkeys([
        "dictionaries_names", "tokenizers_names", "feature_calcers", "custom_metric",
        "custom_metrics", "custom_loss", "languages", "token_types", "eval_metric",
        "loss_function", "objective", "simple_ctr", "combinations_ctr", "ctr_description",
        "per_feature_ctr", "tokenizers", "text_processing"
    ],
                    lambda value, sizes: _few_texts(value, sizes) or _inner(value, sizes)),
    **dict.fromkeys([
        "monotone_constraints", "feature_weights", "first_feature_use_penalties",
        "per_object_feature_penalties", "per_float_feature_quantization"
    ],
                    _BY_COLUMN),
    "ignored_features": either(whole("columns", 0, exactly=False), words("columns")),
    **dict.fromkeys(["cat_features", "text_features", "embedding_features"],
                    either(whole("columns", 0, exactly=False), words("columns"))),
    "per_feature_ctrs": ByColumn(lambda value, sizes: _inner(value, sizes)),
    "metadata": {},
    "tags": {},
})  # fmt: skip


def _few_texts(value: Any, sizes: Sizes) -> bool:
    texts = value if isinstance(value, list) else [value]
    return len(texts) <= FEW and all(_TEXTS(text, sizes) for text in texts)


def _inner(value: Any, sizes: Sizes) -> bool:
    return isinstance(value, (Mapping, list)) and _PARAMS(value, sizes)


_FILES = like(r"[\w ./:-]{0,128}")
_OUTPUT = settings({
    **dict.fromkeys(
        [
        "allow_writing_files", "best_model_min_trees", "final_ctr_computation_mode",
        "final_feature_calcer_computation_mode", "fstr_type", "metric_period",
        "prediction_type", "save_snapshot", "snapshot_interval", "use_best_model", "verbose"
    ], word),
    **dict.fromkeys(
        [
        "eval_file_name", "fstr_internal_file", "fstr_regular_file", "json_log",
        "learn_error_log", "name", "output_borders", "profile_log", "result_model_file",
        "roc_file", "snapshot_file", "test_error_log", "time_left_log", "train_dir",
        "training_options_file", "meta"
    ], _FILES),
    **dict.fromkeys(["output_columns", "model_format", "prediction_type"], words("few")),
})  # fmt: skip
_COLUMN: dict[str, Shape] = {
    "feature_id": name,
    "feature_name": name,
    "feature_index": count,
    "flat_feature_index": count,
}
_CTR: Shape = {
    "borders": single("borders", exactly=False),
    "ctr_type": word,
    "elements": Items(either(
        {"cat_feature_index": count, "combination_element": word},
        {"float_feature_index": count, "border": one_number, "combination_element": word},
        {"cat_feature_index": count, "value": one_number, "combination_element": word}), "columns"),
    "identifier": like(r'[\w{}\[\]":,.\-]{1,4000}'),
    **dict.fromkeys(
        [
        "prior_denomerator", "prior_numerator", "scale", "shift", "target_border_idx"
    ], one_number),
}  # fmt: skip
_SPLIT: Shape = {
    "border": one_number, "split_type": word, "value": one_number,
    **dict.fromkeys([
        "float_feature_index", "cat_feature_index", "split_index", "ctr_target_border_idx"
    ], count),
}  # fmt: skip


def _grown(value: Any, sizes: Sizes) -> bool:
    """A tree whose nodes hold each other."""
    stack = [value]
    while stack:
        node = stack.pop()
        if not isinstance(node, Mapping):
            return False
        if "split" in node:
            stack += (node.get("left"), node.get("right"))
            shape: Shape = {"split": _SPLIT, "left": _anything, "right": _anything}
        else:
            shape = {
                "value": either(one_number, real("outputs", exactly=True)),
                "weight": one_number,
            }
        if not fits(node, shape, sizes):
            return False
    return True


def _anything(value: Any, sizes: Sizes) -> bool:  # noqa: ARG001
    return True


def _of_tree(tree: Any, k: int) -> Sizes:  # noqa: ARG001
    splits = tree.get("splits") if isinstance(tree, Mapping) else None
    n = 1 << min(len(splits), 24) if isinstance(splits, list) else 1
    return {"leaves": n}


def _leaf_values(value: Any, sizes: Sizes) -> bool:
    array = array_in(value)
    return array is not None and len(array) == sizes["leaves"] * sizes["outputs"]


def _hash_map(value: Any, sizes: Sizes) -> bool:
    """For each category its hash, and numbers of rows."""
    known = like(r"\d{1,20}")
    return isinstance(value, list) and all(
        known(x, sizes) or (isinstance(x, (int, float)) and one_number(x, sizes)) for x in value
    )


_TREE: Shape = {
    "leaf_values": _leaf_values,
    "leaf_weights": either(real("leaves", exactly=True), real("none")),
    "splits": either(Items(_SPLIT, "few"), lambda value, _: value is None),
}
INFO: Shape = {
    "catboost_version_info": like(r"[\x20-\x7e\n\t]{0,2000}"),
    "class_params": json_text({
        "class_label_type": word, "class_names": _LABELS, "class_to_label": _LABELS,
        "classes_count": count, "missing_class_name": name}),
    "model_guid": like(r"[0-9a-f]{1,8}(-[0-9a-f]{1,8}){3}"),
    "train_finish_time": like(r"[\d:TZ.+-]{0,32}"),
    "output_options": json_text(_OUTPUT),
    "params": json_text(_PARAMS),
    "training": json_text({"metrics": history}),
    "summand_scale_and_biases": json_text(
        Items({"scale": one_number, "bias": real("outputs")}, "trees")
    ),
    **dict.fromkeys(["loss_function", "monotone_constraints"], either(_TEXTS, json_text(_PARAMS))),
}  # fmt: skip
_FILE: dict[str, Shape] = {
    "features_info": {
        "float_features": Items({
            **_COLUMN, "borders": single("borders", exactly=False), "has_nans": word,
            "nan_value_treatment": word}, "columns"),
        "categorical_features": Items({
            **_COLUMN, "values": whole("categories", -(2**31), exactly=False)}, "columns"),
        **dict.fromkeys(["text_features", "embedding_features"], Items(
            {**_COLUMN, "feature_count": count}, "columns")),
        "cat_features_hash": Items({"hash": count, "value": name}, "categories"),
        "ctrs": Items(_CTR, "ctrs"),
    },
    "model_info": INFO,
    "oblivious_trees": Items(_TREE, "trees", _of_tree),
    "trees": Items(_grown, "trees"),
    "scale_and_bias": lambda value, sizes: (
        isinstance(value, list) and len(value) <= 1 + sizes["outputs"] and all(
            one_number(x, sizes) or real("outputs")(x, sizes) for x in value)),
}  # fmt: skip
MOST_BORDERS = 65_535
"""CatBoost allows no more of a column."""


def shape_of(root: Mapping[str, Any]) -> Shape:
    """Give the shape of a file: statistics of the target are kept by what its columns call them."""
    ctrs = inside(root, "features_info", "ctrs")
    listed = ctrs if isinstance(ctrs, list) else []
    known = [str(entry.get("identifier")) for entry in listed if isinstance(entry, Mapping)]
    table: Shape = {
        **dict.fromkeys(["counter_denominator", "hash_stride", "target_classes_count"], count),
        "hash_map": _hash_map,
    }
    return {**_FILE, "ctr_data": dict.fromkeys(known, table)}


def sizes_of(root: Mapping[str, Any]) -> Sizes:
    """Count columns, outputs and trees, as far as the file says."""
    info = inside(root, "features_info")
    keys = ("float_features", "categorical_features", "text_features", "embedding_features")
    n_columns = sum(len(part) for kind in keys if isinstance(part := inside(info, kind), list))
    flat = [
        part.get("flat_feature_index") for kind in keys
        for part in (inside(info, kind) or ()) if isinstance(part, Mapping)
    ]  # fmt: skip
    last = max([x for x in flat if isinstance(x, int) and 0 <= x < 10**6], default=-1)
    pair = root.get("scale_and_bias")
    bias = pair[1] if isinstance(pair, list) and len(pair) > 1 else [0]
    outputs = len(bias) if isinstance(bias, list) else 1
    trees = root.get("oblivious_trees", root.get("trees"))
    n_trees = len(trees) if isinstance(trees, list) else 0
    params = inside(root, "model_info", "params")
    rounds = inside(params, "boosting_options", "iterations")
    hashes, ctrs = inside(info, "cat_features_hash"), inside(info, "ctrs")
    return {
        "columns": max(n_columns, last + 1),
        "outputs": outputs,
        "classes": max(outputs, 2),
        "trees": n_trees,
        "rounds": max(n_trees, rounds if isinstance(rounds, int) else 0),
        "borders": MOST_BORDERS,
        "categories": len(hashes) if isinstance(hashes, list) else 2**16,
        "ctrs": len(ctrs) if isinstance(ctrs, list) else 0,
        "few": FEW,
        "two": 2,
    }
