"""What the parts of a stored model disclose: one table, read from the top, first match counts.

A rule speaks of attributes by name, because that is how libraries keep their habits: what ends in
``X_train_`` holds training rows wherever it stands.
"""

from __future__ import annotations

import numpy as np

from treeleak.auditing.inventory import (
    conditions,
    forms,
    numbers,
    rules_of_r,
    rules_of_ydf,
    searches,
)
from treeleak.auditing.inventory import rules_of_boosting as boosting
from treeleak.auditing.inventory import rules_of_exchange as exchange
from treeleak.auditing.inventory.conditions import Rule
from treeleak.auditing.inventory.owners import path_lengths
from treeleak.auditing.inventory.rules_of_ebm import OF_EBM
from treeleak.auditing.inventory.rules_of_outcomes import OF_OUTCOMES

_COUNTS = (
    "Each number counts the training rows in a small part of the data. Many such counts "
    "together determine the rows."
)
_SEEDS = (
    "Anyone who has a seed of the forest or of its trees can repeat the draws. Then every "
    "count is about rows with known numbers, and an attack can rebuild the rows in their "
    "order."
)
SEED_NAMES = (
    "random_state random_state_ _random_state *__random_state *seed *seeds _rng rng _feature_*rng"
)
_TABLE = "The file holds the training rows themselves."
_PER_ROW = "It holds one entry for every training row."

# fmt: off
SETTING = Rule("*", "harmless", "settings", "These were chosen before training, without looking "
    "at rows.")
INTERNAL = Rule("*", "not assessed", "other values",
                "The library writes these; treeleak does not judge them. Look at them yourself.")
UNKNOWN = Rule("*", "not assessed", "unknown parts", "No rule knows this part. It may hold rows.",
               unknown=True)
STORED = Rule("*", "leaks", "training rows in an unknown part",
              "treeleak found the given training rows there, value by value.",
              change="rows", rows=True)
SUSPICIOUS = Rule("*", "not assessed", "as many entries as training rows",
                   "It may hold one value for every row. treeleak has no rule for it.",
                   when=conditions.one_per_row, change="per_row", unknown=True)

TABLE = Rule("*", "leaks", "a table of training rows", "It lies beside the model: rows of the "
    "model's columns, as many as it was trained on, or examples out of them.",
    owner="(beside)", change="rows", rows=True)
MODEL_TABLE = Rule("*", "not assessed", "a table of the model's columns",
    "It lies beside the model. Its rows may be training rows.",
    owner="(beside)", unknown=True)
PER_ROW = Rule("*", "not assessed", "a table of as many rows as training rows",
    "It lies beside the model, and may hold one line for every row.",
    owner="(beside)", change="per_row", unknown=True)
SMALL_CELLS = Rule("*", "leaks", "a report with small cells",
    "It counts fewer people somewhere than the folder itself says may be shown.",
    owner="(beside)", unknown=True)
COLUMN_TABLE = Rule("*", "not assessed", "numbers about columns",
    "One line for each column. treeleak does not attack them.", owner="(beside)")
DESCRIPTION = Rule("*", "harmless", "descriptions",
    "Packages, versions, names of columns: each line is as its program writes it.",
    owner="(beside)")
BESIDE = (TABLE, MODEL_TABLE, PER_ROW, SMALL_CELLS, COLUMN_TABLE, DESCRIPTION)
"""Of what lies beside a model; found by :mod:`treeleak.auditing.inventory.beside`."""

_OF_NOISE = "release DPForestClassifier DiscreteLaplace Laplace"

RULES: tuple[Rule, ...] = (
    *BESIDE,
    *boosting.OF_BOOSTING,
    *rules_of_r.OF_R,
    *OF_OUTCOMES,
    *rules_of_ydf.OF_YDF,
    *OF_EBM,
    *exchange.OF_EXCHANGE,
    # -- noise
    Rule(SEED_NAMES, "leaks", "seeds of the noise",
         "Anyone who has a seed can draw the noise again and subtract it. Then the counts "
             "are exact, and no budget bounds what they disclose.",
         when=conditions.noisy, change="noise seeds", form=forms.seeds),
    Rule("values counts statistics", "leaks", "class counts, or the class of each leaf, with noise",
         "It comes from the rows. The noise bounds what it discloses about any single row, "
             "by the budget. Attacks use the rest.",
         owner="Tree release", when=conditions.noisy, form=forms.tree_values),
    Rule("noise noise_ epsilon epsilon_spent_ mechanism accountant", "harmless",
         "budget and law of the noise", "These are meant to be public; the noise itself is not.",
         owner=f"{_OF_NOISE} RandomForestClassifier DecisionTreeClassifier", when=conditions.noisy,
         form=forms.short),
    Rule("noise", "harmless", "the rule by which leaves name classes",
         "It is the same for all models of a kind.", owner="release", form=forms.short),
    Rule("_BudgetAccountant__spent_budget", "harmless", "budget and law of the noise",
         "These are meant to be public; the noise itself is not.",
         owner="BudgetAccountant", form=forms.repeated),
    Rule("schema", "harmless", "names of columns and classes",
         "This is what a row can be, as stated before training.",
         owner="DPForestClassifier", form=forms.in_rules),
    Rule("name members values low high attributes rules missing at_most_one", "harmless",
         "names of columns and classes", "This is what a row can be, as stated before training.",
         owner="Schema Binary Ordinal Categorical Numeric OneHot", form=forms.in_rules),
    # -- trees
    Rule("n_node_samples weighted_n_node_samples impurity count gain bin_threshold", "harmless",
         "counts that were emptied", "All zero.",
         owner="Tree TreePredictor", form=forms.per_node,
         when=lambda v, _: isinstance(v, np.ndarray) and not v.any()),
    Rule("n_node_samples distinct count", "leaks", "rows in each node",
         _COUNTS + " If trees drew rows at random, these are the different rows of each node. The "
             "number at the root confirms a guessed seed.",
         owner="Tree release TreePredictor", change="counts", form=forms.per_node),
    Rule("weighted_n_node_samples totals", "leaks", "rows, draws or weights in each node",
         "These are the same counts, with draws or weights added up.",
         owner="Tree release", change="counts", form=forms.per_node),
    Rule("values impurity", "leaks", "means and variances of random numbers",
         "These trees were given no targets: each row got a random number. Anyone who has the "
             "seed can draw these numbers again, and learn which rows lie in which leaves.",
         owner="Tree", when=conditions.of_random_targets, change="counts",
         form=boosting.of_random_targets),
    Rule("values", "leaks", "mean target, or step, of each node",
         "In a leaf of one row, or of equal rows, this is the target of the row itself. In "
             "a boosted model it is what earlier trees left to explain, and anyone can compute "
             "that: one equation on the rows of each node.",
         owner="Tree", when=conditions.plain_values, change="counts",
         form=boosting.of_regression_values),
    Rule("impurity", "leaks", "variance in each node",
         "With the mean it gives the sum of squares over the rows of a node. Zero means "
             "that all of them have one target.",
         owner="Tree", change="counts", form=boosting.of_regression_nodes),
    Rule("values", "leaks", "what each leaf predicts",
         "Predictions need it. In a fully grown tree it is the class of the few rows in "
             "each leaf. Many such trees together determine the rows.",
         owner="Tree", when=conditions.of_leaves, change="leaves", form=forms.tree_values),
    Rule("values counts statistics", "leaks",
         "class counts, class shares or mean target in each node",
         "These are the labels of the rows in the node. In a node of one row it is that "
             "row's own.",
         owner="Tree release", change="counts", form=forms.tree_values),
    Rule("value", "leaks", "prediction of each leaf",
         "It is computed from the rows of the leaf alone, on top of the earlier trees.",
         owner="TreePredictor", change="leaves", form=forms.per_node),
    Rule("gain", "leaks", "gain of each split",
         "With the values of the two children it gives the sum of second derivatives in "
             "each, to 15 digits. That is one more equation on the rows of each node.",
         owner="TreePredictor", change="counts", form=forms.per_node),
    Rule("impurity gain", "leaks", "impurity of each node",
         "It is computed from the counts, and gives them back.",
         owner="Tree TreePredictor", change="counts", form=forms.per_node),
    Rule("threshold num_threshold", "harmless", "thresholds, all 0.5",
         "Every tested column is 0/1, so the threshold adds nothing.",
         owner="Tree release TreePredictor", when=conditions.half, form=forms.tests),
    Rule("threshold num_threshold bin_threshold", "not assessed", "thresholds",
         "Noise on counts does not protect them: training must draw them without looking at "
             "rows.",
         owner="Tree release TreePredictor", when=conditions.noisy, form=forms.tests),
    Rule("threshold num_threshold bin_threshold", "leaks", "thresholds",
         "Each lies between two values of training rows, mostly half-way.",
         owner="Tree release TreePredictor", change="values", form=forms.tests,
         of_columns=numbers.all_thresholds),
    Rule("missing_go_to_left missing_left maybe_missing", "not assessed",
         "where missing values go",
         "Noise on counts does not protect it: training must draw it without looking at "
             "rows.",
         owner="Tree release TreePredictor", when=lambda _, c: c.noise and c.missing is True,
         form=forms.flags),
    Rule("missing_go_to_left missing_left maybe_missing", "leaks", "where missing values go",
         "It shows the columns in which training rows had no value.",
         owner="Tree release TreePredictor", when=lambda _, c: c.missing is True, form=forms.flags),
    Rule("missing_go_to_left missing_left maybe_missing", "harmless", "where missing values go",
         "No tree saw a missing value.",
         owner="Tree release TreePredictor", when=lambda _, c: c.missing is False,
         form=forms.flags),
    Rule("missing_go_to_left missing_left maybe_missing", "not assessed",
         "where missing values go",
         "If a tree saw missing values, it shows in which columns training rows had none.",
         owner="Tree release TreePredictor", when=lambda _, c: c.missing is None, change="values",
         form=forms.flags),
    Rule("feature feature_idx left right left_child right_child is_leaf leaves depth "
         "is_categorical bitset_idx *_bitsets", "not assessed", "shape of the trees",
         "Predictions need it. The choice of splits depends on the rows. This audit does "
             "not attack the shape alone.",
         owner="Tree release TreePredictor", form=forms.shape),
    Rule("node_count max_depth args max_n_classes n_* format version", "harmless", "sizes",
         "It gives the size of the trees.",
         owner="Tree TreePredictor", form=forms.short),
    # -- rules
    Rule("counts covered", "leaks", "training rows of each class that each rule captures", _COUNTS,
         owner="rules", change="rule counts"),
    Rule("above upto", "leaks", "bounds in rules",
         "Most lie at or between values of training rows.",
         owner="rules", change="values"),
    Rule("column is in then", "not assessed", "the rules themselves",
         "Predictions need them. Their choice depends on the rows. This audit does not "
             "attack the choice alone.",
         owner="rules", form=forms.in_rules),
    # -- how rows were drawn
    Rule("_random_seed random_state", "leaks", "seed of the rows that were held back",
         "Early stopping kept part of the rows from the trees. The seed and the number of "
             "rows disclose which.",
         owner="HistGradientBoosting* GradientBoosting*", when=lambda v, _: v is not None,
         change="seeds", form=boosting.seed_of_split),
    Rule(SEED_NAMES, "leaks", "seeds", _SEEDS,
         when=lambda v, c: bool(c.drawn) and v is not None, change="seeds", form=forms.seeds),
    Rule(SEED_NAMES, "harmless", "seeds", "Every tree saw every row, so the seed names none of "
        "them.",
         when=lambda v, c: c.drawn is False and v is not None, form=forms.seeds),
    Rule(SEED_NAMES, "not assessed", "seeds",
         "If this model draws rows at random, the seed can disclose which.",
         change="seeds", form=forms.seeds),
    Rule("estimators_samples_ _estimators_samples", "leaks", "row numbers that each tree drew",
         "It names the rows behind every count.",
         when=conditions.filled, change="seeds", form=forms.per_row),
    Rule("_n_samples _n_samples_bootstrap _max_samples n_rows n_draws", "leaks",
         "numbers of rows and draws",
         "With a seed, even one found by a search, they repeat the draw of every tree.",
         when=lambda v, c: bool(c.drawn) and v is not None, change="seeds", form=forms.short),
    Rule("_n_samples _n_samples_bootstrap _max_samples max_samples_ n_rows n_draws n_samples_fit_ "
         "n_samples_seen_ n_samples_ n_features_in_ n_outputs_ n_classes_ max_features_ n_iter_ "
         "_max_features _max_depth n_estimators_ n_trees_per_iteration_ n_features_ n_splits_ "
         "_n_features *n_features_outs _n_classes n_features_to_select_", "harmless", "sizes",
         "Numbers of rows, columns, classes and trees.",
         form=forms.columns),
    Rule("_sample_weight sample_weight row_weights", "leaks", "weights of the training rows",
         _PER_ROW + " Weights can distinguish rows and show how trees drew them.",
         when=conditions.filled, change="per_row", form=forms.per_row, in_order=True),
    Rule("oob_decision_function_ oob_prediction_", "leaks", "out-of-bag predictions",
         _PER_ROW + " It also shows which trees did not see the row.",
         when=conditions.filled, change="per_row", form=forms.per_row, in_order=True),
    Rule("train_score_ validation_score_ oob_improvement_ oob_scores_", "harmless",
         "scores after each round",
         "Each is an average over all rows, or over those held back, in all digits of a "
             "float: one equation on all of them together.",
         owner="HistGradientBoosting* GradientBoosting*", form=forms.scores,
         describe=numbers.of_rounds),
    Rule("_baseline_prediction", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the "
             "number of rows, it gives the rows of each class.",
         owner="HistGradientBoosting*", form=forms.scores),
    Rule("class_prior_ constant_", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the "
             "number of rows, it gives the rows of each class.",
         owner="Dummy*", form=forms.columns),
    Rule("n_bins_non_missing_ missing_values_bin_idx_ is_categorical_ _is_categorical_remapped",
         "harmless", "sizes",
         "These are the numbers of different values of each column, up to the number of "
             "bins.",
         owner="_BinMapper HistGradientBoosting*", form=forms.columns),
    Rule("low high low_inclusive high_inclusive n_classes", "harmless", "settings",
         "The loss is defined between these numbers.",
         owner="Interval Half* AbsoluteError PinballLoss HuberLoss ExponentialLoss",
         form=forms.short),
    Rule("oob_score_ oob_scores_ oob_improvement_ train_score_ validation_score_ loss_curve_ "
         "best_score_ scores_ best_index_ refit_time_ _baseline_prediction",
         "harmless", "scores", "These are averages over many rows.",
         form=forms.scores),
    Rule("param_grid param_distributions", "harmless", "settings", "What a search tried.",
         owner="*Search*", form=searches.choices),
    Rule("cv_results_", "harmless", "scores", "These are averages over many rows.",
         form=searches.results),
    # -- the training table, stored
    Rule("_fit_X _mask_fit_X _y X_train_ y_train_ X_fit_ y_fit_ fit_X_ X_ _raw_data _raw_X "
         "_X_train X_train _training_data train_X_ train_y_ train_extra_data_", "leaks",
         "training table", _TABLE,
         when=conditions.filled, change="rows", rows=True),
    Rule("*", "leaks", "training table", _TABLE,
         owner="KDTree BallTree KDTree64 BallTree64 KDTree32 BallTree32", when=conditions.filled,
         change="rows", rows=True),
    Rule("support_vectors_ core_sample_indices_", "leaks", "training rows chosen by the model",
         _TABLE,
         when=conditions.filled, change="rows", rows=True),
    Rule("components_", "leaks", "training rows chosen by the model", _TABLE,
         owner="DBSCAN Nystroem", change="rows", rows=True),
    Rule("dual_coef_ _dual_coef_ alpha_ L_ labels_ transduction_ label_distributions_ embedding_ "
         "support_ row_labels_ inlier_mask_ dist_ affinity_matrix_", "leaks",
         "one entry for each training row", _PER_ROW,
         when=conditions.filled, change="per_row", form=forms.per_row, in_order=True),
    # -- values of single rows
    Rule("categories_ vocabulary_ _infrequent_indices infrequent_categories_ feature_log_prob_ "
         "_default_to_infrequent_mappings stop_words_", "leaks",
         "values that occur in the training rows",
         "The list includes values that only one person has.",
         when=conditions.filled, change="values", form=forms.distinct),
    Rule("encodings_ X_thresholds_ y_thresholds_ f_", "leaks", "means of small groups",
         "For a value that few rows have, the mean discloses their label.",
         change="values", form=forms.encodings),
    Rule("bin_thresholds_", "harmless", "borders that were emptied", "None.",
         owner="_BinMapper", form=boosting.borders,
         when=lambda v, _: isinstance(v, list) and all(item is None for item in v)),
    Rule("bin_thresholds_ borders", "leaks", "borders of all values of the columns",
         "These are the middles of every two neighbouring values of a column, even if no "
             "tree tests it. For columns with more values than bins, they are some of these. "
             "Two of them enclose each value that only one person has.",
         owner="_BinMapper release", when=conditions.filled, change="values", form=boosting.borders,
         describe=numbers.of_borders, of_columns=numbers.all_borders),
    Rule("data_min_ data_max_ data_range_ min_ max_abs_ quantiles_ references_ bin_edges_ "
         "bin_thresholds_ _min_value _max_value", "leaks", "smallest, largest or ranked values",
         "These are values of single rows.",
         when=conditions.filled, change="values", form=forms.edges),
    Rule("t _t c _c", "leaks", "smallest, largest or ranked values",
         "The knots of a spline lie between values of a column, or at some of them.",
         owner="BSpline _BSpline", change="values", form=forms.knots),
    Rule("state", "harmless", "technical notes", "It is empty.", owner="BSpline",
         form=lambda value, _: isinstance(value, np.ndarray) and not value.size),
    Rule("scale_", "leaks", "smallest, largest or ranked values",
         "They are computed from values of single rows.",
         owner="MinMaxScaler MaxAbsScaler", change="values", form=forms.per_column),
    Rule("mean_ var_ scale_ center_ statistics_ lambdas_ variances_ idf_ constant_ class_prior_",
         "harmless", "means and spreads of columns",
         "They cover all rows. (With very few rows even these disclose much.)",
         form=forms.columns),
    Rule("feature_importances_", "leaks", "importance of columns",
         "It is worked out of the numbers of rows and the impurities of all nodes, and gives some "
             "of them back.",
         change="counts", form=forms.columns),
    # -- names and labels
    Rule("feature_names_in_ columns classes classes_ class_name one_hot levels drop_idx_ features_ "
         "_columns _remainder transformers_ _drop_idx_after_grouping estimators_features_ "
         "output_indices_ _transformer_to_input_indices sparse_output_ _valid_mask indicator_ "
         "support_mask_ ranking_",
         "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         form=forms.names),
    Rule("data", "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="_RemainderColsList", form=forms.names),
    Rule("_sklearn_version _sklearn_output_config _metadata_request sklearn_version origin notes "
         "not_covered thresholds_are format version counts_are float_type kind rule why hidden "
         "columns_drawn rows_between _fit_dtype "
         "_validate_params *_time_ _repr_* dtype", "harmless", "technical notes",
         "Versions and settings of the library.",
         form=forms.prose),
    Rule("estimator_params", "harmless", "settings", "Names of settings that every tree gets.",
         form=forms.short),
    Rule("_columns _remainder transformers_ transformers remainder", "harmless",
         "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         when=conditions.plain, form=forms.names),
    Rule("_decision_path_lengths", "harmless", "sizes", "The depth of each node of the trees.",
         owner="IsolationForest", form=path_lengths),
    Rule("_average_path_length_per_tree", "leaks", "rows in each node",
         "Mean lengths of paths are computed from the numbers of rows in nodes, and give them "
             "back.",
         owner="IsolationForest", form=path_lengths),
    # -- known, but not assessed
    Rule("coef_ intercept_ *_weights_ estimator_errors_ offset_ coefs_ intercepts_ a_ b_ "
         "cluster_centers_ components_ explained_variance_* singular_values_ best_threshold_ "
         "random_offset_", "not assessed",
         "fitted parameters", "They are computed from all rows together. treeleak does not "
             "attack them.",
         form=forms.fitted),
    SUSPICIOUS,
)
# fmt: on
