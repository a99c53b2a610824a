"""Forms and rules of R's tree models: ranger, randomForest, rpart, gbm, party.

A vector with names or another attribute is an object of its own: it is judged with what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeleak.auditing.inventory import conditions, forms
from treeleak.auditing.inventory.conditions import Rule
from treeleak.release.bounds import MOST_CLASSES, MOST_NODES, MOST_TREES
from treeleak.release.stored import Opaque, StoredObject

_ATTRIBUTES = {"value", "codes", "levels", "names", "dimnames", "class", "contrasts", "row.names"}
_MOST_CODE = 20_000
"""Symbols, calls and constants in a formula, or in the functions of a model."""
_FEW = 32
_IN_CODE = (
    "R.symbol", "R.call", "R.function", "R.formula", "R.Formula", "R.terms", "R.vector",
    "R.expression", "R.expressionsIndex",
)  # fmt: skip


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    """Take a vector with no attributes but names; None for anything else."""
    if isinstance(value, StoredObject):
        named = value.state.keys() <= _ATTRIBUTES
        labels = (value.get(key) for key in _ATTRIBUTES - {"value", "codes"})
        if not named or value.args or not all(map(_are_names, labels)):
            return None
        value = value.get("value", value.get("codes"))
    return value if isinstance(value, np.ndarray) else None


def _are_names(value: Any) -> bool:
    if isinstance(value, StoredObject):
        return _array(value) is not None and _are_names(value.get("value"))
    if isinstance(value, np.ndarray):
        flat = value.ravel().tolist()
        return value.dtype != object or all(forms.is_scalar(v, forms.MAX_NAME) for v in flat)
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return len(value) <= _FEW and all(map(_are_names, value))
    return value is None or forms.is_scalar(value, forms.MAX_NAME)


def _numbers(value: Any, most: float) -> bool:
    array = _array(value)
    return array is not None and array.dtype.kind in "biuf" and array.size <= most


def per_row(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """A number or a text for each row, or one for each class."""
    array = _array(value)
    if array is None:
        return False
    if array.dtype == object:
        return array.ndim == 1 and all(forms.is_scalar(v) for v in array.tolist())
    return array.ndim == 1 or (array.ndim == 2 and array.shape[1] <= MOST_CLASSES)


def square(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """A number for each two rows, or for each row and column or tree."""
    array = _array(value)
    return array is not None and array.ndim == 2 and array.dtype.kind in "biuf"


def per_node(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Numbers of the nodes of a tree, or of those of all trees."""
    array = _array(value)
    return array is not None and array.ndim <= 3 and array.dtype.kind in "biuf"


def lists(value: Any, owner: StoredObject, deep: int = 3) -> bool:
    """Vectors of numbers in lists: one for each tree, for each node of it, or both."""
    if isinstance(value, list):
        few = len(value) <= (MOST_TREES if deep == 3 else MOST_NODES)
        return few and deep > 0 and all(lists(item, owner, deep - 1) for item in value)
    return value is None or _numbers(value, MOST_NODES)


def texts(value: Any, owner: StoredObject) -> bool:
    """Names of columns, classes or categories, each of them once in its list."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return all(texts(item, owner) for item in value)
    array = np.array(value, dtype=object) if isinstance(value, tuple) else _array(value)
    if array is None or array.ndim > 1:
        return value is None
    flat = array.tolist()
    if array.dtype != object:
        return len(flat) <= _FEW or (array == np.round(array)).all()
    return len(set(flat)) == len(flat) and all(forms.is_scalar(v, forms.MAX_NAME) for v in flat)


def ranked(value: Any, owner: StoredObject) -> bool:
    """A few numbers for each column, or its categories."""
    listed = value if isinstance(value, list) else [None]
    return all(settings(item, owner) or texts(item, owner) for item in listed)


def scores(value: Any, owner: StoredObject) -> bool:
    """Averages over rows: for the whole, for each tree or column, and each class."""
    if isinstance(value, Mapping):
        return len(value) <= _FEW and all(scores(item, owner) for item in value.values())
    array = _array(value)
    if array is None or array.dtype.kind not in "biuf":
        return value is None
    return array.ndim <= 2 and array.size <= MOST_TREES


def nodes(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """The table of an rpart tree: a line for each node, columns that rpart writes."""
    known = {
        "var", "n", "wt", "dev", "yval", "complexity", "ncompete", "nsurrogate", "yval2",
        "row.names", "class",
    }  # fmt: skip
    if not isinstance(value, StoredObject) or not value.state.keys() <= known:
        return False
    return all(per_row(v, value) for k, v in value.state.items() if k not in ("class", "row.names"))


def settings(value: Any, owner: StoredObject) -> bool:
    """A few numbers and words, perhaps in a list."""
    if isinstance(value, Mapping):
        return len(value) <= _FEW and all(settings(v, owner) for v in value.values())
    array = _array(value)
    if array is None:
        return value is None or is_code(value, owner)
    return array.size <= _FEW and all(forms.is_scalar(v) for v in array.ravel().tolist())


def is_code(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Formulas, calls and functions with few constants in them, and no environment of their own."""
    stack, left = [value], _MOST_CODE
    while stack:
        one = stack.pop()
        left -= 1
        if left < 0:
            return False
        if isinstance(one, StoredObject):
            if one.type not in _IN_CODE or one.args:
                return False
            stack += one.state.values()
        elif isinstance(one, Mapping):
            stack += (*one.keys(), *one.values())
        elif isinstance(one, (list, tuple)):
            stack += one
        elif isinstance(one, np.ndarray):
            if not _is_constant(one):
                return False
        elif isinstance(one, Opaque) and one.type == "R.bytecode":
            stack += _constants(one)
        elif not (forms.is_scalar(one, forms.MAX_NAME) or _is_common(one)):
            return False
    return True


def _constants(code: Opaque) -> list[Any]:
    """Take what byte code holds beside its first part, the instructions."""
    held = list(code.content) if isinstance(code.content, (list, tuple)) else [code.content]
    first = held[0] if held else None
    steps = isinstance(first, np.ndarray) and first.dtype.kind == "i" and first.size <= _MOST_CODE
    return held[1:] if steps else held


def _is_constant(array: np.ndarray[Any, Any]) -> bool:
    """Say whether these are names, or numbers such as a formula has: few, or 0, 1 and 2."""
    if array.dtype == object:
        # Line breaks are usual in what functions print.
        flat = [" ".join(v.split()) if isinstance(v, str) else v for v in array.ravel().tolist()]
        return all(forms.is_scalar(v, forms.MAX_NAME) for v in flat)
    return array.size <= _FEW or (array.ndim == 2 and bool(np.isin(array, (0, 1, 2)).all()))


def _is_common(value: Any) -> bool:
    return isinstance(value, Opaque) and value.content is None


_MODELS = "ranger ranger.forest randomForest randomForest.formula rpart gbm"
_PARTY = "constparty simpleparty party BinaryTree"

# fmt: off
OF_R_MODELS: tuple[Rule, ...] = (
    Rule("data x model", "leaks", "training table", "The file holds the training rows themselves.",
         owner=f"gbm rpart {_PARTY}", when=conditions.filled, change="rows", rows=True),
    Rule("y", "leaks", "labels of all training rows, in order",
         "It holds the label or the target of every training row.",
         owner="randomForest randomForest.formula rpart", when=conditions.filled,
         change="per_row", form=per_row),
    Rule("where", "leaks", "leaf of every training row, in order",
         "It holds one entry for every training row: with the tree, what each row is like.",
         owner="rpart BinaryTree", when=conditions.filled, change="per_row", form=per_row),
    Rule("inbag inbag.counts", "leaks", "row numbers that each tree drew",
         "It names the rows behind every leaf.",
         owner=_MODELS, when=conditions.filled, change="per_row",
         form=lambda value, owner: square(value, owner) or lists(value, owner)),
    Rule("predictions predicted votes oob.times fit cv.fitted", "leaks",
         "predictions for all training rows, in order",
         "It holds one entry for every training row, most often of the trees that did not see it: "
             "with the trees, a number that hardly any two different rows share.",
         owner=_MODELS, when=conditions.filled, change="per_row", form=per_row),
    Rule("proximity localImportance variable.importance.local na.action weights", "leaks",
         "one entry for each training row", "It holds one entry for every training row.",
         owner=_MODELS, when=conditions.filled, change="per_row",
         form=lambda value, owner: square(value, owner) or per_row(value, owner)),
    Rule("frame", "leaks", "rows, deviance and answer of each node",
         "Each number counts the training rows in a small part of the data. Many such counts "
             "together determine the rows.",
         owner="rpart", change="counts", form=nodes),
    Rule("trees", "leaks", "tests, rows, gain and answer of each node",
         "Each number counts the training rows in a small part of the data. Many such counts "
             "together determine the rows.",
         owner="gbm", change="counts", form=lists),
    Rule("terminal.class.counts", "leaks", "class shares of each leaf",
         "These are the labels of the rows in the leaf. In a leaf of one row it is that row's own.",
         owner="ranger.forest", change="leaves", form=lists),
    Rule("nodepred", "leaks", "prediction of each leaf",
         "In a fully grown tree it is the class, or the target, of the few rows in each leaf.",
         owner="randomForest randomForest.formula", change="leaves", form=per_node),
    Rule("split.values xbestsplit splits", "leaks", "thresholds",
         "Each lies between two values of training rows, mostly half-way.",
         owner=_MODELS, change="values",
         form=lambda value, owner: per_node(value, owner) or lists(value, owner)),
    Rule("var.levels", "leaks", "smallest, largest or ranked values",
         "Of each column it holds the least and the greatest value of all rows, and those at each "
             "tenth between; of factors, the categories.",
         owner="gbm", change="values",
         form=ranked),
    Rule("variable.importance importance importanceSD", "leaks", "importance of columns",
         "It is worked out of the rows and the impurities of all nodes, or of the rows that trees "
             "did not see.",
         owner=_MODELS, when=conditions.filled, change="counts", form=scores),
    Rule("child.nodeIDs split.varIDs treemap leftDaughter rightDaughter bestvar nodestatus csplit "
         "c.splits ndbigtree split.multvarIDs", "not assessed", "shape of the trees",
         "Predictions need it. The choice of splits depends on the rows. This audit does not "
             "attack the shape alone.",
         owner=_MODELS,
         form=lambda value, owner: per_node(value, owner) or lists(value, owner)),
    Rule("confusion confusion.matrix initF prior parms", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the number of "
             "rows, it gives the rows of each class.",
         owner=_MODELS,
         form=scores),
    Rule("prediction.error r.squared err.rate mse rsq train.error valid.error oobag.improve "
         "cv.error cptable", "harmless", "scores", "These are averages over many rows.",
         owner=_MODELS, form=scores),
    Rule("num.samples nTrain nrnodes maxcat ncat nclass pid cutoff", "harmless", "sizes",
         "Numbers of rows, columns, classes and trees.", owner=_MODELS, form=scores),
    Rule("independent.variable.names levels class.values is.ordered covariate.levels classes "
         "xlevels ylevels ordered var.names var.type var.monotone dependent.varID class "
         "response.name", "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner=f"{_MODELS} {_PARTY}",
         form=lambda value, owner: texts(value, owner) or scores(value, owner)),
    Rule("call terms Terms m formula functions summary print text", "harmless",
         "the call that made the model",
         "Formulas and settings as they were written. (An environment in it would be listed.)",
         owner=f"{_MODELS} {_PARTY}", form=is_code),
    Rule("control distribution name", "harmless", "settings",
         "These were chosen before training, without looking at rows.",
         owner=_MODELS, form=settings),
)
# fmt: on
