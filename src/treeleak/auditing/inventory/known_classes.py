"""What objects of known libraries can hold: their parameters, and the attributes they set.

The table beside this module was made from the sources of scikit-learn 1.3 to 1.9, of libraries
built on it, and of treeleak itself (tools/list_known_classes.py). So no name that a file gives is
ever imported, and a file of any of these versions is known, whichever is installed.

The parts of files of boosting libraries have names in them, and no classes. So that rules can speak
of them as of attributes of objects, each kind of part has a class here: its settings, and what else
stands in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources

from treeleak.core.private import dataclass
from treeleak.release.readers.ydf import PARTS as YDF

XGBOOST_SETTINGS = (
    "n_estimators objective max_depth max_leaves max_bin grow_policy learning_rate verbosity "
    "booster tree_method gamma min_child_weight max_delta_step subsample sampling_method "
    "colsample_bytree colsample_bylevel colsample_bynode reg_alpha reg_lambda scale_pos_weight "
    "base_score missing num_parallel_tree random_state n_jobs monotone_constraints "
    "interaction_constraints importance_type device gpu_id predictor validate_parameters "
    "enable_categorical feature_types feature_weights max_cat_to_onehot max_cat_threshold "
    "multi_strategy eval_metric early_stopping_rounds callbacks kwargs use_label_encoder"
)
_XGB_SET = (
    "_features_count n_features_in_ _Booster n_classes_ classes_ _le evals_result_ best_iteration "
    "best_score"
)
_LGBM = (
    "boosting_type objective num_leaves max_depth learning_rate n_estimators subsample_for_bin "
    "class_weight min_split_gain min_child_weight min_child_samples subsample subsample_freq "
    "colsample_bytree reg_alpha reg_lambda random_state n_jobs importance_type silent verbose "
    "verbosity _other_params _objective _fobj "
    # LightGBM's own names, which its scikit-learn classes take, too.
    "alpha bagging_by_query bagging_fraction bagging_freq bagging_seed bin_construct_sample_cnt "
    "boost_from_average boosting cat_l2 cat_smooth cegb_penalty_split cegb_tradeoff "
    "data_random_seed data_sample_strategy deterministic device device_type drop_rate drop_seed "
    "early_stopping_min_delta early_stopping_round early_stopping_rounds enable_bundle extra_seed "
    "extra_trees fair_c feature_fraction feature_fraction_bynode feature_fraction_seed "
    "feature_pre_filter first_metric_only force_col_wise force_row_wise gpu_use_dp "
    "is_enable_sparse is_unbalance lambda_l1 lambda_l2 linear_lambda linear_tree max_bin "
    "max_cat_threshold max_cat_to_onehot max_delta_step max_drop metric min_data_in_bin "
    "min_data_in_leaf min_data_per_group min_gain_to_split min_sum_hessian_in_leaf "
    "monotone_constraints monotone_constraints_method monotone_penalty neg_bagging_fraction "
    "num_grad_quant_bins num_threads objective_seed other_rate path_smooth "
    "poisson_max_delta_step pos_bagging_fraction pre_partition quant_train_renew_leaf reg_sqrt "
    "scale_pos_weight seed sigmoid skip_drop stochastic_rounding top_k top_rate tree_learner "
    "tweedie_variance_power uniform_drop use_missing use_quantized_grad xgboost_dart_mode "
    "zero_as_missing max_bin_by_feature feature_contri cegb_penalty_feature_coupled "
    "cegb_penalty_feature_lazy interaction_constraints eval_at label_gain"
)
_LGBM_SET = (
    "_Booster _evals_result _best_score _best_iteration _class_weight _class_map fitted_ _le "
    "_fitted_with_feature_names _n_features _n_features_in _classes _n_classes"
)
CATBOOST_SETTINGS = (
    "allow_const_label allow_writing_files approx_on_full_history auto_class_weights "
    "bagging_temperature best_model_min_trees boost_from_average boosting_type bootstrap_type "
    "border_count callback cat_features class_names class_weights classes_count "
    "colsample_bylevel combinations_ctr counter_calc_method ctr_description ctr_history_unit "
    "ctr_leaf_count_limit ctr_target_border_count custom_loss custom_metric data_partition "
    "depth dev_efb_max_buckets dev_score_calc_obj_block_size device_config devices "
    "dictionaries diffusion_temperature early_stopping_rounds embedding_features eta "
    "eval_fraction eval_metric feature_border_type feature_calcers feature_weights "
    "final_ctr_computation_mode first_feature_use_penalties fixed_binary_splits "
    "fold_len_multiplier fold_permutation_block gpu_cat_features_storage gpu_ram_part "
    "grow_policy has_time ignored_features input_borders iterations l2_leaf_reg langevin "
    "leaf_estimation_backtracking leaf_estimation_iterations leaf_estimation_method "
    "learning_rate logging_level loss_function max_bin max_ctr_complexity max_depth "
    "max_leaves metadata metric_period min_child_samples min_data_in_leaf model_shrink_mode "
    "model_shrink_rate model_size_reg monotone_constraints mvs_reg n_estimators name nan_mode "
    "num_boost_round num_leaves num_trees objective od_pval od_type od_wait one_hot_max_size "
    "output_borders penalties_coefficient per_feature_ctr per_float_feature_quantization "
    "per_object_feature_penalties pinned_memory_size posterior_sampling random_score_type "
    "random_seed random_state random_strength reg_lambda rsm sampling_frequency sampling_unit "
    "save_snapshot scale_pos_weight score_function silent simple_ctr snapshot_file "
    "snapshot_interval sparse_features_conflict_fraction store_all_simple_ctr subsample "
    "target_border task_type text_features text_processing thread_count tokenizers train_dir "
    "use_best_model used_ram_limit verbose"
)
_CATBOOST_SET = (
    "_test_evals __model _prediction_values_change _loss_value_change _init_params _random_seed"
)

_EBM = (
    "feature_names feature_types max_bins max_interaction_bins interactions exclude "
    "validation_size outer_bags inner_bags learning_rate greedy_ratio greediness cyclic_progress "
    "smoothing_rounds interaction_smoothing_rounds max_rounds early_stopping_rounds "
    "early_stopping_tolerance callback min_samples_leaf min_hessian reg_alpha reg_lambda "
    "max_delta_step gain_scale min_cat_samples cat_smooth missing max_leaves monotone_constraints "
    "objective n_jobs random_state binning mains epsilon delta composition bin_budget_frac "
    "privacy_bounds privacy_target_min privacy_target_max"
)
_EBM_SET = (
    "n_features_in_ term_names_ term_features_ term_scores_ bagged_scores_ standard_deviations_ "
    "bin_weights_ bins_ feature_names_in_ feature_types_in_ feature_bounds_ histogram_edges_ "
    "histogram_weights_ unique_val_counts_ zero_val_counts_ missing_val_counts_ classes_ "
    "min_target_ max_target_ intercept_ bagged_intercept_ link_ link_param_ bag_weights_ "
    "best_iteration_ breakpoint_iteration_ noise_scale_binning_ noise_scale_boosting_ "
    "noise_scale_ has_fitted_ n_samples_"
)
_ONNX_TEXTS = (
    "ir_version name domain producer_name producer_version model_version doc_string metadata_props"
)
_ONNX_NODE = (
    "name op_type domain input output doc_string overload metadata_props classlabels_int64s"
)
_ONNX_LISTS = {
    "nodes": "treeids nodeids featureids values values_as_tensor hitrates hitrates_as_tensor "
    "truenodeids falsenodeids missing_value_tracks_true",
    "class": "treeids nodeids ids weights weights_as_tensor",
    "target": "treeids nodeids ids weights weights_as_tensor",
}

XGBOOST, LIGHTGBM, CATBOOST = "xgboost.core.Booster", "lightgbm.basic.Booster", "catboost.core."
PARTS = "treeleak.files."

FILES: Mapping[str, tuple[str, str]] = {
    **{f"xgboost.sklearn.{name}": (XGBOOST_SETTINGS, _XGB_SET) for name in (
        "XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker")},
    **{f"interpret.glassbox._ebm._ebm.{private}ExplainableBoosting{kind}": (_EBM, _EBM_SET)
       for private in ("", "DP") for kind in ("Classifier", "Regressor")},
    "xgboost.compat.XGBoostLabelEncoder": ("", "classes_"),
    XGBOOST: ("booster", "feature_names feature_types handle version learner Config "
        "Model best_iteration best_ntree_limit"),
    **{f"lightgbm.sklearn.{name}": (_LGBM, _LGBM_SET) for name in (
        "LGBMClassifier", "LGBMRegressor", "LGBMRanker", "LGBMModel")},
    LIGHTGBM: (
        "tree version num_class num_tree_per_iteration label_index max_feature_idx objective "
        "average_output monotone_constraints network _network _Booster__attr "
        "_train_data_name train_set_version params "
        "_Booster__train_data_name _Booster__need_reload_eval_info "
            "_Booster__set_objective_to_none name_valid_sets "
        "_Booster__num_dataset _Booster__init_predictor _Booster__num_class "
        "_Booster__inner_predict_buffer _Booster__is_predicted_cur_iter "
        "_Booster__num_inner_eval _Booster__name_inner_eval _Booster__higher_better_inner_eval",
        "_handle handle feature_names feature_infos tree_sizes trees parameters importances "
        "pandas_categorical best_iteration best_score"),
    **{f"{CATBOOST}{name}": (
        CATBOOST_SETTINGS, f"{_CATBOOST_SET} features_info model_info oblivious_trees "
            "trees ctr_data "
             "scale_and_bias") for name in (
        "CatBoost", "CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker")},
    **{name: ("", held) for name, held in YDF.items()},
    "onnx.Model": (_ONNX_TEXTS + " opset_import", "graph"),
    "onnx.Graph": (_ONNX_TEXTS + " input output value_info initializer", "nodes"),
    "onnx.Node": (
        _ONNX_NODE + " to axis axes value norm keepdims perm shape zeros default_int64 "
        "default_string replaced_value_float replaced_value_int64 values_int64s values_strings",
        "cats_int64s cats_strings keys_int64s keys_strings offset scale imputed_value_floats "
        "imputed_value_int64s classlabels_strings"),
    **{f"onnx.TreeEnsemble{kind}": (
        _ONNX_NODE + " post_transform n_targets aggregate_function",
        "base_values base_values_as_tensor classlabels_strings nodes_modes " + " ".join(
            f"{of}_{name}" for of, names in _ONNX_LISTS.items() for name in names.split()))
        for kind in ("Classifier", "Regressor")},
}  # fmt: skip
"""By type: settings, and what else can stand there, separated by blanks."""


LIBRARIES = ("sklearn", "diffprivlib", "treeleak", "sksurv", "quantile_forest")

_EVERY = (
    "feature_names_in_ n_features_in_ n_features_ _n_features_out _sklearn_version "
    "_sklearn_output_config _metadata_request _validate_params feature_importances_"
)
# Classes that are compiled, or made by others than their methods: what they store.
_BESIDE: Mapping[str, str] = {
    "Tree": "args max_depth node_count nodes values n_features n_classes n_outputs max_n_classes",
    "TreePredictor": "args",
    "QuantileForest": "args matrix1 shape1 matrix2 shape2",
    "_RemainderColsList": "data",
    "Bunch": "*",
    "MetadataRequest": "*",
    "MethodMetadataRequest": "*",
}
_LOSS = re.compile(r"Cy[A-Z]\w*")
# Objects of other libraries that only hold values for those that know them.
_HOLDERS: Mapping[str, str] = {
    "functools.partial": "func args kwds namespace state",
    "builtins.slice": "args",
    "scipy.sparse._csc.csc_matrix": "data indices indptr _shape maxprint",
    # From SciPy 1.18 on, what it holds stands in an object of its own.
    "scipy.interpolate._bsplines.BSpline": "t c _t _c k extrapolate axis _asarray state",
    "scipy.interpolate._bsplines._BSpline": "t c k extrapolate axis _delegate_to",
    "numpy.dtype": "args",
    "numpy.dtypes.*": "args",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.<>]{0,99}")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,39}")


@dataclass(frozen=True)
class KnownClass:
    """What a class can hold."""

    parameters: frozenset[str]
    """Arguments of its constructor."""
    attributes: frozenset[str]
    """What else its methods set."""

    def holds(self, name: str) -> bool:
        """Say whether objects of the class have something of this name."""
        return bool({name, "*"} & (self.parameters | self.attributes))


@cache
def known_class(type_name: str) -> KnownClass | None:
    """Find a class by its full name; None where it is not known.

    Where a library keeps a class changes between versions, so only library and name count.
    """
    if type_name in FILES:
        settings, others = FILES[type_name]
        return KnownClass(frozenset(settings.split()), frozenset(others.split()))
    module, _, name = type_name.rpartition(".")
    for holder in (type_name, f"{module}.*"):
        if holder in _HOLDERS:
            return KnownClass(frozenset(_HOLDERS[holder].split()), frozenset())
    library = next((prefix for prefix in LIBRARIES if f"{module}.".startswith(f"{prefix}.")), None)
    if library is None or not is_name(type_name):
        return None
    # What diffprivlib has from scikit-learn stands in the table of scikit-learn.
    found = [_table().get((prefix, name)) for prefix in (library, "sklearn")]
    beside = _BESIDE.get(name, "args" if _LOSS.fullmatch(name) else None)
    if not any(found) and beside is None:
        return None
    parameters = {p for known in found if known for p in known[0].split()}
    attributes = {a for known in found if known for a in known[1].split()}
    attributes |= {*_EVERY.split(), *(beside or "").split()}
    return KnownClass(frozenset(parameters), frozenset(attributes))


def class_names() -> frozenset[tuple[str, str]]:
    """List the classes of the table: library and name."""
    return frozenset(_table())


def is_name(text: str) -> bool:
    """Say whether a text can name a class or a function, module included."""
    return _NAME.fullmatch(text) is not None


def is_plain_name(text: str) -> bool:
    """Say whether a text can be shown as the name of an attribute."""
    return _PLAIN_NAME.fullmatch(text) is not None


@cache
def _table() -> Mapping[tuple[str, str], tuple[str, str]]:
    text = resources.files(__package__).joinpath("known_classes.json").read_text("ascii")
    return {(library, name): (p, a) for library, name, p, a in json.loads(text)}
