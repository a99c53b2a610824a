"""The words of every finding, each under its code; who judges chooses a code and gives values."""

from __future__ import annotations

from collections.abc import Mapping

from treeleak.core.message import Kind, own_words

# ----------------------------------------------------------------------------------- inventory

STORED = Kind("rows_stored", "The model stores training rows as they are, in {where}.")
UNKNOWN_PARTS = Kind(
    "parts_unknown",
    "{parts:number} {of} known to no rule: training rows may be there, and this audit did "
    "not assess them ({where}).",
)
OTHER_MODELS = Kind(
    "models_not_attacked",
    "No attack looked at {models:number} fitted tree {noun} in the file: {where}. Training rows "
    "may follow from {them}.",
)
VALUES_OF_PEOPLE = Kind(
    "values_of_people",
    "{values:number} different values, of {rows:people} training rows, stand in {where}: so many "
    "that values of single people may be among them. This audit did not assess them.",
)
IDENTIFIER = Kind(
    "identifier",
    "{column:quoted} holds a different value for {share} of the {rows:people} rows: it is an "
    "identifier, and the file lists its values.",
)
MATERIAL_FOR_ATTACKS = Kind("attack_material", "The model holds material for attacks: {kinds}.")
STORED_RULE = Kind("rule_rows_stored", "The file holds training rows as they are.")

# -------------------------------------------------------------------------------------- counts

SMALL = Kind(
    "small_leaves",
    "{small:number} of {leaves:number} {of} hold fewer than {threshold:number} {unit}, and "
    "{single:number} of them hold a single one.",
)
ONE_CLASS = Kind(
    "leaves_of_one_class",
    "{leaves:number} {of} hold one class only. Anyone who knows that a person is there also "
    "knows the class.",
)
TARGETS_TOLD = Kind(
    "targets_told",
    "{single:number} of {leaves:number} leaves hold a single training row. They predict the "
    "exact target of that person.",
)
NOISE = Kind("noise_budget", "{budget}")

# --------------------------------------------------------------------------------- uncertainty

NO_ROWS_COUNTED = Kind("no_rows_counted", "The model counts no rows at all.")
LEFT = Kind(
    "left_to_know",
    "The residual uncertainty (entropy) of a row is {left:share} on average.",
)
LEFT_IN_FULL = Kind(
    "left_to_know",
    "The residual uncertainty (entropy) of a row is {left:share} on average, and "
    "{left_least:share} for {least:people} of {rows:people} rows: {leaf:place} "
    "({where:place}){more}.",
)
FILLED = Kind(
    "counts_filled_in",
    "The model counts no rows. The residual uncertainty is for an adversary who has the "
    "counts of the training rows.",
)
NOTHING_SURE = Kind(
    "nothing_sure", "The schema does not allow the training rows, so nothing here is certain."
)
ALL_TOLD = Kind(
    "all_rows_told", "The model discloses every value of all {rows:people} training rows."
)
SOME_TOLD = Kind(
    "rows_told_alone",
    "The model discloses every value of {told:people} rows whose rule holds fewer than "
    "{threshold:number} rows.",
)
ALL_TOLD_RULE = Kind("rule_all_rows_told", "No row has any residual uncertainty.")
SOME_TOLD_RULE = Kind(
    "rule_rows_told_alone",
    "Some rows that share a rule with fewer than {threshold:number} have no residual uncertainty.",
)
LEFT_RULE = Kind(
    "rule_left_to_know",
    "Every row that shares its rule with few others has some residual uncertainty.",
)

# --------------------------------------------------------------------------- reconstruction: proofs

CONTRADICTION = Kind("no_rows_fit", "No rows fit the counts and the schema{why:message}.")
WHY = Kind("why", ": {why:foreign}")
ALL_GIVEN = Kind(
    "all_rows_given", "All {rows:people} rows were given, so nothing was left to rebuild."
)
UNFINISHED = Kind("unfinished", "But the audit is not complete: see what was not assessed.")
UNIQUE = Kind(
    "rows_unique",
    "All {rows:people} training rows{not_given} were rebuilt{order}: no other rows fit the counts "
    "and the schema.",
)
UNIQUE_RULE = Kind("rule_rows_unique", "The file proves all rows.")
ALIKE = Kind(
    "rows_alike",
    "Each of them equals at least {others:number} others, so this is a statistic about many "
    "people.",
)
ALONE = Kind(
    "rows_proved_alone",
    "{alone:people} of {rows:people} rows are proved under the schema, and unique{in_class} "
    "on every value that the model's splits distinguish{untested:message}.",
)
ALONE_RULE = Kind(
    "rule_rows_proved_alone",
    "The file proves rows unique{in_class}.",
)
NUMBERED = Kind(
    "rows_proved_in_order",
    "{proved:people} of {rows:people} rows are proved under the schema, each with its "
    "number. {alone:people} of them are unique among the rebuilt rows on every value that "
    "the model's splits distinguish{untested:message}.",
)
NUMBERED_RULE = Kind(
    "rule_rows_proved_in_order",
    "The file proves rows, each with its number, and some are unique among the rebuilt rows.",
)
UNTESTED = Kind("columns_untested", " (no tree tests {columns:number} of the columns)")
TARGETS_STORED = Kind(
    "targets_stored",
    "Leaves store the targets of {told:people} of {rows:people} rebuilt rows. A leaf with "
    "one row, or with one target, stores it as it is; other leaves store sums that disclose "
    "it.",
)

# ------------------------------------------------------------------- reconstruction: comparison

ERROR = Kind(
    "error_of_values", "The mean distance of a rebuilt value from the true one is {error:share1}"
)
WRONG = Kind("values_wrong", "The reconstruction error is {wrong:share1} of the values")
WRONG_AND_OFF = Kind(
    "categories_wrong_and_numbers_off",
    "{wrong:share1} of the rebuilt categories are wrong; numbers are off by {off:sd} "
    "standard deviations on average, {exact:share1} of them exactly right and {near:share1} "
    "within 1% of their column's range",
)
OFF = Kind(
    "numbers_off",
    "The rebuilt numbers are off by {off:sd} standard deviations on average, {exact:share1} of "
    "them exactly right and {near:share1} within 1% of their column's range",
)
ERROR_SHORT = Kind("error_of_values", "an error of {error:share1}")
WRONG_SHORT = Kind("values_wrong", "{wrong:share1} error")
WRONG_AND_OFF_SHORT = Kind(
    "categories_wrong_and_numbers_off",
    "{wrong:share1} error; numbers off by {off:sd} standard deviations",
)
OFF_SHORT = Kind("numbers_off", "off by {off:sd} standard deviations, {near:share1} within 1%")
COMPARED = Kind(
    "rows_compared",
    "{rows:share} of the training rows{not_given} were rebuilt {how}{order:message}. "
    "{scores:message}{of_the_rest}.",
)
CAME_BACK = Kind("rows_came_back", "{rows:share} of the training rows were rebuilt {how}.")
IN_ORDER = Kind("in_order", ", {rows:share} in their own place")
TARGETS = Kind(
    "targets_rebuilt",
    "The target of {rows:share} of the training rows was rebuilt exactly.",
)
ON_TESTED = Kind(
    "on_tested_columns",
    "The model holds nothing of {left_out:number} of the {columns:number} columns. Without them: "
    "{scores:message}.",
)
STRONGEST = Kind("strongest_yardstick", "The strongest baseline is {yardstick}: {scores:message}.")
THESE_ROWS = Kind(
    "other_draws",
    "{near:number} of {draws:number} control samples of the population are as near: the excess "
    "is attributable to the model.",
)
AS_NEAR = Kind(
    "other_draws", "{near:number} of {draws:number} control samples of the population are as near."
)
POPULATION_TOO = Kind(
    "other_draws",
    "{near:number} of {draws:number} control samples of the population are as near: the "
    "rebuilt rows may show the population, not the training rows.",
)
IN_PLACES = Kind(
    "rows_in_places",
    "Compared in place, the mean distance of a value from the true one is {error:share1}. Against "
    "other people{of_class} it is {others:share1}, and against {usual_of} usual values "
    "{usual:share1}{little}.",
)
BASELINES_OPEN = Kind(
    "baselines_not_tried",
    "No baseline was tried, so it is not known what of this is due to the model.",
)
SHAPE_OPEN = Kind(
    "shape_not_found_out",
    "The baseline from the shape of the trees is missing: it was interrupted.",
)
MAYBE_TOO_FEW = Kind(
    "perhaps_of_all_few_control",
    "This beats baselines without the counts of leaves, but not an adversary who knows the "
    "population. It may be what the model learned about everyone. The {control:people} control "
    "rows are too few to decide this: give {needed:number} or more (--control), better "
    "{better:number}.",
)
MAYBE_POPULATION = Kind(
    "perhaps_population",
    "The rebuilt rows are nearer to the training rows than to the control. But an adversary "
    "who knows the population comes as near: sums over many rows may explain this.",
)
MAYBE = Kind(
    "perhaps_of_all",
    "This beats baselines without the counts of leaves, but not an adversary who knows the "
    "population. It may be what the model learned about everyone. Control rows (--control) "
    "can decide this.",
)
NO_BETTER = Kind("no_better_than_guess", "This is not clearly better than a baseline.")
IMPOSSIBLE = Kind("rows_impossible", "But the schema does not allow all training rows.")
NOT_GUESSED = Kind(
    "rows_not_guessed",
    "But training rows have values that the thresholds do not suggest: give a schema.",
)
NARROWER = Kind(
    "narrower_domains",
    "But the training rows leave out values that the schema allows, so an adversary who knows the "
    "columns may get further: give a schema.",
)
FEW_TO_TEST = Kind("too_few_to_test", "A test needs at least {people:number} people.")
VARIANT = Kind(
    "with_less_to_go_by",
    "{what}: {scores:within}; {rows:share} of the training rows were rebuilt exactly.",
)
RULES: Mapping[str, Kind] = {
    "followed": Kind(
        "rule_followed",
        "Rows meet the sums of all nodes of all trees to the last digits. None of them is proved.",
    ),
    "values": Kind(
        "rule_values_nearer",
        "The values of the rebuilt rows are nearer to the training rows than those of every "
        "baseline. The margin is at least {least:share} of the error of each baseline that "
        "knows the population. Chance explains it in at most {chance} of cases, over people.",
    ),
    "rows": Kind(
        "rule_more_rows",
        "The attack rebuilds more training rows exactly than any baseline. Chance explains "
        "it in at most {chance} of cases, over people.",
    ),
    "places": Kind(
        "rule_nearer_in_place",
        "Compared in place, the rebuilt rows are nearer to the training rows than the usual "
        "values{of_each_class} are, by at least {least:share}. They are also nearer to them "
        "than to other people{of_class}. Chance explains it in at most {chance} of cases, "
        "over people.",
    ),
    "perhaps": Kind(
        "rule_perhaps",
        "The rebuilt rows are nearer to the training rows than baselines without the counts "
        "of leaves; chance explains it in at most {chance} of cases. They are no nearer "
        "than baselines that know the population.",
    ),
    "in place, perhaps": Kind(
        "rule_perhaps_in_place",
        "Compared in place, the rebuilt rows are nearer to their own person than to other "
        "people{of_class}; chance explains it in at most {chance} of cases. They are not "
        "clearly nearer than the usual values{of_class}.",
    ),
    "nothing": Kind(
        "rule_nothing_shown",
        "The attack ended and proved no unique row. It came no nearer to the training rows "
        "than baselines without the counts of leaves, or than to control rows.",
    ),
}

# ----------------------------------------------------------- reconstruction: without comparison

COMPARE = Kind(
    "compare",
    "Only a comparison with the training rows shows how many are right (--train).",
)
NOT_COMPARED = Kind(
    "not_compared",
    "How many are right is not known: the comparison with the training rows was not assessed.",
)
NOTHING_PROVED = Kind(
    "nothing_proved", "The schema does not allow the training rows, so nothing is proved."
)
LIKELY = Kind(
    "rows_likely",
    "The attack rebuilt {rows:people} rows. They are probabilistic: it proves "
    "none.{expects:message} {compare:message}",
)
EXPECTS = Kind(
    "error_expected", " Expected error (the attack's own estimate): {wrong:share1} of their values."
)
FOLLOWED = Kind(
    "rows_followed",
    "The attack followed {rows:people} rows with their classes through all {trees:number} trees. "
    "The sums of every node fit these rows to the last digits.{expects:message} {compare:message}",
)
FEASIBLE_OPEN = Kind(
    "rows_fit_unproved",
    "The attack found {rows:people} rows that fit every count. It could not prove that no others "
    "fit, because there are too many possible values to try. {compare:message}",
)
FEASIBLE = Kind(
    "rows_fit_not_alone",
    "The attack found {rows:people} rows that fit every count, but others may fit, too. No "
    "unique row is proved on the values that the model's splits distinguish.",
)
BETWEEN = Kind(
    "rows_between_datasets",
    "The attack rebuilt {rows:people} rows. Several datasets fit every count; these rows lie "
    "between them. No unique row is proved on the values that the model's splits distinguish.",
)
FEASIBLE_RULE = Kind("rule_nothing_proved", "The attack ended, and proved no unique row.")
STOPPED_EARLY = Kind("stopped_before_rows", "{stopped} before any row was rebuilt.")
FIRST_TREES = Kind(
    "first_trees_followed",
    "The attack followed {rows:people} rows through the first {trees:number} trees; the sums of "
    "the next ones leave too many choices.",
)
STOPPED_UNSETTLED = Kind(
    "stopped_unsettled",
    "{stopped}. Not converged: the search for {rows:people} probabilistic rows was still "
    "moving{more}.{expects:message}",
)
STOPPED_MISSING = Kind(
    "stopped_with_misfit",
    "{stopped}. Not converged: {rows:people} rows with a count residual of {misfit}{more}."
    "{expects:message}",
)
STOPPED_SUMS = Kind(
    "stopped_with_sums",
    "{stopped}. Not converged: {rows:people} rows that meet every count, but not every sum in the "
    "leaves{more}.{expects:message}",
)
PACE = Kind("pace", "At this pace, it would take about {time}.")
NO_PACE = Kind("no_pace", "At this pace, more time would not help.")

# ---------------------------------------------------------------------------------------- draws

DRAWS_HIDDEN = Kind(
    "draws_hidden",
    "It is not known which rows each tree drew: the rows are probabilistic, over all draws.",
)
DRAWS_KNOWN = Kind("draws_known", "The bootstrap samples are known from: {draws}.")
NEVER_DRAWN = Kind(
    "rows_never_drawn",
    "No tree drew {never:people} of the rows: the model holds no evidence about them.",
)

# -------------------------------------------------------------------------------- not assessed

OTHERS_OPEN = own_words(
    "the file holds fitted tree models that no attack looked at", "other_models_open"
)
VALUES_OPEN = own_words(
    "the file lists values of single training rows, and no attack looked at them", "values_open"
)

OTHER_ROWS = own_words(
    "The rows given are not the model's training rows, so nothing was compared with them.",
    "other_rows",
)
HOLDS_MORE = own_words(
    "the attack used counts alone, or counts and sums of targets; the file holds more "
    "evidence, which it did not use",
    "run_holds_more",
)
LEFT_OPEN = own_words(
    "other rows may fit this part of the file as well; the attack did not use the rest of it",
    "run_left_open",
)
NOT_BUILT = own_words(
    "these are rules: treeleak rebuilds no single rows from them, and reports below what "
    "they disclose about each row",
    "run_not_built",
)
NOT_RUN = Kind(
    "no_attack_run",
    "No attack was run: {why:foreign}. Inconclusive: this neither shows nor rules out a leak.",
)
IN_ONE_WAY = Kind("status", "{meaning}")
NOT_BOUNDED = Kind("cost_not_bounded", "nothing bounds its cost: {why:foreign}")
NOTHING_COMPARED = Kind("nothing_to_compare", "{why}")
NO_CONTROL = Kind("no_control", "no rows of the population were given (control, --control)")
VALUES_GIVEN = Kind(
    "values_given",
    "you gave some values, so the rebuilt rows are nearer to the training rows than to any others",
)
NO_RANGE = Kind(
    "no_bounds",
    "a range without bounds has no measurable residual uncertainty ({columns:quoted}): "
    "give a schema with bounds, or the training rows",
)
COUNTS_MISSING = Kind(
    "counts_missing",
    "{who} how many training rows {what}: give the training rows and their labels (in Python X and "
    "y, else --train and --label)",
)
MODEL_COUNTS_NO = Kind("no_counts", "{why}")
UNUSED = Kind("unused_for_rules", "the audit of rules does not use {what}")

# --------------------------------------------------------------------------------------- notes

HELD_BACK_FITTED = Kind(
    "held_back_not_found", "early stopping held rows back, and not all were fitted: {why:foreign}"
)
HELD_BACK = Kind(
    "held_back",
    "Early stopping held {held:people} of the {rows:people} rows back, as the seed in the "
    "file shows. The comparison covers the others.",
)
OTHER_NUMBER = Kind(
    "other_number_of_rows",
    "The attack rebuilt {rebuilt:people} rows; there are {rows:people} training rows. To "
    "compare them, some rows chosen at random were {done}. {hint}",
)
CONTROL_TOO_FEW = Kind(
    "control_too_few",
    "{control:people} control rows are too few to test {rows:people} training rows against: the "
    "verdict does not rest on them. Give {needed:number} or more, better {better:number}.",
)
DISTANCE_OPEN = Kind(
    "distance_not_found_out",
    "The distance from the training rows to the tables that the counts allow is not known: "
    "{why:foreign}.",
)
STEPS = Kind(
    "numbers_in_steps",
    "Columns of numbers count as {steps:number} steps of their range each: {columns:columns}.",
)
