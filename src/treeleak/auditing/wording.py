"""The words of every finding, each under its code; who judges chooses a code and gives values."""

from __future__ import annotations

from collections.abc import Mapping

from treeleak.core.message import MessageTemplate, static_message

# ----------------------------------------------------------------------------------- inventory

STORED = MessageTemplate(
    "rows_stored", "The file holds training rows, for anybody to read, in {where}."
)
LABELS_STORED = MessageTemplate(
    "labels_stored", "The file holds {what}, for anybody to read, in {where}."
)
ORDER_STORED = MessageTemplate(
    "values_in_order",
    "The file holds a value for each training row, in their order, in {where}. Whoever knows the "
    "order of the table can link it to a person.",
)
UNKNOWN_PARTS = MessageTemplate(
    "parts_unknown",
    "{parts:number} {of} known to no rule: training rows may be there, and this audit did "
    "not assess them ({where}).",
)
OTHER_MODELS = MessageTemplate(
    "models_not_attacked",
    "No attack came to an answer on {models:number} fitted tree {noun} in the file: {where}. "
    "Training rows may follow from {them}.",
)
PART_ATTACKED = MessageTemplate(
    "model_attacked_alone",
    "The {name} in {where}, attacked by itself: {verdict}.{found:message}",
)
PART_FOUND = MessageTemplate("model_attacked_found", " {found:message}")
PART_RULE = static_message(
    "A model in the file that was attacked by itself has this verdict.", "model_attacked_rule"
)
VALUES_OF_PEOPLE = MessageTemplate(
    "values_of_people",
    "{values:number} different values, of {rows:people} training rows, stand in {where}: so many "
    "that values of single people may be among them. This audit did not assess them.",
)
IDENTIFIER = MessageTemplate(
    "identifier",
    "{column:quoted} holds a different value for {share} of the {rows:people} rows: it is an "
    "identifier, and the file lists its values.",
)
MATERIAL_FOR_ATTACKS = MessageTemplate(
    "attack_material", "The model holds material for attacks: {kinds}."
)
LEAST_COUNT = MessageTemplate(
    "least_count_stated",
    "The folder says that numbers below {least:number} may not be shown: leaves of fewer rows "
    "count as small.",
)
STORED_RULE = MessageTemplate(
    "rule_rows_stored", "The file holds training rows, or values of each in their order."
)

# ---------------------------------------------------------------------------------- membership

MEMBERS_DIRECT = MessageTemplate(
    "members_direct",
    "The model's own predictions tell training rows from control rows: shown one of each, an "
    "adversary picks the training row in {auc:share} of cases ({low:share} to {high:share}; half "
    "by chance).",
)
MEMBERS_TOLD = MessageTemplate(
    "members_told",
    "Models trained in the same way on {rows:people} of the training rows tell who was among them: "
    "shown one person who was and one who was not, an adversary picks the right one in "
    "{auc:share} of cases ({low:share} to {high:share}; {models:number} models; half by "
    "chance).",
)
MEMBERS_CAUGHT = MessageTemplate(
    "members_caught", "At 1% false positives, {share:share1} of the people are recognised."
)
MEMBERS_OF_SMALLER = MessageTemplate(
    "members_of_smaller",
    "These models are so much smaller that this says nothing of the model itself: give more time "
    "(--time-limit).",
)
ROWS_OPEN = static_message(
    "Membership alone decided: what the rebuilt rows disclose is not settled.", "rows_open"
)
MEMBERS_ALONE = static_message("Membership was assessed, and showed no leak.", "members_alone")
MEMBERS_AT_FULL_SIZE = MessageTemplate(
    "members_at_full_size",
    "For all rows, the figures of smaller models lead to {low:share} or more.",
)
MEMBERS_RULES: Mapping[str, MessageTemplate] = {
    "leak shown": MessageTemplate(
        "rule_members_told",
        "Of one member and one other person, the member is picked in at least {least:share} of "
        "cases, with a confidence of 95%.",
    ),
    "possible leak": MessageTemplate(
        "rule_members_perhaps",
        "It is not settled whether, of one member and one other person, the member is picked in "
        "{least:share} of cases.",
    ),
    "no leak shown by these attacks (this is no proof of safety)": MessageTemplate(
        "rule_members_not_told",
        "Of one member and one other person, the member is picked in fewer than {least:share} of "
        "cases, with a confidence of 95%.",
    ),
}

# -------------------------------------------------------------------------------------- counts

SMALL = MessageTemplate(
    "small_leaves",
    "{small:number} of {leaves:number} {of} hold fewer than {threshold:number} {unit}, and "
    "{single:number} of them hold a single one.",
)
ONE_CLASS = MessageTemplate(
    "leaves_of_one_class",
    "{leaves:number} {of} hold one class only. Anyone who knows that a person is there also "
    "knows the class.",
)
ISOLATED = MessageTemplate(
    "people_isolated",
    "Counts alone isolate {people:people} people{at_least}: of {predicates:number} predicates, the "
    "counts prove that exactly one of the {among} meets each. "
    "Predicates so light that luck would isolate a person in 5% of cases at most: {beyond:number}.",
)
DIFFERENCED = MessageTemplate(
    "isolated_by_differences",
    "Differences of nested nodes of different trees, which a least size of leaves does not "
    "prevent: {predicates:number}.",
)
FALSE_CLAIMS = MessageTemplate(
    "predicates_false",
    "But {wrong:number} predicates are false of the training rows. Rows had weights, or treeleak "
    "has an error: rely on none.",
)
SEVERAL_TARGETS = MessageTemplate(
    "several_targets",
    "The model has {targets:number} targets. Rows are rebuilt from the numbers of rows in its "
    "nodes; what leaves disclose of the targets is not assessed.",
)
TARGETS_TOLD = MessageTemplate(
    "targets_told",
    "{single:number} of {leaves:number} leaves hold a single training row. They predict the "
    "exact target of that person.",
)
OUTCOMES_TOLD = MessageTemplate(
    "targets_of_rows_told",
    "The file discloses the exact target of {exact:people} of {rows:people} training rows, such as "
    "an event time{order}.",
)
CENSORED_TOLD = MessageTemplate(
    "censored_rows_told",
    "Of {censored:people} others it discloses the status: they left without an event.",
)
OUTCOMES_RULE = MessageTemplate(
    "rule_targets_of_rows_told", "The file holds targets of single rows, or proves them."
)
NOISE = MessageTemplate("noise_budget", "{budget}")

# --------------------------------------------------------------------------------- uncertainty

NO_ROWS_COUNTED = MessageTemplate("no_rows_counted", "The model counts no rows at all.")
LEFT = MessageTemplate(
    "left_to_know",
    "The residual uncertainty (entropy) of a row is {left:share} on average.",
)
LEFT_IN_FULL = MessageTemplate(
    "left_to_know",
    "The residual uncertainty (entropy) of a row is {left:share} on average, and "
    "{left_least:share} for {least:people} of {rows:people} rows: {leaf:place} "
    "({where:place}){more}.",
)
FILLED = MessageTemplate(
    "counts_filled_in",
    "The model counts no rows. The residual uncertainty is for an adversary who has the "
    "counts of the training rows.",
)
NOTHING_SURE = MessageTemplate(
    "nothing_sure", "The schema does not allow the training rows, so nothing here is certain."
)
ALL_TOLD = MessageTemplate(
    "all_rows_told", "The model discloses every value of all {rows:people} training rows."
)
SOME_TOLD = MessageTemplate(
    "rows_told_alone",
    "The model discloses every value of {told:people} rows whose rule holds fewer than "
    "{threshold:number} rows.",
)
ALL_TOLD_RULE = MessageTemplate("rule_all_rows_told", "No row has any residual uncertainty.")
SOME_TOLD_RULE = MessageTemplate(
    "rule_rows_told_alone",
    "Some rows that share a rule with fewer than {threshold:number} have no residual uncertainty.",
)
LEFT_RULE = MessageTemplate(
    "rule_left_to_know",
    "Every row that shares its rule with few others has some residual uncertainty.",
)

# --------------------------------------------------------------------------- reconstruction: proofs

CONTRADICTION = MessageTemplate("no_rows_fit", "No rows fit {known}{why:message}.")
WHY = MessageTemplate("why", ": {why:foreign}")
ALL_GIVEN = MessageTemplate(
    "all_rows_given", "All {rows:people} rows were given, so nothing was left to rebuild."
)
UNFINISHED = MessageTemplate("unfinished", "But the audit is not complete: {why:message}.")
UNIQUE = MessageTemplate(
    "rows_unique",
    "All {rows:people} training rows{not_given} were rebuilt{order}: no other rows fit {known}.",
)
UNIQUE_RULE = MessageTemplate("rule_rows_unique", "The file proves all rows.")
ALIKE = MessageTemplate(
    "rows_alike",
    "Each of them equals at least {others:number} others, so this is a statistic about many "
    "people.",
)
ALONE = MessageTemplate(
    "rows_proved_alone",
    "{alone:people} of {rows:people} rows are proved{under}, and unique{in_class} "
    "on every value that the model's splits distinguish{untested:message}.",
)
ALONE_NOT_RARE = MessageTemplate(
    "rows_alone_not_rare",
    "But their places are so large that luck alone may put one person there, and pin fewer than "
    "half of the columns: they are small cells, for a threshold to judge.",
)
ALONE_RULE = MessageTemplate(
    "rule_rows_proved_alone",
    "The file proves rows unique{in_class}.",
)
NUMBERED = MessageTemplate(
    "rows_proved_in_order",
    "{proved:people} of {rows:people} rows are proved{under}, each with its "
    "number. {alone:people} of them are unique among the rebuilt rows on every value that "
    "the model's splits distinguish{untested:message}.",
)
IF_WEIGHTS_WHOLE = static_message(
    "The file adds up weights of rows, so this holds if all weights were positive whole numbers. "
    "Give the number of rows (--n-rows) if no row had a weight.",
    "if_weights_whole",
)
NUMBERED_RULE = MessageTemplate(
    "rule_rows_proved_in_order",
    "The file proves rows, each with its number, and some are unique among the rebuilt rows.",
)
UNTESTED = MessageTemplate("columns_untested", " (no tree tests {columns:number} of the columns)")
TARGETS_STORED = MessageTemplate(
    "targets_stored",
    "Leaves store the targets of {told:people} of {rows:people} rebuilt rows. A leaf with "
    "one row, or with one target, stores it as it is; other leaves store sums that disclose "
    "it.",
)

# ------------------------------------------------------------------- reconstruction: comparison

ERROR = MessageTemplate(
    "error_of_values", "The mean distance of a rebuilt value from the true one is {error:share1}"
)
WRONG = MessageTemplate("values_wrong", "The reconstruction error is {wrong:share1} of the values")
WRONG_AND_OFF = MessageTemplate(
    "categories_wrong_and_numbers_off",
    "{wrong:share1} of the rebuilt categories are wrong; numbers are off by {off:sd} "
    "standard deviations on average, {exact:share1} of them exactly right and {near:share1} "
    "within 1% of their column's range",
)
OFF = MessageTemplate(
    "numbers_off",
    "The rebuilt numbers are off by {off:sd} standard deviations on average, {exact:share1} of "
    "them exactly right and {near:share1} within 1% of their column's range",
)
ERROR_SHORT = MessageTemplate("error_of_values", "an error of {error:share1}")
WRONG_SHORT = MessageTemplate("values_wrong", "{wrong:share1} error")
WRONG_AND_OFF_SHORT = MessageTemplate(
    "categories_wrong_and_numbers_off",
    "{wrong:share1} error; numbers off by {off:sd} standard deviations",
)
OFF_SHORT = MessageTemplate(
    "numbers_off", "off by {off:sd} standard deviations, {near:share1} within 1%"
)
COMPARED = MessageTemplate(
    "rows_compared",
    "{rows:share} of the training rows{not_given} were rebuilt {how}{order:message}"
    "{exactly:message}. {scores:message}{of_the_rest}.",
)
CAME_BACK = MessageTemplate(
    "rows_came_back", "{rows:share} of the training rows were rebuilt {how}{exactly:message}."
)
EXACTLY = MessageTemplate("rows_exactly", "; {rows:share} on all values{untested:message}")
IN_ORDER = MessageTemplate("in_order", ", {rows:share} in their own place")
TARGETS = MessageTemplate(
    "targets_rebuilt",
    "The target of {rows:share} of the training rows was rebuilt exactly.",
)
ON_TESTED = MessageTemplate(
    "on_tested_columns",
    "The model holds nothing of {left_out:number} of the {columns:number} columns. Without them: "
    "{scores:message}.",
)
STRONGEST = MessageTemplate(
    "strongest_yardstick", "The strongest baseline is {yardstick}: {scores:message}."
)
THESE_ROWS = MessageTemplate(
    "other_draws",
    "{near:number} of {draws:number} control samples of the population are as near: the excess "
    "is attributable to the model.",
)
AS_NEAR = MessageTemplate(
    "other_draws", "{near:number} of {draws:number} control samples of the population are as near."
)
POPULATION_TOO = MessageTemplate(
    "other_draws",
    "{near:number} of {draws:number} control samples of the population are as near: the "
    "rebuilt rows may show the population, not the training rows.",
)
IN_PLACES = MessageTemplate(
    "rows_in_places",
    "Compared in place, the mean distance of a value from the true one is {error:share1}. Against "
    "other people{of_class} it is {others:share1}, and against {usual_of} usual values "
    "{usual:share1}{little}.",
)
BASELINES_OPEN = MessageTemplate(
    "baselines_not_tried",
    "No baseline was tried, so it is not known what of this is due to the model.",
)
SHAPE_OPEN = MessageTemplate(
    "shape_not_found_out",
    "The baseline from the shape of the trees is missing: it was interrupted.",
)
MAYBE_TOO_FEW = MessageTemplate(
    "perhaps_of_all_few_control",
    "This beats baselines without the counts of leaves, but not an adversary who knows the "
    "population. It may be what the model learned about everyone. The {control:people} control "
    "rows are too few to decide this: give {needed:number} or more (--control), better "
    "{better:number}.",
)
MAYBE_POPULATION = MessageTemplate(
    "perhaps_population",
    "The rebuilt rows are nearer to the training rows than to the control. But an adversary "
    "who knows the population comes as near: sums over many rows may explain this.",
)
MAYBE = MessageTemplate(
    "perhaps_of_all",
    "This beats baselines without the counts of leaves, but not an adversary who knows the "
    "population. It may be what the model learned about everyone. Control rows (--control) "
    "can decide this.",
)
NO_BETTER = MessageTemplate("no_better_than_guess", "This is not clearly better than a baseline.")
BETTER_ROWS = MessageTemplate(
    "better_rows_exist",
    "But an attack can do better. In the training rows, each threshold lies halfway between two "
    "values. In the rebuilt rows, {met:share} do, and leaves hold single people.",
)
IMPOSSIBLE = MessageTemplate("rows_impossible", "But the schema does not allow all training rows.")
NOT_GUESSED = MessageTemplate(
    "rows_not_guessed",
    "But training rows have values that the thresholds do not suggest: give a schema.",
)
NARROWER = MessageTemplate(
    "narrower_domains",
    "But the training rows leave out values that the {of} allows, so an adversary who knows the "
    "columns may get further: give a {narrower}schema.",
)
FEW_TO_TEST = MessageTemplate("too_few_to_test", "A test needs at least {people:number} people.")
VARIANT = MessageTemplate(
    "with_less_to_go_by",
    "{what}: {scores:within}; {rows:share} of the training rows were rebuilt exactly.",
)
RULES: Mapping[str, MessageTemplate] = {
    "sums met": MessageTemplate(
        "rule_sums_met",
        "Rows meet the sums of all leaves to the last digits, and some places hold few of them. "
        "None of them is proved to be unique.",
    ),
    "followed": MessageTemplate(
        "rule_followed",
        "Rows meet the sums of all nodes of all trees to the last digits. None of them is proved.",
    ),
    "values": MessageTemplate(
        "rule_values_nearer",
        "The values of the rebuilt rows are nearer to the training rows than those of every "
        "baseline. The margin is at least {least:share} of the error of each baseline that "
        "knows the population. Chance explains it in at most {chance} of cases, over people.",
    ),
    "rows": MessageTemplate(
        "rule_more_rows",
        "The attack rebuilds more training rows exactly than any baseline. Chance explains "
        "it in at most {chance} of cases, over people.",
    ),
    "places": MessageTemplate(
        "rule_nearer_in_place",
        "Compared in place, the rebuilt rows are nearer to the training rows than the usual "
        "values{of_each_class} are, by at least {least:share}. They are also nearer to them "
        "than to other people{of_class}. Chance explains it in at most {chance} of cases, "
        "over people.",
    ),
    "perhaps": MessageTemplate(
        "rule_perhaps",
        "The rebuilt rows are nearer to the training rows than baselines without the counts "
        "of leaves; chance explains it in at most {chance} of cases. They are no nearer "
        "than baselines that know the population.",
    ),
    "in place, perhaps": MessageTemplate(
        "rule_perhaps_in_place",
        "Compared in place, the rebuilt rows are nearer to their own person than to other "
        "people{of_class}; chance explains it in at most {chance} of cases. They are not "
        "clearly nearer than the usual values{of_class}.",
    ),
    "better": MessageTemplate(
        "rule_better_rows",
        "The rebuilt rows meet all counts, and came no nearer to the training rows than baselines. "
        "But they are not the training rows, and thresholds say more about these.",
    ),
    "nothing": MessageTemplate(
        "rule_nothing_shown",
        "The attack ended and proved no unique row. It came no nearer to the training rows "
        "than baselines without the counts of leaves, or than to control rows.",
    ),
}

# ----------------------------------------------------------- reconstruction: without comparison

COMPARE = MessageTemplate(
    "compare",
    "Only a comparison with the training rows shows how many are right (--train).",
)
NOT_COMPARED = MessageTemplate(
    "not_compared",
    "How many are right is not known: the comparison with the training rows was not assessed.",
)
NOTHING_PROVED = MessageTemplate(
    "nothing_proved", "The schema does not allow the training rows, so nothing is proved."
)
LIKELY = MessageTemplate(
    "rows_likely",
    "The attack rebuilt {rows:people} rows. They are probabilistic: it proves "
    "none.{expects:message} {compare:message}",
)
EXPECTS = MessageTemplate(
    "error_expected", " Expected error (the attack's own estimate): {wrong:share1}."
)
FOLLOWED = MessageTemplate(
    "rows_followed",
    "The attack followed {rows:people} rows with their classes through all {trees:number} trees. "
    "The sums of every node fit these rows to the last digits.{expects:message} {compare:message}",
)
SUMS_MET = MessageTemplate(
    "rows_meet_sums",
    "The attack found {rows:people} rows with their classes that meet the sums of all leaves to "
    "the last digits. It is sure of {sure:share} of them, with 90% or more in every value that a "
    "tree tests, but proves none to be unique. {compare:message}",
)
WEIGHTS_DECIDE = static_message(
    "With the number of rows (--n-rows), the attack may prove them: the file adds up weights of "
    "rows, and does not say whether there were any.",
    "weights_decide",
)
FEASIBLE_OPEN = MessageTemplate(
    "rows_fit_unproved",
    "The attack found {rows:people} rows that fit every count. It could not prove that no others "
    "fit, because there are too many possible values to try. {compare:message}",
)
FEASIBLE = MessageTemplate(
    "rows_fit_not_alone",
    "The attack found {rows:people} rows that fit every count, but others may fit, too. No "
    "unique row is proved on the values that the model's splits distinguish.",
)
BETWEEN = MessageTemplate(
    "rows_between_datasets",
    "The attack rebuilt {rows:people} rows. Several datasets fit every count; these rows lie "
    "between them. No unique row is proved on the values that the model's splits distinguish.",
)
FEASIBLE_RULE = MessageTemplate(
    "rule_nothing_proved", "The attack ended, and proved no unique row."
)
STOPPED_EARLY = MessageTemplate("stopped_before_rows", "{stopped} before any row was rebuilt.")
FIRST_TREES = MessageTemplate(
    "first_trees_followed",
    "The attack followed {rows:people} rows through the first {trees:number} trees; the sums of "
    "the next ones leave too many choices.",
)
STOPPED_UNSETTLED = MessageTemplate(
    "stopped_unsettled",
    "{stopped}. Not converged: the search for {rows:people} probabilistic rows was still "
    "moving{more}.{expects:message}",
)
STOPPED_MISSING = MessageTemplate(
    "stopped_with_misfit",
    "{stopped}. Not converged: {rows:people} rows with a count residual of {misfit}{more}."
    "{expects:message}",
)
STOPPED_SUMS = MessageTemplate(
    "stopped_with_sums",
    "{stopped}. Not converged: {rows:people} rows that meet every count, but not every sum in the "
    "leaves{more}.{expects:message}",
)
PACE = MessageTemplate("pace", "At this pace, it would take about {time}.")
NO_PACE = MessageTemplate("no_pace", "At this pace, more time would not help.")

# ---------------------------------------------------------------------------------------- draws

DRAWS_HIDDEN = MessageTemplate(
    "draws_hidden",
    "It is not known which rows each tree drew: the rows are probabilistic, over all draws.",
)
DRAWS_KNOWN = MessageTemplate("draws_known", "The bootstrap samples are known from: {draws}.")
NEVER_DRAWN = MessageTemplate(
    "rows_never_drawn",
    "No tree drew {never:people} of the rows: the model holds no evidence about them.",
)

# -------------------------------------------------------------------------------- not assessed

OTHERS_OPEN = static_message(
    "the file holds fitted tree models that no attack looked at", "other_models_open"
)
VALUES_OPEN = static_message(
    "the file lists values of single training rows, and no attack looked at them", "values_open"
)

OTHER_ROWS = static_message(
    "The rows given do not fit the model, so nothing was compared with them.",
    "other_rows",
)
HOLDS_MORE = static_message(
    "the attack used counts alone, or counts and sums of targets; the file holds more "
    "evidence, which it did not use",
    "run_holds_more",
)
LEFT_OPEN = static_message(
    "other rows may fit this part of the file as well; the attack did not use the rest of it",
    "run_left_open",
)
NOT_BUILT = static_message(
    "these are rules: treeleak rebuilds no single rows from them, and reports below what "
    "they disclose about each row",
    "run_not_built",
)
NOT_RUN = MessageTemplate(
    "no_attack_run",
    "No attack was run: {why:foreign}. Inconclusive: this neither shows nor rules out a leak.",
)
ROWS_NOT_RUN = MessageTemplate("rows_not_assessed", "Rows were not assessed: {why:foreign}.")
IN_ONE_WAY = MessageTemplate("status", "{meaning}")
NOT_BOUNDED = MessageTemplate("cost_not_bounded", "nothing bounds its cost: {why:foreign}")
NOTHING_COMPARED = MessageTemplate("nothing_to_compare", "{why}")
NO_CONTROL = MessageTemplate(
    "no_control", "no rows of the population were given (control, --control)"
)
VALUES_GIVEN = MessageTemplate(
    "values_given",
    "you gave some values, so the rebuilt rows are nearer to the training rows than to any others",
)
NO_RANGE = MessageTemplate(
    "no_bounds",
    "a range without bounds has no measurable residual uncertainty ({columns:quoted}): "
    "give a schema with bounds, or the training rows",
)
COUNTS_MISSING = MessageTemplate(
    "counts_missing",
    "{who} how many training rows {what}: give the training rows and their labels (in Python X and "
    "y, else --train and --label)",
)
MODEL_COUNTS_NO = MessageTemplate("no_counts", "{why}")
UNUSED = MessageTemplate("unused_for_rules", "the audit of rules does not use {what}")

# --------------------------------------------------------------------------------------- notes

HELD_BACK_FITTED = MessageTemplate(
    "held_back_not_found", "early stopping held rows back, and not all were fitted: {why:foreign}"
)
HELD_BACK = MessageTemplate(
    "held_back",
    "Early stopping held {held:people} of the {rows:people} rows back, as the seed in the "
    "file shows. The comparison covers the others.",
)
OTHER_NUMBER = MessageTemplate(
    "other_number_of_rows",
    "The attack rebuilt {rebuilt:people} rows; there are {rows:people} training rows. To "
    "compare them, some rows chosen at random were {done}. {hint}",
)
CONTROL_TOO_FEW = MessageTemplate(
    "control_too_few",
    "{control:people} control rows are too few to test {rows:people} training rows against: the "
    "verdict does not rest on them. Give {needed:number} or more, better {better:number}.",
)
DISTANCE_OPEN = MessageTemplate(
    "distance_not_found_out",
    "The distance from the training rows to the tables that the counts allow is not known: "
    "{why:foreign}.",
)
STEPS = MessageTemplate(
    "numbers_in_steps",
    "Columns of numbers count as {steps:number} steps of their range each: {columns:columns}.",
)
