"""What is said of LightGBM's files that are not read in full."""

from treeleak.core.message import MessageTemplate, static_message

LINEAR = static_message(
    "LightGBM trees with linear models in their leaves (linear_tree) are not covered",
    "lightgbm_linear",
)
ZEROS = (
    "tree {}, node {}: zeros count as missing there (zero_as_missing) and go the other way than "
    "their value: such tests are not covered"
)
COUNTLESS = static_message(
    "the LightGBM file holds no numbers of rows (leaf_count), and rebuilding rows from other "
    "statistics is not covered yet",
    "lightgbm_countless",
)
VALUES_ALONE = static_message(
    "The file holds neither numbers of rows nor parameters: treeleak assumes that every "
    "tree saw all rows, and LightGBM's default regularisation.",
    "lightgbm_values_alone",
)
MISCOUNTED = static_message(
    "the numbers of rows in the LightGBM file do not add up: they do not belong to its trees",
    "lightgbm_miscounted",
)
UNTOLD = static_message(
    "the LightGBM file does not hold the parameters of its training, which say whether each tree "
    "saw all rows",
    "lightgbm_untold",
)
BAGGED = MessageTemplate(
    "rows_bagged",
    "each tree saw a part of the rows, drawn without replacement (bagging_fraction {share:number})",
)
GOSS = static_message(
    "each tree saw the rows with the largest gradients and some of the others (GOSS): its counts "
    "are of these",
    "lightgbm_goss",
)
DIFFERENT = static_message(
    "the roots of its trees count different numbers of rows", "lightgbm_different"
)
AVERAGE = static_message(
    "Predictions are the average of the trees, not their sum (boosting=rf).", "lightgbm_average"
)
OWN_START = static_message(
    "The sums of hessians are not those of rows that start alike: rows or classes had weights, or "
    "rows had scores of their own (init_score), which the file does not hold. Only numbers of rows "
    "are used.",
    "lightgbm_own_start",
)
OWN_RATES = static_message(
    "The trees were multiplied by learning rates of their own, or by another than the file names. "
    "Only numbers of rows are used.",
    "lightgbm_own_rates",
)
EARLY = MessageTemplate(
    "stops_early",
    "Predictions may stop after round {round}, found best; the model holds later trees, too.",
)
