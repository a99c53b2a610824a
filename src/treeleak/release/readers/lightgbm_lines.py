"""What each line of LightGBM's text files can hold: written anew from its values, or left over.

A line is accounted for if it is what LightGBM writes for the value that was read from it: numbers
in its own formats, as many as the model has trees, leaves, columns or classes. So no rule has to
look for odd lines: they are what cannot be written again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field

from treeleak.core.private import dataclass

Written = Callable[[str, "Sizes"], str | None]
"""Gets the text behind a key; gives what LightGBM writes for its value, or None."""

MOST_WORDS = 32
MOST_LETTERS = 200
"""Of a path or a name in the parameters."""
_MOST_INT = 2**63

_WORDS = re.compile(r"[a-z][a-z_0-9@]{0,31}")
_OBJECTIVE = re.compile(r"[a-z_0-9]{1,32}( (sqrt|[a-z_]{1,32}:[-+.\de]{1,24}))*")


@dataclass(frozen=True)
class Sizes:
    """Of the model, and of the tree in which a line stands."""

    columns: int = 0
    classes: int = 1
    leaves: int = 1
    values: Mapping[str, str] = field(default_factory=dict)
    """Lines of the same tree before this one."""


def number(text: str) -> str | None:
    """Write a number as LightGBM does: whole, with 6 digits, or with 17."""
    return numbers(text, None) if text else None


def numbers(text: str, n: int | None, whole: bool = False, separator: str = " ") -> str | None:
    """Write numbers anew, all in one format; None unless there are ``n``, if it is given."""
    parts = text.replace("-nan", "nan").split(separator) if text else []
    if n is not None and len(parts) != n:
        return None
    try:
        values = [int(part) for part in parts if len(part) < 24] if whole else list(
            map(float, parts)
        )  # fmt: skip
    except ValueError:
        return None
    if whole:
        fits = len(values) == len(parts) and all(-_MOST_INT <= v < _MOST_INT for v in values)
        return separator.join(map(str, values)) if fits else None
    ways = (separator.join([form % v for v in values]) for form in ("%g", "%.17g"))
    written = list(ways)
    return text if separator.join(parts) in written else written[-1]


def _wholes(size: Callable[[Sizes], int], low: int = -_MOST_INT, high: int = _MOST_INT) -> Written:
    def written(text: str, sizes: Sizes) -> str | None:
        anew = numbers(text, size(sizes), whole=True)
        bad = anew is None or any(not low <= int(part) < high for part in anew.split())
        return None if bad else anew

    return written


def _reals(size: Callable[[Sizes], int]) -> Written:
    return lambda text, sizes: numbers(text, size(sizes))


def _of_inner(written: Callable[[Callable[[Sizes], int]], Written]) -> Written:
    return written(lambda sizes: sizes.leaves - 1)


def _of_leaves(written: Callable[[Callable[[Sizes], int]], Written]) -> Written:
    """Of a tree that is one leaf, files may say nothing of it."""
    of_all = written(lambda sizes: sizes.leaves)
    return lambda text, sizes: of_all(text, sizes) if text or sizes.leaves > 1 else ""


def _bounds(text: str, sizes: Sizes) -> str | None:
    n = whole_of(sizes.values.get("num_cat", ""))
    anew = None if n is None else numbers(text, n + 1, whole=True)
    ends = [int(part) for part in (anew or "").split()]
    return anew if ends[:1] == [0] and ends == sorted(ends) else None


def _bits(text: str, sizes: Sizes) -> str | None:
    n = whole_of(sizes.values.get("cat_boundaries", "").rpartition(" ")[2])
    return None if n is None else numbers(text, n, whole=True)


def _of_linear(real: bool) -> Written:
    """Numbers of the columns of each leaf, or what they are multiplied by: a blank after each."""

    def written(text: str, sizes: Sizes) -> str | None:
        group_sizes = numbers(sizes.values.get("num_features", ""), sizes.leaves, whole=True)
        groups = [int(part) for part in (group_sizes or "").split()]
        if group_sizes is None or any(not 0 <= n <= sizes.columns for n in groups):
            return None
        anew = numbers(" ".join(text.split()), sum(groups), whole=not real)
        if anew is None:
            return None
        parts = iter(anew.split())
        return "".join("".join(f"{next(parts)} " for _ in range(n)) + " " for n in groups)

    return written


def _if_linear(written: Written) -> Written:
    """Of trees whose leaves are linear models, none of others."""
    return lambda text, sizes: (
        written(text, sizes) if sizes.values.get("is_linear") == "1" else None
    )


def whole_of(text: str) -> int | None:
    """Read a whole number of at most twelve digits; None for any other text."""
    return int(text) if re.fullmatch(r"\d{1,12}", text) else None


def _one(low: int = 0) -> Written:
    return _wholes(lambda _: 1, low)


def _like(pattern: re.Pattern[str]) -> Written:
    return lambda text, _: text if pattern.fullmatch(text) else None


def _names(text: str, sizes: Sizes) -> str | None:
    words = text.split(" ")
    fits = len(words) == sizes.columns == len(set(words)) and text.isprintable()
    return text if fits and max(map(len, words)) <= MOST_LETTERS else None


def _info(word: str) -> bool:
    """None, two ends, or all categories, each once."""
    if word == "none":
        return True
    if word.startswith("[") and word.endswith("]"):
        return word[1:-1] == numbers(word[1:-1], 2, separator=":")
    listed = word.split(":")
    return word == numbers(word, None, whole=True, separator=":") and len(set(listed)) == len(
        listed
    )


HEAD: Mapping[str, Written] = {
    "tree": lambda text, _: text or None,
    "version": _like(re.compile(r"v\d")),
    "num_class": _one(),
    "num_tree_per_iteration": _one(),
    "label_index": _one(),
    "max_feature_idx": _one(),
    "objective": _like(_OBJECTIVE),
    "average_output": lambda text, _: text or None,
    "feature_names": _names,
    "monotone_constraints": _wholes(lambda sizes: sizes.columns, -1, 2),
    "feature_infos": lambda text, sizes: text if len(words := text.split(" ")) == sizes.columns
    and all(map(_info, words)) else None,
    "tree_sizes": lambda text, _: numbers(text, None, whole=True),
}  # fmt: skip
TREE: Mapping[str, Written] = {
    "Tree": _one(),
    **dict.fromkeys(("num_leaves", "num_cat", "is_linear"), _one()),
    **dict.fromkeys(("split_feature", "decision_type", "left_child", "right_child",
                     "internal_count"), _of_inner(_wholes)),
    **dict.fromkeys(("split_gain", "threshold", "internal_value", "internal_weight"),
                    _of_inner(_reals)),
    **dict.fromkeys(("leaf_value", "leaf_weight"), _of_leaves(_reals)),
    "leaf_count": _of_leaves(_wholes),
    "cat_boundaries": _bounds,
    "cat_threshold": _bits,
    "shrinkage": lambda text, _: number(text),
    "leaf_const": _if_linear(_reals(lambda sizes: sizes.leaves)),
    "num_features": _if_linear(_wholes(lambda sizes: sizes.leaves, 0)),
    "leaf_features": _if_linear(_of_linear(real=False)),
    "leaf_coeff": _if_linear(_of_linear(real=True)),
}  # fmt: skip


# ----------------------------------------------------------------------------------- parameters


def _list(whole: bool, size: Callable[[Sizes], int], distinct: bool = False) -> Written:
    """Up to so many numbers, separated by commas."""

    def written(text: str, sizes: Sizes) -> str | None:
        parts = text.split(",") if text else []
        anew = numbers(text, None, whole, separator=",")
        once = not distinct or len(set(parts)) == len(parts)
        return anew if len(parts) <= size(sizes) and once else None

    return written


def _words(text: str, _: Sizes) -> str | None:
    words = text.split(",") if text else []
    fits = len(words) == len(set(words)) <= MOST_WORDS and all(map(_WORDS.fullmatch, words))
    return text if fits else None


def _path(text: str, _: Sizes) -> str | None:
    """A short text, and more than digits."""
    digits = sum(map(str.isdigit, text))
    return text if len(text) <= MOST_LETTERS and text.isprintable() and 2 * digits <= len(
        text
    ) else None  # fmt: skip


def _columns(text: str, sizes: Sizes) -> str | None:
    """Numbers of columns, or their names."""
    if text.startswith("name:"):
        words = text[5:].split(",")
        return text if len(words) == len(set(words)) <= sizes.columns else None
    return _list(True, lambda known: known.columns, distinct=True)(text, sizes)


def _column(text: str, sizes: Sizes) -> str | None:
    return _path(text, sizes) if text[:1] not in set("0123456789") else _one()(text, sizes)


def _groups(text: str, sizes: Sizes) -> str | None:
    """Lists of columns, none of them twice in a list: ``[0,1],[2]``."""
    groups = text[1:-1].split("],[") if text.startswith("[") and text.endswith("]") else []
    read = [_columns(group, sizes) for group in groups]
    most = max(sizes.columns, MOST_WORDS)
    return text if (groups or not text) and None not in read and len(
        set(groups)
    ) == len(groups) <= most else None  # fmt: skip


_EACH_COLUMN: Callable[[Sizes], int] = lambda sizes: sizes.columns  # noqa: E731
_FEW: Callable[[Sizes], int] = lambda _: MOST_WORDS  # noqa: E731
PARAMETERS_BY_NAME: Mapping[str, Written] = {
    **dict.fromkeys(
        [
        "alpha", "bagging_by_query", "bagging_fraction", "bagging_freq", "bagging_seed",
        "bin_construct_sample_cnt", "boost_from_average", "cat_l2", "cat_smooth",
        "cegb_penalty_split", "cegb_tradeoff", "data_random_seed", "deterministic", "drop_rate",
        "drop_seed", "early_stopping_min_delta", "early_stopping_round", "enable_bundle",
        "extra_seed", "extra_trees", "fair_c", "feature_fraction", "feature_fraction_bynode",
        "feature_fraction_seed", "feature_pre_filter", "first_metric_only", "force_col_wise",
        "force_row_wise", "gpu_device_id", "gpu_platform_id", "gpu_use_dp", "header",
        "histogram_pool_size", "is_enable_sparse", "is_provide_training_metric", "is_unbalance",
        "lambda_l1", "lambda_l2", "lambdamart_norm", "lambdarank_norm",
        "lambdarank_position_bias_regularization", "lambdarank_truncation_level",
        "learning_rate", "linear_lambda", "linear_tree", "local_listen_port", "max_bin",
        "max_cat_threshold", "max_cat_to_onehot", "max_conflict_rate", "max_delta_step",
        "max_depth", "max_drop", "max_position", "metric_freq", "min_data_in_bin",
        "min_data_in_leaf", "min_data_per_group", "min_gain_to_split",
        "min_sum_hessian_in_leaf", "monotone_penalty", "multi_error_top_k",
        "neg_bagging_fraction", "num_class", "num_gpu", "num_grad_quant_bins",
        "num_iteration_predict", "num_iterations", "num_leaves", "num_machines", "num_threads",
        "objective_seed", "other_rate", "path_smooth", "poisson_max_delta_step",
        "pos_bagging_fraction", "pre_partition", "precise_float_parser", "predict_contrib",
        "predict_disable_shape_check", "predict_leaf_index", "predict_raw_score",
        "pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin",
        "quant_train_renew_leaf", "refit_decay_rate", "reg_sqrt", "save_binary",
        "saved_feature_importance_type", "scale_pos_weight", "seed", "sigmoid", "skip_drop",
        "snapshot_freq", "sparse_threshold", "start_iteration_predict", "stochastic_rounding",
        "time_out", "top_k", "top_rate", "tweedie_variance_power", "two_round", "uniform_drop",
        "use_missing", "use_quantized_grad", "verbosity", "xgboost_dart_mode", "zero_as_missing"
    ],
        lambda text, _: number(text)),
    **dict.fromkeys(
        [
        "boosting", "convert_model_language", "data_sample_strategy", "device_type", "metric",
        "monotone_constraints_method", "objective", "task", "tree_learner"
    ], _words),
    **dict.fromkeys(
        [
        "convert_model", "data", "forcedbins_filename", "forcedsplits_filename",
        "initscore_filename", "input_model", "machine_list_filename", "machines",
        "output_model", "output_result", "parser_config_file", "valid", "valid_data_initscores"
    ], _path),
    **dict.fromkeys(["group_column", "label_column", "weight_column"], _column),
    **dict.fromkeys(["categorical_feature", "ignore_column"], _columns),
    **dict.fromkeys(
        ["cegb_penalty_feature_coupled", "cegb_penalty_feature_lazy", "feature_contri"],
        _list(False, _EACH_COLUMN)),
    "max_bin_by_feature": _list(True, _EACH_COLUMN),
    "monotone_constraints": _list(True, _EACH_COLUMN),
    "auc_mu_weights": _list(False, lambda sizes: sizes.classes**2),
    "eval_at": _list(True, _FEW, distinct=True),
    "gpu_device_id_list": _list(True, _FEW, distinct=True),
    "label_gain": _list(False, _FEW),
    "interaction_constraints": _groups,
}  # fmt: skip
"""Parameters of versions 2.0 to 4.7, as their files name them."""
