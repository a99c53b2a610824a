"""What the parts of Yggdrasil's models (YDF, TensorFlow Decision Forests) disclose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.auditing.inventory import forms, numbers
from treeleak.auditing.inventory.conditions import Context, Rule
from treeleak.auditing.inventory.owners import numbers_in
from treeleak.core.arrays import FloatArray, IntArray
from treeleak.release.stored import StoredObject

_SINGLE = 1e-5
"""Of gains in single precision, which are sums over classes."""
_MOST_SAME = 0.5
"""Share of leaves that count fewer or more rows than their classes, where rows have no weights."""


def _of_nodes(value: Any, owner: StoredObject) -> bool:
    """A number, or one of each class, for each node; or for each category that a node tests for."""
    array = numbers_in(value)
    if array is None or array.ndim == 0:
        return False
    others = [len(v) for k, v in owner.state.items() if isinstance(v, np.ndarray) and not (
        k.endswith(".at") or f"{k}.at" in owner.state)]  # fmt: skip
    ragged = any(value is v for k, v in owner.state.items() if k.endswith(".at") or
                 f"{k}.at" in owner.state)  # fmt: skip
    return ragged or set(others) == {len(array)}


def _follows(value: Any, owner: StoredObject) -> bool:
    """What a tree says twice: sums of counts, classes of most rows, and what a test gains."""
    name = next((k for k, v in owner.state.items() if v is value), "")
    expected, array = _derived(owner).get(name), numbers_in(value)
    if expected is None or array is None or not _of_nodes(value, owner):
        return _of_nodes(value, owner)
    at, found = expected
    rest = np.ones(len(array), dtype=bool)
    rest[at] = False
    # What a node lacks, the reader writes so.
    empty = np.isnan(array[rest]) if array.dtype.kind == "f" else array[rest] == -1
    off = np.abs(array[at] - found)
    return bool((off <= _SINGLE * np.maximum(np.abs(found), 1.0)).all() and empty.all())


def _derived(owner: StoredObject) -> dict[str, tuple[IntArray, NDArray[Any]]]:
    """Work out, by name, the nodes that have a number, and what it is."""
    state = owner.state
    counts, sums = (state.get(f"{k}.distribution.{n}") for k, n in (
        ("classifier", "counts"), ("regressor", "count")))  # fmt: skip
    sums = counts.sum(axis=1) if counts is not None else state.get("regressor.sum_weights", sums)
    rows = state.get("num_pos_training_examples_without_weight")
    below = _children(state.get("condition.attribute"))
    if sums is None or below is None or len(below) != len(sums):
        return {}
    inner, every = np.flatnonzero(below[:, 0]), np.arange(len(sums))
    negative, positive = below[inner].T
    out = {
        "classifier.distribution.sum": (every, sums),
        "condition.num_training_examples_with_weight": (inner, sums[inner]),
        "condition.num_pos_training_examples_with_weight": (inner, sums[positive]),
    }
    if rows is not None:
        out["condition.num_training_examples_without_weight"] = inner, rows[inner]
        out["condition.num_pos_training_examples_without_weight"] = inner, rows[positive]
    if counts is not None and (label := numbers_in(state.get("classifier.top_value"))) is not None:
        most = counts == counts.max(axis=1, keepdims=True)
        is_most = np.array(
            [0 <= k < most.shape[1] and most[v, int(k)] for v, k in enumerate(label)]
        )
        out["classifier.top_value"] = every, np.where(is_most, label, -9)
    impure = _impurity(state, counts, sums)
    if rows is not None and np.mean((rows != sums)[below[:, 0] == 0]) > _MOST_SAME:
        # Of rows with weights, or of trees whose leaves count others than those that made them.
        del out["condition.num_pos_training_examples_with_weight"]
    elif impure is not None:
        gain = sums[negative] * impure[negative] + sums[positive] * impure[positive]
        gain = impure[inner] - gain / np.maximum(sums[inner], 1e-300)
        out["condition.split_score"] = inner, gain
    return out


def _impurity(state: Mapping[str, Any], counts: Any, sums: Any) -> FloatArray | None:
    """Entropy of classes, or variance of targets."""
    if counts is not None:
        shares = counts / np.maximum(sums, 1e-300)[:, None]
        return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1))
    total, squares = (state.get(f"regressor.distribution.{k}") for k in ("sum", "sum_squares"))
    if total is None or squares is None:
        return None
    return np.asarray(squares / sums - (total / sums) ** 2)


def _children(tested: Any) -> IntArray | None:
    """Number the children of each node, in whose order each comes before those below it."""
    if not isinstance(tested, np.ndarray):
        return None
    below, size = np.zeros((len(tested), 2), dtype=int), np.ones(len(tested), dtype=int)
    for v in range(len(tested) - 1, -1, -1):
        if tested[v] >= 0:
            first = v + 1
            second = first + size[first] if first < len(tested) else len(tested)
            if second >= len(tested):
                return None
            below[v], size[v] = (first, second), 1 + size[first] + size[second]
    return below


def _each_once(value: Any, owner: StoredObject) -> bool:  # noqa: ARG001
    """Whole numbers, each of them once: of columns, of rounds."""
    array = numbers_in(value)
    return (
        array is not None
        and array.ndim == 1
        and (array.dtype.kind in "iu" or not array.size)
        and len(np.unique(array)) == len(array)
    )


def _rounds(value: Any, owner: StoredObject) -> bool:
    """Rounds in their order, numbered from the first ones on."""
    array = numbers_in(value)
    if array is None or not _each_once(value, owner):
        return False
    return not array.size or bool(
        array[0] > 0 and (np.diff(array) > 0).all() and array[-1] <= forms.SHORT * len(array)
    )


def _beside(*names: str) -> forms.Form:
    """As many numbers, or lists of a few, as one of these has, which has each of its own once."""

    def form(value: Any, owner: StoredObject) -> bool:
        array = numbers_in(value)
        first = next((owner.get(name) for name in names if owner.get(name) is not None), None)
        known = _rounds if names == ("number_of_trees",) else _each_once
        if array is None or first is None or not known(first, owner):
            return False
        return len(array) == len(first) and array.size <= forms.SHORT * len(array)

    return form


def _one_each(value: Any, owner: StoredObject) -> bool:
    """A number for each output, or for each pair of classes."""
    array, state = numbers_in(value), owner.state
    sides = [v for k, v in state.items() if k.endswith((".nrow", ".ncol"))]
    whole = all(isinstance(side, int) for side in sides)
    most = int(np.prod(sides)) if len(sides) == 2 and whole else state.get("num_trees_per_iter", 1)
    return array is not None and array.size <= max(most, 1) and array.size <= forms.SHORT**2


def _is_class(value: Any, context: Context) -> bool:
    """Whether the categories are the classes."""
    names = {str(c) for c in context.release.classes} if context.release is not None else set()
    return bool(names) and {str(v) for v in value} - {"<OOD>"} == names


_AVERAGES = "Each is an average, or a number of rows, over a table that training was watched with."
_COUNTS = (
    "Each number counts the draws, or the rows, in a small part of the data. Many such counts "
    "together determine the rows. With the library's default seed, anyone repeats the draws."
)

# fmt: off
OF_YDF: tuple[Rule, ...] = (
    # -- trees
    Rule("classifier.distribution.* *num_*examples*", "leaks", "rows, draws or weights in each "
         "node", _COUNTS, owner="Tree", change="counts", form=_follows),
    Rule("regressor.distribution.* regressor.sum_*", "leaks", "sums of targets, or of derivatives",
         "Every node has the number of its rows, and the sums of their targets or first "
             "derivatives, and of squares or second derivatives, to 15 digits. Earlier trees give "
             "the derivatives of a row: equations on the rows of each node.",
         owner="Tree", change="counts", form=_of_nodes),
    Rule("regressor.top_value classifier.top_value", "leaks", "what each leaf predicts",
         "Predictions need it. It is computed from the rows of the leaf alone.",
         owner="Tree", change="leaves", form=_follows),
    Rule("condition.split_score", "leaks", "gain of each split",
         "It is computed from the counts or sums of a node, and gives some of them back.",
         owner="Tree", change="counts", form=_follows),
    Rule("condition.condition.*threshold", "leaks", "thresholds",
         "Each lies between two values of training rows, mostly half-way.",
         owner="Tree", change="values", form=_of_nodes, of_columns=numbers.all_thresholds),
    Rule("condition.na_value", "harmless", "where missing values go",
         "They go where the mean, or the most frequent category, goes.",
         owner="Tree", form=_of_nodes),
    Rule("condition.attribute condition.condition.*", "not assessed", "shape of the trees",
         "Predictions need it. The choice of splits depends on the rows. This audit does not "
             "attack the shape alone.", owner="Tree", form=_of_nodes),
    # -- columns
    Rule("numerical.min_value numerical.max_value *_observed_size", "leaks",
         "smallest and largest value of each column",
         "These are values of single rows. They come from all rows, those that were held back "
             "too.",
         owner="Column", change="values", form=forms.short),
    Rule("numerical.mean numerical.standard_deviation", "harmless", "means and spreads of columns",
         "They cover all rows. (With very few rows even these disclose much.)",
         owner="Column", form=forms.short),
    Rule("discretized_numerical.boundaries", "leaks", "borders between values of each column",
         "Each is the middle of two neighbouring values of the training rows.",
         owner="Column", change="values"),
    Rule("count_nas", "harmless", "columns without missing values", "None.", owner="Column",
         form=forms.short, when=lambda v, _: not v),
    Rule("count_nas boolean.*", "leaks", "rows with each value, or without one",
         "They count rows of the whole table by one column.",
         owner="Column", change="counts", form=forms.short),
    Rule("key", "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="Item", form=lambda v, _: forms.each_once(v), when=_is_class),
    Rule("key", "leaks", "values that occur in the training rows",
         "The list includes values that few people have: by default, five or more. Predictions "
             "from texts need it.",
         owner="Item", change="values", form=lambda v, _: forms.each_once(v)),
    Rule("value.count", "leaks", "rows with each value, or without one",
         "They count rows of the whole table by one column, or by class.",
         owner="Item", change="counts", form=forms.per_row),
    Rule("value.index", "harmless", "sizes", "It numbers the categories.",
         owner="Item", form=_each_once),
    Rule("name original_name", "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="Column Unstacked", form=forms.names),
    # -- how training went
    Rule("curve threshold tp fp tn fn", "leaks", "shares of rows above each score",
         "One entry for each different score of a row that its trees, or training, had left out, "
             "with how many rows of the class have it.",
         owner="Point", change="per_row"),
    Rule("*", "leaks", "label and prediction of each row that was held back",
         "They stand in the order of the table. With the library's default seed, anyone knows "
             "which rows of it these are.",
         owner="Prediction", change="per_row", rows=True),
    Rule("evaluation.count_predictions*", "leaks", "rows that the first trees did not draw",
         "They confirm a guessed seed. Of a single tree, they are the rows that were held back.",
         owner="OutOfBag", change="counts", form=forms.short),
    Rule("evaluation.*counts", "harmless", "scores after each round", _AVERAGES,
         owner="OutOfBag", form=_one_each),
    Rule("evaluation.* auc pr_auc ap count_predictions number_of_trees", "harmless",
         "scores after each round", _AVERAGES, owner="OutOfBag Roc", form=forms.short),
    Rule("number_of_trees", "harmless", "scores after each round", _AVERAGES, owner="Entry",
         form=_rounds),
    Rule("*", "harmless", "scores after each round", _AVERAGES,
         owner="Entry", form=_beside("number_of_trees")),
    Rule("importance", "leaks", "importance of columns",
         "It is worked out of the numbers of rows and the gains of all nodes, and gives some of "
             "them back.",
         owner="VariableImportance", change="counts", form=_beside("attribute_idx")),
    Rule("attribute_idx input_features", "harmless", "names of columns and classes",
         "They name columns and labels, not the rows that have them.",
         owner="VariableImportance AbstractModel", form=_each_once),
    Rule("initial_predictions", "harmless", "where predictions begin",
         "It discloses the mean target, or the share of each class in all rows. With the number of "
             "rows, it gives the rows of each class.",
         owner="GradientBoostedTreesHeader", form=_one_each),
    Rule("validation_loss training_logs.* num_* node_format created_num_rows", "harmless", "sizes",
         "Numbers of rows, columns, classes and trees.",
         owner="RandomForestHeader GradientBoostedTreesHeader DataSpecification",
         form=forms.short),
    Rule("*", "harmless", "settings", "These were chosen before training, without looking at rows.",
         owner="Column AbstractModel LinkedWeightDefinition CategoricalWeight VariableImportances "
         "Metadata RandomForestHeader GradientBoostedTreesHeader Unstacked", form=forms.short,
         texts=True),
)
# fmt: on
