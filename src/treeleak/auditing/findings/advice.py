"""What to change, chosen by what an audit found: one text for each kind of change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from treeleak.auditing.assessors.comparison import test_of
from treeleak.auditing.findings.finding import LEAK, POSSIBLE, more_time_helps
from treeleak.core.clock import TIME_UP
from treeleak.core.private import dataclass
from treeleak.formats.literals import Verdict
from treeleak.release.registry import INSIDE_OTHER

if TYPE_CHECKING:
    from treeleak.auditing.case import AuditResults

HARDEN = (
    "Remove from the file what predictions do not need: counts, impurities or gains, seeds, "
    "values of inner nodes, arrays with one entry per row. The command treeleak harden "
    "MODEL --out FILE does this. Predictions stay the same, and the command attacks the "
    "rest."
)
_HARDENED = ("scikit-learn", "xgboost", "lightgbm", "catboost")
"""Libraries whose files `treeleak harden` changes."""
_DONE, _DONE_BY_HARDEN = " treeleak harden does this.", ("per_row", "unknown")

LEAF_VALUES = (
    " But leaf values have to stay, and they can be enough: for a default XGBClassifier, "
    "all rows of the COMPAS table came back from leaf values alone (docs/harden.md)."
)


DIFFERENCES = (
    " That alone does not prevent that differences of nested nodes of different trees isolate "
    "people, as here."
)


GUESSED, ACCURACY = 22, (59.4, 65.7)
"""Percent of these rows that come back without any count, and of other people whose class the
unchanged forests predict."""


@dataclass(frozen=True)
class Saved:
    """What a change saved where it was measured, on default forests: docs/defences.md has rows."""

    measure: str
    """The row of the table."""
    few: int
    many: int
    """Percent of 100 and of 1,000 training rows that still came back exactly."""
    how: str = ""
    """What was changed besides, or how far."""
    accuracy: tuple[float, float] = ACCURACY
    """Percent of other people whose class the changed forests predict."""

    def __str__(self) -> str:
        left = f"{self.few}% and {self.many}% of the rows still came back"
        if (self.few, self.many) == (100, 100):
            left = "it saved nothing, all rows still came back"
        else:
            left += f" (of a guess without any count, {GUESSED}%)"
        if self.accuracy != ACCURACY:
            now, before = (f"{few:g}% and {many:g}%" for few, many in (self.accuracy, ACCURACY))
            left += f", with an accuracy of {now} (before: {before})"
        how = f"{self.how}, " if self.how else ""
        return (
            " Measured on default forests of 100 and of 1,000 people, where all rows came "
            f"back before: {how}{left}. Other data give other figures (docs/defences.md)."
        )


SAVED: Mapping[str, Saved] = {
    "seeds": Saved("seeds deleted, but it was `random_state=0`", 100, 100, "with a small seed"),
    "leaves": Saved("at least 10 rows in a leaf", 89, 97, accuracy=(64.2, 67.0)),
    "fewer": Saved(
        "… and depth 3, 10 trees", 51, 43,
        "with 10 trees of depth 3, without seeds and numbers of rows in nodes", (58.3, 65.8),
    ),
    "noise": Saved(
        "noise, ε = 1", 53, 79, "with epsilon = 1 and 10 trees of depth 4", (53.2, 65.2)
    ),
}  # fmt: skip
"""For each key of the advice that was measured."""

HARDENING = (88, 34)
"""Percent of 100 rows that still came back from a hardened forest: as it is, and with ten rows in a
leaf (the last line of the steps in docs/harden.md)."""
OF_HARDENING = (
    " Measured on a default forest of 100 people, where all rows came back before: "
    f"{HARDENING[0]}% still did, and {HARDENING[1]}% if each leaf also held ten rows. "
    "Other data give other figures (docs/harden.md)."
)

MORE_CONTROL = (
    "Give more rows of the same population that the model was not trained on: {needed:,} or more, "
    "better {better:,}. With fewer, nothing separates what the model discloses about single people "
    "from what it learned about everyone."
)
_CHANGES: Mapping[str, str] = {
    "control": "Give rows of the same population that the model was not trained on (--control, ten "
    "times as many as training rows). They separate what the model discloses about single "
    "people from what it learned about everyone.",
    "time": "Give the attack more time (--time-limit): it ended before it found rows that fit the "
    "model.",
    "unknown": "Remove the parts that no rule knows, or find out what they hold: training rows may "
    "be there.",
    "other models": "Remove the fitted models that no attack looked at, or audit each by itself: "
    "save it (for a step of a pipeline, skops.io.dump(model.steps[0][1].estimator_, "
    "'inner.skops'); for a search, its best_estimator_), and run treeleak audit inner.skops. Of a "
    "selection of columns, predictions need the chosen columns only.",
    "rows": "Do not release the part that stores the training table. Use one that keeps summaries "
    "only. A model that predicts from the rows themselves (nearest neighbours, a quantile forest) "
    "cannot do without: do not publish it.",
    "noise seeds": "Train again without a seed, and delete every seed from the released file. "
    "With a seed, anyone can draw the noise again and subtract it. A search finds small seeds.",
    "per_row": "Delete arrays with one entry per training row (weights, out-of-bag predictions) "
    "before release.",
    "event times": "Keep event times out of the file: fit a survival forest with low_memory=True "
    "and larger leaves (min_samples_leaf), which still ranks people by risk, and delete the lists "
    "of times. Curves in nodes disclose when each person had an event.",
    "counts": "Release fewer counts: to predict, a tree needs its splits and the answer of each "
    "leaf. Counts in nodes, impurities and exact class shares are not needed.",
    "rule counts": "Publish the rules without counts. To predict, a rule needs its conditions "
    "and its answer. If readers need its support, round it.",
    "rules": "Publish fewer and shorter rules that each capture more rows (a smallest support of "
    "10 or more, a smaller width).",
    "leaves": "Grow larger leaves (min_samples_leaf=10 or more).",
    "fewer": "Grow fewer and shallower trees (max_depth, n_estimators).",
    "values": "Round, bin or merge rare values before training, so that thresholds, categories "
    "and extremes belong to many rows.",
    "categories": "Merge rare categories before training: CatBoost counts the rows of each, by "
    "class. With max_ctr_complexity=1 it counts no combinations, and with one_hot_max_size at the "
    "number of categories or above, no rows of any. Priors change no count.",
    "noise": "Train with differential privacy, at an epsilon near 1. Of all changes here, only "
    "this one also bounds unknown attacks. With a few hundred rows, the model may then predict no "
    "better than the most common class.",
    "law": "Use discrete Laplace noise, as treeleak.learn.DPForestClassifier does: it costs what "
    "it states. The noise of this model costs more, or has no bound.",
    "epsilon": "Spend a smaller epsilon. At 1 a row changes no probability by more than a factor "
    "of 3, at 5 already by 148.",
    "trees": "Grow fewer and shallower trees. Each tree discloses more about a row, and over many "
    "trees the noise averages out.",
    "seeds": "Delete all seeds from the released file: that of the forest and those of the trees "
    "(scikit-learn stores one per tree even if you gave none). That alone is not enough: a "
    "search finds small seeds of the forest, such as 0 or 42. So train with "
    "random_state=None, or with a large seed that you keep secret. Also delete "
    "n_node_samples, which confirms the right seed.",
    "hidden": "Do not rely on hidden draws. The counts in the leaves are enough without them, so "
    "deleting seeds alone does not help.",
}
"""In the order in which they are told. What saves little comes last."""


_CONVERTED = "Grow larger leaves (in scikit-learn, min_samples_leaf=10 or more), and convert again."


def of_the_audit(text: str) -> bool:
    """Whether an advice is about the audit, not about the model."""
    return text.startswith(("Give the attack", "Give rows", "Give more rows"))


_CALLED: Mapping[str, Mapping[str, str]] = {
    "leaves": {
        "xgboost": "Grow larger leaves (a larger min_child_weight).",
        "lightgbm": "Grow larger leaves (a larger min_child_samples; its default is 20).",
        "ydf": "Grow larger leaves (min_examples=10 or more).",
        "interpret": "Use fewer bins (max_bins) and no pairs of columns (interactions=0), so that "
        "each bin holds 10 rows or more.",
        "catboost": "Grow larger leaves (a smaller depth, or another grow_policy with "
        "min_data_in_leaf=10 or more).",
        "onnx": _CONVERTED,
        "pmml": _CONVERTED,
        "weka": "Grow larger leaves (-M 10 or more).",
    },
    "fewer": {
        "ydf": "Grow fewer and shallower trees (max_depth, num_trees).",
        "interpret": "Use fewer columns: each has its counts.",
        "weka": "Prune more (a smaller -C).",
    },
    "counts": {
        "interpret": 'Write the model with to_json(file, detail="minimal"), without the counts of '
        "bins: predictions need cuts and scores only.",
    },
}
"""How libraries call what :data:`_CHANGES` calls as scikit-learn does."""


_SEEDS: Mapping[str, str] = {
    "xgboost": "Do not rely on drawing rows (subsample): treeleak repeats the draws. XGBoost takes "
    "the seed 0 if you give none, and files without a seed disclose small ones. A large seed "
    "(random_state) that you keep secret hides which rows each tree drew, not how many.",
    "ydf": "Train with a large random_seed that you keep secret: who sets none has 123456, and "
    "treeleak repeats the draws of trees.",
    "lightgbm": "Do not rely on drawing rows (bagging_fraction): treeleak repeats the draws. "
    "Delete the parameters from the released file, which hold the seed (treeleak harden does), and "
    "train with a large bagging_seed that you keep secret.",
}
"""What is said of seeds where each library draws in its own way."""


def advise(found: AuditResults, verdict: Verdict) -> tuple[str, ...]:
    """Choose what to change, by what was found; the most pressing first."""
    inventory, counts, budget = found.inventory, found.counts, found.budget
    reconstruction, measurement = found.reconstruction, found.measurement
    wanted = {e.change for e in inventory if e.mark == "leaks"}
    chosen = {str(key) for key in wanted if key}
    if reconstruction is not None and reconstruction.draws is not None:
        chosen.add("seeds")
    if reconstruction is not None and reconstruction.draws_hidden:
        chosen.add("hidden")
    if counts is not None and counts.total["small"]:
        chosen |= {counts.of} | ({"fewer"} if counts.of == "leaves" else set())
    if budget is not None and budget.noisy and (budget.overspent or budget.cost is None):
        chosen.add("law")
    if found.others:
        chosen.add("other models")
    if any(e.unknown for e in inventory):
        chosen.add("unknown")
    late = getattr(found.reason("reconstruction"), "code", "") == TIME_UP.code
    if late or (reconstruction is not None and more_time_helps(reconstruction)):
        chosen.add("time")
    if verdict == POSSIBLE and measurement is not None and test_of(measurement) is None:
        chosen.add("control")
    if verdict in (LEAK, POSSIBLE):
        chosen |= {"noise"} if budget is None or not budget.noisy else {"epsilon", "trees"}
    if not chosen:
        return ("No assessed part calls for a change. A part that was not assessed may.",)
    again = "Then audit the changed file again: each change alone may not be enough."
    return (*(_text(key, found) for key in _CHANGES if key in chosen), again)


def _text(key: str, found: AuditResults) -> str:
    """Say what to change, and what that saved where it was measured."""
    text, release = _CHANGES[key], found.release
    test = None if found.measurement is None else found.measurement.significance
    if key == "control" and test is not None:
        return MORE_CONTROL.format(needed=test.needed, better=test.better)
    origin = "" if release is None else release.origin.lower()
    was_hardened = origin.startswith(_HARDENED)
    if was_hardened:
        text = HARDEN if key == "counts" else text + _DONE * (key in _DONE_BY_HARDEN)
    if release is None:
        return text
    inside = any(getattr(note, "code", "") == INSIDE_OTHER.code for note in release.notes)
    if (of_r := advice_for_r(key, release.origin, inside)) is not None:
        return of_r
    texts = _SEEDS if key == "seeds" else _CALLED.get(key, {})
    text = _of_library(texts, release.origin) or text
    if key == "leaves" and found.isolation is not None and found.isolation.by_difference:
        text += DIFFERENCES
    if release.ensemble is not None:
        return text + LEAF_VALUES * (text is HARDEN)
    if "RandomForestClassifier" not in release.origin or release.noise is not None:
        return text
    return text + (OF_HARDENING if text is HARDEN else str(SAVED.get(key, "")))


def _of_library(texts: Mapping[str, str], origin: str) -> str | None:
    """Choose what is said of models of one library."""
    return next((text for of, text in texts.items() if origin.lower().startswith(of)), None)


# ---------------------------------------------------------------------------- models of R

_SAME = " Predictions stay the same (predict(m, new)). Then save again: saveRDS(m, file)."
_TAKE_OUT = (
    "First take the model m out of the list l around it (m <- l[[k]]; of caret's train, m <- "
    "l$finalModel): these lines would delete it from the list. "
)
_SAME_INSIDE = (
    " Put it back (l[[k]] <- m). Predictions stay the same. Then save again: saveRDS(l, file)."
)
_ENVIRONMENT = (
    ' A formula may carry an environment with rows: attr(m$terms, ".Environment") <- globalenv().'
)
_PER_ROW: Mapping[str, str] = {
    "ranger": "m$predictions <- m$inbag.counts <- m$confusion.matrix <- NULL "
    "(or train with keep.inbag = FALSE).",
    "randomforest": "m$y <- m$predicted <- m$votes <- m$oob.times <- m$inbag <- m$proximity <- "
    "m$localImportance <- m$err.rate <- m$mse <- m$rsq <- m$confusion <- NULL.",
    "rpart": "m$where <- m$y <- m$x <- m$model <- NULL.",
}
_COUNTS: Mapping[str, str] = {
    "rpart": 'm$frame[, c("wt", "dev", "complexity")] <- 0; m$splits[, c("count", "improve", '
    '"adj")] <- 0; m$cptable <- m$variable.importance <- NULL; of classes also '
    'k <- seq_along(attr(m, "ylevels")); m$frame$yval2[, 1 + k] <- 0; '
    'm$frame$yval2[, "nodeprob"] <- 0; and, if no value to predict from is missing, '
    "m$frame$n <- 0.",
    "randomforest": "m$importance[] <- 0.",
    "ranger": "m$variable.importance <- NULL.",
}
_LARGER: Mapping[str, str] = {
    "ranger": "min.node.size", "randomforest": "nodesize", "rpart": "minbucket",
}  # fmt: skip
_FEWER: Mapping[str, str] = {
    "ranger": "max.depth, num.trees", "randomforest": "maxnodes, ntree", "rpart": "maxdepth",
}  # fmt: skip
_DRAWS = (
    "Do not keep the draws (keep.inbag = FALSE): with them, leaves and out-of-bag predictions are "
    "about rows with known numbers. Delete them: m$inbag.counts <- m$inbag <- NULL."
)


def advice_for_r(key: str, origin: str, inside: bool = False) -> str | None:
    """Give the text of an advice for a model of R; None where the usual one holds.

    ``origin``: as the release says it, the library first. ``inside``: whether the model stands in a
    list.
    """
    library, _, rest = origin.partition(" ")
    library = library.lower()
    if not rest.startswith("(R)") or library not in _PER_ROW:
        return None
    codes = {
        "per_row": ("Delete what has one entry per training row", _PER_ROW.get(library)),
        "rows": ("Delete the training table", f"{_PER_ROW[library]}{_ENVIRONMENT}"),
        "counts": ("Delete numbers that predictions do not need", _COUNTS.get(library)),
    }
    what, code = codes.get(key, ("", None))
    if code is not None:
        before, after = (_TAKE_OUT, _SAME_INSIDE) if inside else ("", _SAME)
        return f"{what}, in R. {before}{code}{after}"
    if key == "leaves":
        return f"Grow larger leaves ({_LARGER[library]} = 10 or more)."
    if key in ("fewer", "trees"):
        return f"Grow fewer and shallower trees ({_FEWER[library]})."
    if key == "seeds":
        return _DRAWS
    if key == "other models":
        return (
            "Remove the fitted models that no attack looked at, or audit each by itself: "
            'saveRDS(l[["name"]], "inner.rds"), and run treeleak audit inner.rds.'
        )
    return None
