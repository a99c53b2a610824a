"""What fields of common classes of R hold: rules by name, for what numbers do not show."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from treeleak.auditing.inventory import forms, forms_of_r, rpart_shapes
from treeleak.auditing.inventory.conditions import Context, Rule
from treeleak.auditing.inventory.vectors_of_r import (
    columns_of,
    is_about,
    lines_of,
    texts_of,
    vector_of,
)
from treeleak.release.stored import StoredObject

TABLE_NAMES = "model data x X trainingData training template train train_data newdata mf orig.data"
ENTRY_NAMES = (
    "y Y residuals fitted.values fitted linear.predictors effects predicted predictions votes "
    "oob.times where weights prior.weights case.weights offset inbag inbag.counts pred fit resid "
    "rowIndex train.labels responses"
)
PER_ROW_NAMES = f"{ENTRY_NAMES} row.names names dimnames na.action codes status time"
COLUMN_NAMES = (
    "independent.variable.names xNames var.names coefnames variable variables xlevels predictors "
    "columns feature* term.labels dataClasses forest.independent.variable.names column xNames"
)
NAME_NAMES = (
    "names dimnames levels row.names xlevels classes class.values *names* levels var.names "
    "independent.variable.names forest.levels xNames coefnames variable response.name ylevels "
    "obsLevels lev term.labels class package"
)
_MOST = 10_000
_LINES = 20
"""Fewer lines sum up a model, more must be of trees or columns."""
_MANY = "More than a model has of them, unless they are of trees or columns: rows may stand there."
_FORESTS = "ranger ranger.forest randomForest* rfsrc* grf* *forest* *Forest* extraTrees"
_TREES = "rpart* gbm* party constparty *Tree* cforest* partynode"


def _is_frame(value: Any) -> bool:
    return isinstance(value, StoredObject) and value.type == "R.data.frame"


def _limited(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Say whether a value is as small as what sums up a model at most."""
    return _size(value) <= _MOST


def _size(value: Any) -> float:
    held = forms.pieces(value.state if isinstance(value, StoredObject) else value)
    if any(isinstance(a, bytes) for a in held.others):
        return inf
    return len(held.scalars) + sum(np.size(a) for a in held.others if isinstance(a, np.ndarray))


def _summary(value: Any, owner: StoredObject) -> bool:
    """Say whether there are few values, or one line for each tree or for each name of a column."""
    size, lines = _size(value), lines_of(value)
    if size <= forms.SHORT or (lines < _LINES and size <= _LINES**2):
        return True
    table = columns_of(value)
    if size <= _MOST and table is not None and table.kind != "frame" and texts_of(table.rows):
        return len(table.columns) <= max(forms.SHORT, table.lines)
    return size <= _MOST and 0 < lines == forms_of_r.n_trees(owner)


def _about(value: Any, context: Context) -> bool:
    """Say whether lines that have names, if there are many, have those of columns."""
    table = columns_of(value) if lines_of(value) >= _LINES else None
    named = table is not None and table.kind != "frame" and bool(texts_of(table.rows))
    return not named or table is None or is_about(table, context.columns)


# fmt: off
UNKNOWN = Rule("*", "not assessed", "unknown parts", "No rule knows this part. It may hold rows.",
    owner="R", unknown=True)
UNKNOWN_CODE = Rule("*", "not assessed", "code with data in it", "A function or a call of R that "
    "holds more than what is typed: rows may stand there.", owner="R", unknown=True)
ROWS = Rule(TABLE_NAMES, "leaks", "a table of rows", "R keeps here the table that the model was "
    "fitted to, or a part of the program left one: each line is a row.", owner="R", change="rows",
    rows=True)
PER_ROW = Rule(PER_ROW_NAMES, "leaks", "one entry for each training row", "R keeps here one "
    "number, label or name for each training row, in their order.", owner="R", change="per_row",
    in_order=True)
AS_MANY = Rule("*", "not assessed", "as many entries as training rows", "It may hold one value for "
    "every row. treeleak has no rule for it.", owner="R", change="per_row", unknown=True)
VALUES = Rule("levels", "leaks", "values that occur in the training rows", "A factor has a level "
    "for more than every second row: most of these belong to one person alone.", owner="R",
    change="values")
NAMES = Rule(NAME_NAMES, "harmless", "names of columns and classes", "They name columns and "
    "labels, not the rows that have them.", owner="R")
CODE = Rule("*", "harmless", "calls and functions", "Code of R, as it was typed: words and single "
    "numbers.", owner="R", texts=True)
ABOUT_COLUMNS = Rule("*", "not assessed", "numbers about columns",
    "One line for each column, or for each level of it. treeleak does not attack them.", owner="R")
SETTINGS = Rule("*", "harmless", "settings", "Single numbers and words, and what is empty.",
    owner="R", form=forms.short, texts=True)

OF_CLASSES: tuple[Rule, ...] = (
    Rule("inbag.counts inbag", "leaks", "row numbers that each tree drew", "It names the rows "
        "behind every count.", owner=_FORESTS, change="seeds"),
    Rule("index indexOut indexFinal Resample* Fold*", "leaks", "row numbers of resamples",
        "It names the training rows that each trial fit saw.", change="per_row",
        form=lambda v, _: not _is_frame(v) and np.ndim(vector_of(v)) < 2),
    Rule("resampledCM resampleResults byResample", "harmless", "scores",
        "Averages over rows, for columns, trees or settings.", form=_summary, when=_about),
    Rule("na.action", "leaks", "row numbers of rows left out", "It names the rows that were left "
        "out for missing values.", change="per_row", form=forms_of_r.left_out,
        when=lambda v, c: c.n_rows is None or vector_of(v)[-1] <= c.n_rows + lines_of(v)),
    Rule("loss", "harmless", "settings", "Each error costs the same.", form=rpart_shapes.is_even),
    Rule("where fitted", "leaks", "the leaf of each training row", "It says for each training row, "
        "in their order, in which leaf it lies.", owner=_TREES, change="per_row",
        in_order=True, form=lambda v, _: isinstance(v, (np.ndarray, StoredObject))),
    Rule("y", "leaks", "labels of all training rows, in order",
        "R keeps here the label or the target of each training row.", owner=f"{_FORESTS} {_TREES}",
        change="per_row", rows=True, when=lambda v, c: c.n_rows is None or lines_of(v) == c.n_rows),
    Rule("predicted votes oob.times predictions fit", "leaks", "one entry for each training row",
        "R keeps here one number, label or share for each training row, in their order.",
        owner=f"{_FORESTS} {_TREES}", change="per_row", in_order=True,
        when=lambda v, c: c.n_rows is None or lines_of(v) == c.n_rows),
    Rule("frame", "leaks", "class counts, class shares or mean target in each node",
        "These are the numbers of rows, of each class, in each node.", owner="rpart*",
        change="counts", form=rpart_shapes.is_frame),
    Rule("terminal.class.counts pred leaf.n nodepred", "leaks", "what each leaf predicts",
        "In a fully grown tree it is the label of the few rows in each leaf.", owner=_FORESTS,
        change="leaves", form=forms_of_r.predictions),
    Rule("ensemble node nodes tree prediction_weights weights", "leaks", "the rows of each node",
        "Nodes keep weights of training rows, counts, or predictions that are computed from them.",
        owner="RandomForest* BinaryTree* cforest* constparty* party*", change="counts",
        form=lambda v, _: not _is_frame(v)),
    Rule("split.values xbestsplit splits c.splits csplit", "leaks", "thresholds",
        "Each lies between two values of training rows, mostly half-way.",
        owner=f"{_FORESTS} {_TREES}", change="values", form=forms_of_r.thresholds),
    Rule("child.nodeIDs split.varIDs treemap nodestatus bestvar ndbigtree leftDaughter "
        "rightDaughter var.type ncat maxcat nrnodes is.ordered ordered var.monotone "
        "var.levels", "not assessed", "shape of the trees", "Predictions need it. The choice of "
        "splits depends on the rows. This audit does not attack the shape alone.",
        owner=f"{_FORESTS} {_TREES}",
        form=forms_of_r.shape),
    Rule("trees", "leaks", "what each node predicts", "Each node of a boosted tree has its split, "
        "its prediction and its number of rows.", owner="gbm*", change="leaves",
        form=lambda v, _: not _is_frame(v)),
    Rule("cptable", "harmless", "scores", "Averages over rows, for columns, trees or settings.",
        owner="rpart*", form=forms_of_r.complexities),
    Rule("variable.importance", "harmless", "scores", "Sums of what the tests of a column improve.",
        owner="rpart*", form=rpart_shapes.are_importances),
    Rule("frame variable.importance cptable", "not assessed", "unknown parts", "It does not follow "
        "from the tree. It may hold rows.", owner="rpart*", unknown=True,
        form=lambda v, _: not _is_frame(v) or {"var", "n"} <= {*v.state}),
    Rule("err.rate rsq confusion confusion.matrix", "not assessed", "unknown parts", "These are no "
        "errors of so many rows. Others may stand there.", owner="randomForest* ranger*",
        unknown=True, form=lambda v, o: not forms_of_r.errors(v, o)),
    Rule("err.rate mse rsq confusion confusion.matrix prediction.error r.squared results "
        "resample bestTune perfNames importance importanceSD localImportance variable.importance "
        "train.error valid.error oobag.improve initF times deviance null.deviance aic df.residual "
        "df.null rank iter converged boundary metric maximize yLimits modelInfo", "harmless",
        "scores", "Averages over rows, for columns, trees or settings.",
        owner=f"{_FORESTS} {_TREES} train* lm glm nls gam*", form=_summary, when=_about),
    Rule("coefficients cov.unscaled R qr qraux pivot assign", "not assessed", "fitted parameters",
        "They are computed from all rows together. treeleak does not attack them.",
        owner="lm glm nls gam* qr mlm", form=_summary, when=_about),
    Rule("resampledCM resampleResults byResample", "not assessed", "many scores", _MANY,
        unknown=True, form=_limited),
    Rule("err.rate mse rsq cptable results resample importance importanceSD localImportance "
        "variable.importance train.error valid.error oobag.improve times deviance aic "
        "confusion confusion.matrix bestTune perfNames modelInfo yLimits coefficients cov.unscaled "
        "R", "not assessed", "many scores", _MANY, unknown=True, form=_limited,
        owner=f"{_FORESTS} {_TREES} train* lm glm nls gam* qr mlm"),
)
WORDS = (
    "lm glm workspace function environment values enclosing formals body train finalModel control "
    "call arguments terms Environment recipe steps data frame vector factor qr content list value "
    "codes extra matrix code class srcref file R rpart gbm ranger randomForest formula cforest "
    "constparty ctree party glmnet xgb Booster coxph survreg gam nls preProcess workflow fit pre "
    "mold blueprint ptypes predictors outcomes ptype"
)
"""Names of classes and fields that say nothing of anybody."""

OF_R: tuple[Rule, ...] = (
    *OF_CLASSES, UNKNOWN, UNKNOWN_CODE, ROWS, PER_ROW, AS_MANY, VALUES, NAMES, CODE,
    ABOUT_COLUMNS, SETTINGS,
)
# fmt: on
