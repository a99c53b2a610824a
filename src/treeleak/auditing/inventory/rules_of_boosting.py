"""Rules on what the files of XGBoost, LightGBM and CatBoost hold.

Only what stands in their estimators and boosters has a form here: the parts of files are held
against their shapes, or their lines, before (:mod:`.layouts`).
"""

from __future__ import annotations

from treeleak.auditing.inventory import conditions, forms, numbers
from treeleak.auditing.inventory import forms_of_boosting as boosting
from treeleak.auditing.inventory.conditions import Rule

_TREES = "XGBoostTree LightGBMTree CatBoostTree"
_BOOSTERS = "Booster CatBoost CatBoostClassifier CatBoostRegressor CatBoostRanker"

_PARAMETERS = (
    "They were chosen before training, and include seeds. If trees sampled rows, they show how."
)

# fmt: off
OF_BOOSTING: tuple[Rule, ...] = (
    Rule("sum_hessian loss_changes base_weights leaf_weights", "harmless",
         "numbers that were emptied", "All zero.",
         owner="XGBoostTree CatBoostTree", when=boosting.all_zero),
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
         owner="Booster", when=boosting.whole_numbers, form=boosting.of_each_column),
    Rule("loss_changes split_gain importances", "leaks", "gain of each split",
         "With the values of the nodes it gives the sums of second derivatives. So it gives "
             "the numbers of rows, even if these were removed.",
         owner=f"{_TREES} Booster", change="counts", form=boosting.of_each_column),
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
         owner="Booster", form=boosting.ranges,
         when=lambda v, _: isinstance(v, str) and set(v.split()) <= {"none"}),
    Rule("feature_infos", "leaks", "smallest and largest value of each column",
         "These are values of single rows, in all their digits. For columns of categories, "
             "they are all categories of the rows.",
         owner="Booster", change="values", form=boosting.ranges, describe=numbers.of_ranges,
         of_columns=numbers.all_ranges),
    Rule("pandas_categorical", "harmless", "categories, of which there are none", "Says nothing.",
         owner="Booster", when=boosting.no_categories),
    Rule("pandas_categorical values enc cat_features_hash", "leaks",
         "values that occur in the training rows",
         "The list includes values that only one person has. Predictions from texts need it.",
         owner="Booster CatBoostColumn CatBoostColumns XGBoostCategories",
         when=conditions.filled, change="values",
         form=boosting.category_lists, describe=boosting.category_count),
    Rule("enc feature_segments sorted_idx values pandas_categorical", "harmless", "sizes",
         "They are the numbers of categories of each column.",
         owner="XGBoostCategories CatBoostColumn Booster", form=boosting.numbers),
    Rule("ctr_data ctrs", "leaks", "statistics of the target for each category",
         "For each category, or combination of some, they count its rows, by class or "
             "target. Predictions need them.",
         owner=_BOOSTERS + " CatBoostColumns", when=conditions.filled, change="values"),
    Rule("training _evals_result evals_result_ best_score _best_score", "harmless",
         "scores after each round",
         "Each is an average over the rows of a table, to 15 digits: one equation on all of them.",
         owner="CatBoostInfo XGBoostAttributes LGBM* XGB* Booster", form=boosting.scores,
         describe=numbers.of_history),
    Rule("base_score scale_and_bias", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the "
             "number of rows, it gives the rows of each class.",
         owner=f"XGBoostSettings {_BOOSTERS}", form=forms.short),
    Rule("Config", "not assessed", "parameters of the training", _PARAMETERS, owner="Booster"),
    Rule("params parameters _other_params output_options class_params", "not assessed",
         "parameters of the training", _PARAMETERS,
         owner=f"CatBoostInfo LightGBMParameters {_BOOSTERS} LGBM*", form=boosting.settings),
    Rule("monotone_constraints interaction_constraints feature_weights feature_types cat_features "
         "text_features embedding_features ignored_features class_weights class_names eval_at "
         "label_gain max_bin_by_feature feature_contri cegb_*", "harmless",
         "settings", "These were chosen before training, without looking at rows.",
         owner="Booster XGB* LGBM* CatBoost*", form=boosting.of_columns),
    Rule("catboost_version_info", "harmless", "technical notes", "They describe the build of the "
        "library.",
         owner="CatBoostInfo"),
    Rule("weight_drop", "harmless", "weights of the trees", "They were drawn without looking at "
        "rows.",
         owner="XGBoostBooster"),
    Rule("tree_info iteration_indptr tree_sizes best_iteration best_ntree_limit "
         "_best_iteration", "harmless", "sizes",
         "They give the output of each tree, the length of its text, and the best round.",
         owner="XGBoostModel XGBoostAttributes Booster LGBM*", form=boosting.numbers),
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
         owner="CatBoost*", change="per_row", form=boosting.numbers),
    Rule("_prediction_values_change _loss_value_change", "not assessed", "importance of columns",
         "They are computed from all rows together.",
         owner="CatBoost*", form=boosting.numbers),
    Rule("weights", "not assessed", "fitted parameters",
         "They are computed from all rows together. treeleak does not attack them.",
         owner="XGBoostModel"),
    Rule("feature_names feature_types feature_id _classes _class_map", "harmless",
         "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="XGBoostLearner Booster CatBoostColumn LGBM*", form=boosting.names),
)
# fmt: on
